from __future__ import annotations

import math

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.documents import EstimateEntry
from estimator.job import job_of
from estimator.planning.estimates import estimate
from estimator.planning.own_measurements import believed, row_of, utilisation
from estimator.request.workload import Workload

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


LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048}
MEASURED = "1300 tokens/s on 1xRTX-3090, micro-batch 1"


def answer(gpu: str, *measured: str, **request: object) -> EstimateEntry:
    workload = Workload.model_validate({**LORA, **request, "measured": list(measured)})
    return estimate(workload, gpus=(gpu,)).estimates[0]


def width(entry: EstimateEntry) -> float:
    return float(entry.hours.p90 / entry.hours.p10)


def test_the_interval_is_wider_where_nobody_said_how_long_the_samples_are() -> None:
    told, packed = answer("RTX-3090"), answer("RTX-3090", seq_len=None, packing=True)
    untold = answer("RTX-3090", seq_len=None)
    assert math.log(width(untold)) > 1.2 * math.log(width(told))
    assert width(packed) == pytest.approx(width(told), rel=0.01)
    assert "how long the samples are" in untold.evidence.summary
    assert "how long the samples are" not in told.evidence.summary


def test_one_measurement_moves_and_narrows_the_prediction_of_its_like() -> None:
    before, after = answer("RTX-3090"), answer("RTX-3090", MEASURED)
    assert abs(after.throughput.value - 1300) < 0.2 * abs(before.throughput.value - 1300)
    assert math.log(width(after)) < 0.7 * math.log(width(before))
    assert after.evidence.kind == "own"


def test_it_moves_what_is_near_and_less_what_is_not() -> None:
    near = answer("RTX-4090", MEASURED).throughput.value / answer("RTX-4090").throughput.value
    same = answer("RTX-3090", MEASURED).throughput.value / answer("RTX-3090").throughput.value
    assert 1.0 < near < same


def test_what_the_text_leaves_open_is_as_the_request_has_it() -> None:
    workload = Workload.model_validate({**LORA, "precision": "fp16", "global_batch": 32, "measured": MEASURED})
    row = row_of(job_of(workload), MEASURED)
    assert {name: row[name] for name in ("model", "seq_len", "precision", "peft", "global_batch", "micro_batch")} == {
        "model": "llama3-8b",
        "seq_len": "2048",
        "precision": "fp16",
        "peft": "lora",
        "global_batch": "32",
        "micro_batch": "1",
    }
    assert row_of(job_of(workload), f"{MEASURED}, seq_len 512, bf16")["seq_len"] == "512"


def test_an_impossible_text_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(WorkloadError, match=r"90000 tokens/s would be .*GFLOP.* TFLOP/s, and the dense peak") as caught:
        answer("RTX-3090", "90000 tokens/s on 1xRTX-3090, micro-batch 1")
    assert caught.value.field == "measured"


def test_measurements_that_contradict_each_other_are_kept_and_flagged() -> None:
    workload = Workload.model_validate({**LORA, "measured": [MEASURED, MEASURED.replace("1300", "900")]})
    document = estimate(workload, gpus=("RTX-3090",))
    assert any("disagree by a factor 1.44" in warning for warning in document.warnings)
    assert "2 own measurements considered" in document.estimates[0].evidence.summary
    agreed = Workload.model_validate({**LORA, "measured": [MEASURED, MEASURED.replace("1300", "1310")]})
    assert not any("disagree" in warning for warning in estimate(agreed, gpus=("RTX-3090",)).warnings)


def test_a_model_that_no_table_names_can_be_calibrated_too() -> None:
    custom = {
        "custom": {"params_m": 25.6, "flops_per_sample": 24.6e9, "activation_bytes_per_sample": 5e7},
        "images": 5e6,
    }

    def rate(*measured: str) -> float:
        workload = Workload.model_validate({**custom, "measured": list(measured)})
        return float(estimate(workload, gpus=("RTX-3090",)).estimates[0].throughput.value)

    before = rate()
    after = rate(f"{before / 2:.0f} images/s on 1xRTX-3090, micro-batch 64")
    assert after == pytest.approx(before * 0.5**0.85, rel=0.05)
