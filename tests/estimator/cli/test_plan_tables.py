from __future__ import annotations

import pytest

from estimator.cli.plan_tables import hours_line

from .conftest import output


def entry(**parts: float) -> dict[str, object]:
    return {"hours": {"p50": sum(parts.values())}, "hours_parts": parts}


def test_the_hours_of_a_plan_are_told_by_part_the_longest_first() -> None:
    said = hours_line(entry(provisioning=0.05, warm_up=0.05, training=3.0, evaluation=0.5, spread=0.4), "Its hours")
    assert said.startswith("Its hours: training 3, evaluation 0.5, late ends 0.4, start-up 0.1 (")


def test_parts_that_do_not_show_and_hours_of_training_alone_are_left_out() -> None:
    assert "checkpoints" not in hours_line(entry(training=100.0, evaluation=2.0, checkpoints=0.01), "Its hours")
    assert hours_line(entry(training=3.0), "Its hours") == ""


@pytest.mark.usefixtures("quiet")
def test_an_answer_shows_how_the_job_is_divided(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--model", "llama2-7b", "--tokens", "10M", "--seq-len", "2048", "--gpu", "A100-80GB:8", "--offline"]
    asked += ["--sharding", "zero3", "--micro-batch", "2"]
    divided = "micro-batch 2 x accumulation 4, data 8, zero3"
    assert divided in output(capsys, "estimate", *asked)
    assert f"Layout of plan 1: {divided}" in output(capsys, "plan", *asked, "--market", "on-demand", "--max-nodes", "1")
