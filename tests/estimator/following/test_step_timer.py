from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from benchmarks_db.contribute import read_measurements
from estimator import StepTimer
from estimator.following.step_timer import COLUMNS


def timer(*seconds: float, warmup: int = 1) -> StepTimer:
    """A timer whose steps took this long by its clock."""
    ticks = iter([tick for start, each in zip(count(0, 100), seconds, strict=False) for tick in (start, start + each)])
    found = StepTimer(32, warmup=warmup, clock=lambda: float(next(ticks)))
    for _ in seconds:
        with found:
            pass
    return found


def test_the_median_step_after_the_warm_up_counts() -> None:
    found = timer(9.0, 0.5, 0.4, 3.0)
    assert found.median_seconds == 0.5
    assert found.samples_per_second == 64.0


def test_a_step_that_failed_is_not_counted_and_its_error_goes_on() -> None:
    found = timer(1.0, 1.0, warmup=0)
    with pytest.raises(ZeroDivisionError), StepTimer(1, clock=lambda: 0.0) as other:
        _ = 1 / 0
    assert other.seconds == []
    assert len(found.counted) == 2


def test_the_device_has_finished_before_each_reading_of_the_clock() -> None:
    order: list[str] = []
    found = StepTimer(1, synchronize=lambda: order.append("wait"), clock=lambda: float(order.append("read") or 0))
    with found:
        order.append("step")
    assert order == ["wait", "read", "step", "wait", "read"]


def test_nothing_but_warm_up_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="the first 3 are warm-up"):
        _ = timer(1.0, 1.0, warmup=3).median_seconds


def test_its_file_is_one_that_benchmarks_add_reads(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    found = timer(9.0, 0.5, 0.5)
    found.write(file, model="llama3-8b", gpu="RTX-3090", micro_batch=4, seq_len=2048, precision="bf16", peft="lora")
    found.write(file, model="llama3-8b", gpu="RTX-3090:2", micro_batch=4)
    first, second = read_measurements(file)
    assert (first["throughput"], first["unit"], first["global_batch"], first["seq_len"]) == (
        "64",
        "samples/s",
        "32",
        "2048",
    )
    assert second["gpus"] == "2"


def test_a_column_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="seqlen is no column"):
        timer(1.0, 1.0).row(model="x", gpu="y", seqlen=3)


def test_every_column_is_one_of_the_measurements() -> None:
    from benchmarks_db import schema

    assert set(COLUMNS) <= set(schema.names(schema.MEASUREMENT))
