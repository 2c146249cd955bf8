"""A plan says how far it is, in order, and stops where nobody listens any more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from estimator import Workload, estimate, plan
from estimator.planning.steps import STAGES

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"gpus": ["H100:8"]}}


def test_a_plan_tells_every_stage_in_order_and_is_the_same_as_one_that_is_not_heard() -> None:
    heard: list[tuple[str, int, int]] = []
    now = datetime(2026, 9, 1, tzinfo=UTC)
    document = plan(Workload(**LORA), told=lambda *step: heard.append(step), now=now)
    assert document == plan(Workload(**LORA), now=now)
    stages = list(dict.fromkeys(stage for stage, _, _ in heard))
    assert stages == [stage for stage in STAGES if stage != "estimates"]
    assert all(0 <= done <= whole for _, done, whole in heard)
    assert [done for stage, done, _ in heard if stage == "plans"] == list(range(len(document.plans)))


def test_an_estimate_tells_of_each_machine() -> None:
    heard: list[tuple[str, int, int]] = []
    asked = LORA | {"constraints": {"gpus": ["H100:8", "T4:1"]}}
    estimate(Workload(**asked), told=lambda *step: heard.append(step))
    assert heard == [("estimates", 0, 2), ("estimates", 1, 2)]


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "estimates"])
def test_a_listener_that_raises_stops_the_plan_there(stage: str) -> None:
    heard = []

    def stop(now: str, _done: int, _whole: int) -> None:
        heard.append(now)
        if now == stage:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        plan(Workload(**LORA), told=stop)
    assert heard[-1] == stage
    assert heard.count(stage) == 1
