"""Where nothing fits: the machine that came nearest, with an account that adds up."""

from __future__ import annotations

from typing import Any

import pytest

from estimator import Workload, plan
from estimator.planning.explain import closest_lines

CASES: list[dict[str, Any]] = [
    {"model": "llama3-8b", "method": "full", "constraints": {"gpus": ["T4:1"]}},
    {"model": "llama3-8b", "method": "full", "constraints": {"gpus": ["T4", "L4:1"], "max_nodes": 1}},
    {"model": "llama3-70b", "method": "lora", "seq_len": 131072, "constraints": {"gpus": ["A10G:1"]}},
]


@pytest.mark.parametrize("asked", CASES)
def test_what_lacks_least_memory_is_accounted_for(asked: dict[str, Any]) -> None:
    document = plan(Workload(**asked, tokens="50M"))
    assert document.binding == "memory"
    assert document.closest
    memory = document.closest.memory_gib
    assert memory.used is not None
    assert memory.capacity is not None
    assert memory.used > memory.capacity
    assert sum(memory.parts.values()) == pytest.approx(memory.used)
    assert memory.margin == pytest.approx(memory.capacity - memory.used)
    assert memory.verdict == "no"


def test_the_closest_of_several_cards_is_the_one_that_lacks_least() -> None:
    ratios = {}
    for gpus in (["T4:8"], ["L4:8"], ["T4:8", "L4:8"]):
        found = plan(
            Workload(model="llama3-70b", method="full", tokens="50M", constraints={"gpus": gpus, "max_nodes": 1})
        ).closest
        assert found is not None
        ratios[tuple(gpus)] = (found.memory_gib.used or 0.0) / (found.memory_gib.capacity or 1.0)
    *alone, both = ratios.values()
    assert both == pytest.approx(min(alone))


def test_nothing_is_closest_where_memory_is_not_what_is_missing() -> None:
    assert plan(Workload(model="llama3-8b", method="lora", tokens="50M")).closest is None
    assert plan(Workload(model="llama3-8b", method="lora", tokens="50M", constraints={"budget": 0.001})).closest is None


def test_the_account_is_told_in_lines_with_margin_probability_and_phases() -> None:
    document = plan(Workload(**CASES[0], tokens="50M"))
    assert document.closest
    told = "\n".join(closest_lines(document.closest))
    assert "T4" in told
    assert "GiB too much, fits with a probability of 1% or less" in told
    peaks = told[told.index("peak of each phase") :]
    assert all(phase in peaks for phase in ("forward", "backward", "optimizer", "evaluation", "checkpoint"))
