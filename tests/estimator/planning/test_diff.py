from __future__ import annotations

import copy
from typing import Any

import pytest

from estimator.planning.diff import difference

PLAN: dict[str, Any] = {
    "cloud": "aws",
    "region": "us-east-1",
    "zone": None,
    "instance_type": "p4d.24xlarge",
    "nodes": 1,
    "gpu": "A100-SXM4-40GB",
    "gpus": 8.0,
    "layout": {"micro_batch": 2, "grad_accum": 4, "data": 8, "tensor": 1, "pipeline": 1, "context": 1, "expert": 1,
               "sharding": "ddp"},
    "steps": 1000,
    "bound_by": "compute",
    "hours": {"p10": 8.0, "p50": 10.0, "p90": 14.0},
    "gpu_hours": 80.0,
    "cost_usd": {"p10": 80.0, "p50": 100.0, "p90": 140.0},
    "memory_gib": {"used": 20.0, "capacity": 39.0, "verdict": "yes"},
}  # fmt: skip
DOCUMENT: dict[str, Any] = {"workload": {"model": "llama3-8b", "seq_len": 2048, "lora": {"rank": 8}}, "plans": [PLAN]}


def changed(**plan: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    document["plans"][0] |= plan
    return document


def test_the_same_plan_differs_in_nothing() -> None:
    found = difference(DOCUMENT, copy.deepcopy(DOCUMENT), max_increase=0.0)
    assert (found.hours.change, found.cost_usd.percent) == (0, 0)
    assert found.reasons == []
    assert found.exceeded == []


def test_figures_change_by_amount_and_percent() -> None:
    after = changed(hours={"p10": 9, "p50": 13.8, "p90": 20}, cost_usd={"p10": 1, "p50": 512.0, "p90": 3})
    found = difference(DOCUMENT, after)
    assert found.hours.percent == pytest.approx(38)
    assert found.cost_usd.change == pytest.approx(412)
    assert found.exceeded == []


@pytest.mark.parametrize(("allowed", "exceeded"), [(0.1, ["hours"]), (0.2, []), (0.0, ["hours"])])
def test_growth_beyond_the_limit_is_named(allowed: float, exceeded: list[str]) -> None:
    after = changed(hours={"p10": 9, "p50": 12.0, "p90": 20})
    assert difference(DOCUMENT, after, max_increase=allowed).exceeded == exceeded


def test_becoming_cheaper_never_exceeds() -> None:
    assert difference(changed(hours={"p10": 9, "p50": 12.0, "p90": 20}), DOCUMENT, max_increase=0.0).exceeded == []


def test_losing_every_plan_exceeds_without_any_limit() -> None:
    after = {"workload": DOCUMENT["workload"], "plans": [], "binding": "memory"}
    found = difference(DOCUMENT, after)
    assert found.exceeded == ["feasible"]
    assert found.hours.after is None
    assert found.hours.percent is None
    assert "after: no plan satisfies the request (binding: memory)" in found.reasons


def test_the_reasons_are_the_keys_that_differ() -> None:
    after = changed(nodes=2, steps=500, layout=PLAN["layout"] | {"sharding": "zero3"})
    after["workload"] = {"model": "llama3-8b", "seq_len": 4096, "lora": {"rank": 16}, "packing": True, "steps": 500}
    reasons = difference(DOCUMENT, after).reasons
    assert reasons[:3] == ["seq_len: 2,048 -> 4,096", "lora.rank: 8 -> 16", "packing: not set -> true"]
    assert any(reason.startswith("machine: 1 x p4d.24xlarge") for reason in reasons)
    assert "layout.sharding: ddp -> zero3" in reasons
    assert "optimizer steps: 1,000 -> 500" in reasons


def test_an_unpriced_side_has_no_dollars_to_compare() -> None:
    found = difference(DOCUMENT, changed(cost_usd=None))
    assert (found.cost_usd.before, found.cost_usd.after, found.cost_usd.percent) == (100, None, None)
    free = difference(changed(cost_usd={"p10": 0, "p50": 0, "p90": 0}), DOCUMENT, max_increase=0.1)
    assert free.cost_usd.percent is None
