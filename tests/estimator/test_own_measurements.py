from __future__ import annotations

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.own_measurements import COLUMNS, checked, utilisation

ROW = {
    "model": "llama3-8b",
    "gpu": "A100-SXM4-80GB",
    "gpus": "8",
    "precision": "bf16",
    "seq_len": "2048",
    "micro_batch": "2",
    "global_batch": "64",
    "throughput": "24000",
    "unit": "tokens/s",
}


def test_a_good_row_comes_back_with_every_column() -> None:
    (row,) = checked([{**ROW, "mood": "good"}], source="mine.csv")
    assert tuple(row) == COLUMNS
    assert row["throughput"] == "24000"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"throughput": ""}, "throughput is needed"),
        ({"throughput": "-3"}, "above 0"),
        ({"throughput": "fast"}, "throughput"),
        ({"unit": ""}, "unit is needed"),
        ({"unit": "furlongs/s"}, "unknown unit"),
        ({"gpu": "H1000"}, "unknown GPU"),
        ({"gpu": ""}, "gpu is needed"),
        ({"model": "no-such-model"}, "model"),
        ({"scope": "half"}, "scope"),
        ({"throughput": "1e9"}, "of what A100-SXM4-80GB can do"),
    ],
)
def test_a_row_that_cannot_be_believed_is_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        checked([ROW, {**ROW, **change}], source="mine.csv")
    assert caught.value.field == "measured"
    assert "mine.csv row 2" in str(caught.value)


def test_no_rows_are_no_measurements() -> None:
    with pytest.raises(WorkloadError, match="no measurements"):
        checked([], source="mine.csv")


def test_the_utilisation_is_the_6nd_rule_of_thumb() -> None:
    (share,) = utilisation([ROW])
    assert share == pytest.approx(6 * 8.03e9 * 24000 / (8 * 312e12), rel=0.15)


def test_rates_per_gpu_and_times_per_step_mean_the_same() -> None:
    per_gpu = {**ROW, "throughput": "3000", "scope": "per_gpu"}
    step = {**ROW, "throughput": str(64 * 2048 / 24000), "unit": "s/step"}
    assert utilisation([per_gpu, step]) == pytest.approx(utilisation([ROW]) * 2)
