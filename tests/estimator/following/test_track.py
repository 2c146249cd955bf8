from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.following.track import Progress, read_log, track

PLAN = (8.0, 10.0, 13.0)


def log(steps: int, *, each: float = 2.0, total: int = 1000, noise: float = 0.0, seed: int = 0) -> Progress:
    rng = np.random.default_rng(seed)
    seconds = np.cumsum(each * np.exp(rng.normal(0, noise, steps))) if noise else each * np.arange(1, steps + 1)
    return Progress(np.arange(1.0, steps + 1), seconds, float(total))


@pytest.mark.parametrize(
    "lines",
    [
        [f" {s * 10}%|██  | {s * 10}/100 [00:{s * 5:02d}<02:11,  2.00it/s]" for s in range(1, 9)],
        [f"iteration {s * 10:8d}/     100 | elapsed time per iteration (ms): 500.0 | loss 2.1" for s in range(1, 9)],
        [f"iter {s * 10}: loss 3.41, time 500.00ms, mfu 31.00%" for s in range(1, 9)],
        [f"step {s * 10}/100 loss 1.2 0.5 s/it" for s in range(1, 9)],
        [f"2026-01-01 00:00:{s * 5:02d},000 INFO step: {s * 10} of 100" for s in range(1, 9)],
        [f'{{"step": {s * 10}, "loss": 1.0, "_runtime": {s * 5.0}, "max_steps": 100}}' for s in range(1, 9)],
        [f"{{'loss': 1.0, 'step': {s * 10}, 'timestamp': '2026-01-01T00:00:{s * 5:02d}Z'}}" for s in range(1, 9)],
    ],
)
def test_steps_and_their_time_are_found_in_usual_logs(lines: list[str]) -> None:
    progress = read_log(["starting up", *lines, "saving checkpoint"])
    assert progress.done == 80
    assert (progress.seconds[-1] - progress.seconds[0]) / 70 == pytest.approx(0.5, rel=1e-6)
    assert progress.total in (100, None)


def test_a_bar_that_overwrites_itself_is_read_too() -> None:
    line = "\r".join(f" {s}/100 [00:{s:02d}<01:00, 1.00it/s]" for s in range(1, 40))
    assert read_log([line]).done == 39


def test_a_restart_counts_its_time_and_not_its_steps() -> None:
    first = [f"step {s}/100 1.0 s/it" for s in range(1, 51)]
    again = [f"step {s}/100 1.0 s/it" for s in range(40, 61)]
    progress = read_log([*first, *again])
    assert progress.done == 60
    assert progress.seconds[-1] == pytest.approx(49 + 20)


@pytest.mark.parametrize(
    "lines", [[], ["hello"], ["step 5/100"], ["step 1 of 10", "step 2 of 10"], ["{", '{"step": "x"}']]
)
def test_a_log_without_timed_steps_is_refused(lines: list[str]) -> None:
    with pytest.raises(WorkloadError) as caught:
        read_log(lines)
    assert caught.value.field == "LOG"


def test_what_remains_follows_the_pace_of_the_log() -> None:
    found = track(log(250, each=36.0), usd_per_hour=4.0)
    assert found.remaining_hours.p50 == pytest.approx(7.5)
    assert found.hours_so_far == pytest.approx(2.5)
    assert found.total_hours.p50 == pytest.approx(10.0)
    assert found.remaining_usd is not None
    assert found.remaining_usd.p50 == pytest.approx(30.0)
    assert found.weight_of_log == 1


def test_the_interval_tightens_as_steps_come_in() -> None:
    widths = []
    for steps in (10, 50, 200, 600, 950):
        whole = track(log(steps, each=36.0, noise=0.3), planned_hours=PLAN).total_hours
        assert whole.p10 < whole.p50 < whole.p90
        widths.append(whole.p90 / whole.p10)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] < PLAN[2] / PLAN[0] * 1.01


def test_the_interval_holds_the_truth_eight_times_in_ten() -> None:
    truth = log(1000, each=36.0, noise=0.4, seed=5)
    inside = 0
    for seed in range(60):
        run = log(1000, each=36.0, noise=0.4, seed=seed)
        seen = Progress(run.steps[:100], run.seconds[:100], run.total)
        whole = track(seen).total_hours
        inside += whole.p10 <= run.seconds[-1] / 3600 <= whole.p90
    assert inside >= 48
    assert truth.done == 1000


def test_few_steps_leave_the_plan_its_say() -> None:
    early = track(log(3, each=360.0, noise=0.5), planned_hours=PLAN)
    late = track(log(500, each=360.0), planned_hours=PLAN)
    assert early.weight_of_log < 0.5 < 0.9 < late.weight_of_log
    assert early.pace is not None
    assert late.pace is not None
    assert late.pace > 8 > early.pace


def test_a_finished_job_has_nothing_left() -> None:
    found = track(log(1000))
    assert found.remaining_hours.p90 == 0
    assert found.total_hours.p10 == found.total_hours.p90 == pytest.approx(2000 / 3600)


@pytest.mark.parametrize("total", [None, 0.0, float("nan"), 5.0])
def test_a_total_that_cannot_be_is_refused(total: float | None) -> None:
    progress = log(10)
    with pytest.raises(WorkloadError) as caught:
        track(Progress(progress.steps, progress.seconds, None), total_steps=total)
    assert caught.value.field == "--steps"


@given(st.lists(st.text(alphabet="step iter123456789/:[]<,.ms{}'\"T-Z \r", max_size=60), max_size=12))
def test_any_text_is_progress_or_a_refusal(lines: list[str]) -> None:
    try:
        progress = read_log(lines)
    except WorkloadError:
        return
    assert np.all(np.diff(progress.steps) > 0)
    assert np.all(np.diff(progress.seconds) >= 0)
    assert math.isfinite(track(progress, total_steps=progress.done + 1).total_hours.p90)
