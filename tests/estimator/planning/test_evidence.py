"""What a plan rests on, and what one measurement of the user's own changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from estimator import Workload, estimate
from estimator.documents import EstimateEntry
from pricing.offers import current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
MEASURED = {
    "model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": "1", "precision": "bf16", "micro_batch": "4",
    "global_batch": "64", "seq_len": "2048", "peft": "lora", "unit": "tokens/s", "scope": "total",
}  # fmt: skip


def on(gpu: str, *throughput: float, **changes: object) -> EstimateEntry:
    request = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}
    rows = [MEASURED | {"throughput": str(figure)} for figure in throughput]
    workload = Workload.model_validate(request | changes)
    return estimate(workload, gpus=[gpu], offers=MARKET, now=NOW, measured=rows).estimates[0]


def width(entry: EstimateEntry) -> float:
    return entry.hours.p90 / entry.hours.p10


def test_an_estimate_names_the_measurements_near_it_with_their_sources() -> None:
    evidence = on("A100-SXM4-80GB:1").evidence
    assert evidence.measurements
    assert all("@" in m.source or "." in m.source for m in evidence.measurements)  # a repository or a site
    distances = [m.distance for m in evidence.measurements]
    assert distances == sorted(distances)


def test_one_own_measurement_moves_the_estimate_towards_it_and_narrows_the_interval() -> None:
    before = on("H100-SXM5-80GB:1")
    slow = before.throughput.value * 0.6
    after = on("H100-SXM5-80GB:1", slow)
    assert abs(after.throughput.value / slow - 1) < 0.5 * abs(before.throughput.value / slow - 1)
    assert width(after) < width(before)
    assert after.evidence.kind == "own"
    assert "1 own measurement" in after.evidence.summary


def test_an_own_measurement_moves_what_is_near_it_more_than_what_is_far() -> None:
    slow = on("H100-SXM5-80GB:1").throughput.value * 0.6

    def moved(gpu: str, **changes: object) -> float:
        return on(gpu, slow, **changes).throughput.value / on(gpu, **changes).throughput.value

    near = moved("H100-SXM5-80GB:1", seq_len=4096)
    far = moved("A10G:4", model="mistral-7b", method="qlora")
    assert near < 0.85
    assert near < far


def test_a_measurement_of_another_family_changes_nothing() -> None:
    request = {"model": "resnet50", "method": "full", "tokens": None, "images": 1e6, "seq_len": None}
    without, beside = on("V100-SXM2-16GB:1", **request), on("V100-SXM2-16GB:1", 3000.0, **request)
    assert beside.throughput == without.throughput


@pytest.mark.parametrize("gpu", ["H100-SXM5-80GB:1", "RTX-4090:1", "T4:4"])
def test_the_interval_holds_the_estimate(gpu: str) -> None:
    entry = on(gpu, method="qlora")
    assert entry.hours.p10 < entry.hours.p50 < entry.hours.p90


def test_an_own_measurement_pulls_by_how_it_differs() -> None:
    """The same model on the same GPU in another way counts for more than the model on another GPU."""
    card = "H100-SXM5-80GB:1"
    slow = on(card).throughput.value * 0.5

    def moved(gpu: str, **changes: object) -> float:
        return on(gpu, slow, **changes).throughput.value / on(gpu, **changes).throughput.value

    same, recomputed = moved(card), moved(card, activation_checkpointing="full")
    elsewhere, other = moved("A100-80GB:1"), moved(card, model="gpt-neox-20b")
    assert 0.5 < same < 0.75
    assert same < recomputed < elsewhere < 1.0
    assert elsewhere < other <= 1.02
