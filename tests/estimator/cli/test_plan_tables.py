from __future__ import annotations

from estimator.cli.plan_tables import hours_line


def entry(**parts: float) -> dict[str, object]:
    return {"hours": {"p50": sum(parts.values())}, "hours_parts": parts}


def test_the_hours_of_a_plan_are_told_by_part_the_longest_first() -> None:
    said = hours_line(entry(provisioning=0.05, warm_up=0.05, training=3.0, evaluation=0.5, spread=0.4), "Its hours")
    assert said.startswith("Its hours: training 3, evaluation 0.5, late ends 0.4, start-up 0.1 (")


def test_parts_that_do_not_show_and_hours_of_training_alone_are_left_out() -> None:
    assert "checkpoints" not in hours_line(entry(training=100.0, evaluation=2.0, checkpoints=0.01), "Its hours")
    assert hours_line(entry(training=3.0), "Its hours") == ""
