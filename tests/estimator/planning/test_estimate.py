"""Hardware compared for one workload: what each comes to, and why the others do not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks_db.errors import WorkloadError
from estimator import Workload, estimate, plan
from estimator.documents import EstimateDocument
from pricing.offers import current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW, accelerators="any")
LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}


def compared(*gpus: str, **changes: Any) -> EstimateDocument:
    return estimate(LORA | changes, gpus=gpus, offers=MARKET, now=NOW)


@pytest.mark.parametrize("gpus", ["L40S:8", "T4:8", "A10:2", "V100:8"])
def test_gpus_that_one_machine_holds_are_compared_in_one_machine(gpus: str) -> None:
    for market in ("on-demand", "spot"):
        document = compared(gpus, constraints={"markets": [market]})
        assert [entry.nodes for entry in document.estimates] == [1]
        assert not any("no single machine" in text for text in document.warnings)


def test_gpus_that_no_machine_holds_together_are_said_to_be_in_several() -> None:
    document = compared("T4:8", constraints={"clouds": ["azure"]})
    assert document.estimates[0].nodes > 1
    assert any(text.startswith("T4:8: no single machine with 8") for text in document.warnings)


@pytest.mark.parametrize("card", ["TPU-v5e", "Trainium2"])
def test_other_accelerators_are_worked_out_only_where_they_are_asked_for(card: str) -> None:
    document = compared(f"{card}:8", own=[{"name": "pod", "gpu": card, "usd_per_hour": 1}])
    assert document.estimates == []
    assert document.rejected == {f"{card}:8": "accelerators", "pod": "accelerators"}
    assert all("constraints.accelerators: any" in hint and card in hint for hint in document.hints)
    allowed = {"accelerators": "any"}
    assert compared(f"{card}:8", constraints=allowed).estimates[0].gpu == card
    own = [{"name": "pod", "gpu": card, "gpus_per_node": 8, "usd_per_hour": 1}]
    refused = plan(LORA | {"own": own, "constraints": {"clouds": ["own"]}}, offers=MARKET, now=NOW)
    assert refused.binding == "accelerators"
    assert any("constraints.accelerators: any" in hint for hint in refused.hints)
    planned = plan(LORA | {"own": own, "constraints": {"clouds": ["own"], **allowed}}, offers=MARKET, now=NOW)
    assert planned.plans[0].gpu == card


def test_what_does_not_fit_comes_with_the_account_of_what_lacks_least() -> None:
    document = compared("T4:4", "H100:8", "L4:8", model="llama3-70b", method="full")
    assert set(document.closest) == set(document.rejected) == {"T4:4", "H100:8", "L4:8"}
    near = document.closest["L4:8"]
    assert (near.gpu, near.gpus) == ("L4", 8)
    assert near.memory_gib.used is not None
    assert near.memory_gib.used > (near.memory_gib.capacity or 0)
    same = plan(
        LORA | {"model": "llama3-70b", "method": "full", "constraints": {"gpus": ["L4:8"], "max_nodes": 1}},
        offers=MARKET,
        now=NOW,
    )
    assert same.closest == near
    assert compared("H100:8").closest == {}


def test_one_gpu_may_be_given_as_a_text_and_a_moment_without_its_zone_is_utc() -> None:
    one = estimate(LORA, gpus="H100:8", offers=MARKET, now=datetime(2026, 9, 1))
    assert one == compared("H100:8")
    for wrong in ({"now": "2026-09-01"}, {"offers": []}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            estimate(LORA, gpus="H100:8", **wrong)  # type: ignore[arg-type]


def test_a_path_that_is_given_as_text_is_told_from_a_request() -> None:
    with pytest.raises(WorkloadError, match=r"did you mean Path\('run.yaml'\)"):
        Workload.from_yaml("run.yaml")


def test_machines_that_nobody_rents_talk_over_the_network_that_clusters_of_their_gpu_usually_have() -> None:
    big = {"model": "llama3-70b", "method": "full", "seq_len": 512}
    [alone] = compared("H800:64", **big).estimates
    stated = [{"name": "ours", "gpu": "H800", "gpus_per_node": 8, "nodes": 8, "network_gbps": 3200}]
    described = {word: compared(own=[stated[0] | {"rdma": word}], **big) for word in ("infiniband", "none")}
    fast, slow = (document.estimates[0].throughput.value for document in described.values())
    assert slow < fast == pytest.approx(alone.throughput.value)
    assert any("3200 Gbit/s a node assumed" in text for text in alone.warnings)
    assert not any("no RDMA" in text for text in alone.warnings)


def test_a_gpu_with_one_meaning_is_not_said_to_be_another() -> None:
    assert not any("could also be" in text for text in compared("H800:8").warnings)


def test_an_own_machine_is_estimated_with_all_its_nodes_and_under_its_name() -> None:
    lab = {"gpu": "A100-80GB", "gpus_per_node": 8, "nodes": 2, "usd_per_hour": 10}
    own = [
        lab | {"name": "slow", "network_gbps": 10},
        lab | {"name": "fast", "network_gbps": 800, "rdma": "infiniband"},
    ]
    slow, fast = compared(own=own, method="full").estimates
    assert [(e.instance_type, e.cloud, e.nodes, e.gpus) for e in (slow, fast)] == [
        ("slow", "own", 2, 16),
        ("fast", "own", 2, 16),
    ]
    assert slow.hours.p50 > fast.hours.p50
    assert slow.price.usd_per_hour == 20


def test_an_estimate_says_which_machine_its_price_is_of() -> None:
    rented, nobody = compared("H100:8", "RTX-4090").estimates
    assert (rented.cloud, rented.market, nobody.instance_type, nobody.cloud) == ("aws", "on-demand", None, None)
    assert rented.instance_type
    assert rented.region


@pytest.mark.parametrize("model", [{"model": "resnet50", "images": "1M"}, {"model": "bert-large", "samples": "1M"}])
def test_tf32_is_fp32_on_a_gpu_that_lacks_it(model: dict[str, str]) -> None:
    cards = ("V100", "T4", "A100")
    single, tensor = (estimate(model | {"precision": p}, gpus=cards, now=NOW).estimates for p in ("fp32", "tf32"))
    rates = [(a.throughput.value, b.throughput.value) for a, b in zip(single, tensor, strict=True)]
    assert rates[0][0] == rates[0][1]
    assert rates[1][0] == rates[1][1]
    assert rates[2][0] < rates[2][1]


def test_a_smaller_model_of_a_family_is_the_faster_one() -> None:
    """Both are counted; a model known by its size alone was taken to be half as fast as it is."""
    larger, smaller = (
        estimate({"model": name, "images": "1M"}, gpus="RTX-3090", now=NOW).estimates[0].throughput.value
        for name in ("vit_large_patch14_224", "vit_large_patch16_224")
    )
    assert smaller > larger
