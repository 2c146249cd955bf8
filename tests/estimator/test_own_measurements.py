from __future__ import annotations

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.own_measurements import believed, utilisation

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


def test_the_utilisation_is_the_6nd_rule_of_thumb() -> None:
    (share,) = utilisation([ROW])
    assert share == pytest.approx(6 * 8.03e9 * 24000 / (8 * 312e12), rel=0.15)


def test_rates_per_gpu_and_times_per_step_mean_the_same() -> None:
    per_gpu = {**ROW, "throughput": "3000", "scope": "per_gpu"}
    step = {**ROW, "throughput": str(64 * 2048 / 24000), "unit": "s/step"}
    assert utilisation([per_gpu, step]) == pytest.approx(utilisation([ROW]) * 2)


def test_a_throughput_above_the_peak_is_refused_with_its_row() -> None:
    assert believed([ROW], source="mine.csv")[0] == pytest.approx(0.448, abs=0.05)
    with pytest.raises(WorkloadError, match=r"mine\.csv row 2: 1e9 tokens/s would be .* of what 8 x A100") as caught:
        believed([ROW, {**ROW, "throughput": "1e9"}], source="mine.csv")
    assert caught.value.field == "throughput"


def test_a_row_that_cannot_be_computed_has_no_utilisation() -> None:
    assert utilisation([ROW, {**ROW, "model": "nobody-knows"}])[1] is None
