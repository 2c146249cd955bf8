"""Which machines and which layouts are looked at, and which layout is chosen."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks_db.errors import UnknownName
from estimator import Workload, estimate, plan
from estimator.documents import EstimateEntry

NOW = datetime(2026, 9, 1, tzinfo=UTC)
LARGE = {"model": "llama3-405b", "seq_len": 2048, "global_batch": 16}


def on(gpus: str, **request: object) -> EstimateEntry:
    [entry] = estimate(Workload.model_validate(request), gpus=[gpus], now=NOW).estimates
    return entry


def test_a_short_run_gets_the_nodes_that_its_memory_needs() -> None:
    found = plan(Workload.model_validate(LARGE | {"method": "full", "tokens": "1M"}), now=NOW)
    assert found.plans, found.binding
    assert all(p.nodes > 1 for p in found.plans)


def test_a_later_deadline_never_raises_the_least_cost() -> None:
    least = []
    for deadline in ("20m", "40m", "1h", "3h", "30h"):
        asked = {"model": "llama3-8b", "method": "full", "tokens": "20M", "constraints": {"deadline": deadline}}
        plans = plan(Workload.model_validate(asked), now=NOW).plans
        least.append(plans[0].cost_usd.p50 if plans and plans[0].cost_usd else float("inf"))
    assert least == sorted(least, reverse=True)


@pytest.mark.parametrize("gpus", ["H100:8192", "H100:4096", "A100-SXM4-40GB:64", "H100:3"])
def test_as_many_gpus_as_named_are_estimated(gpus: str) -> None:
    entry = on(gpus, model="llama2-7b", method="pretrain", tokens="1T", global_batch=24576)
    assert entry.gpus == float(gpus.partition(":")[2])


def test_an_unpriced_own_cluster_is_estimated_with_its_nodes() -> None:
    machine = {"name": "lab", "gpu": "A100-80GB", "gpus_per_node": 8, "nodes": 16}
    asked = Workload.model_validate({"model": "gpt3-175b", "tokens": "1B", "global_batch": 512, "own": [machine]})
    [entry] = estimate(asked, now=NOW).estimates
    assert entry.nodes == 16
    assert entry.cost_usd is None


@pytest.mark.parametrize("model", ["resnet50", "swin-t", "vit-b16"])
def test_a_model_that_fits_many_times_over_is_replicated(model: str) -> None:
    layout = on("A100-80GB:8", model=model, images="1M", global_batch=256).layout
    assert layout.sharding in ("ddp", "zero1")  # sharing the optimizer step can pay, gathering weights cannot
    assert (layout.tensor, layout.pipeline) == (1, 1)


def test_a_single_gpu_does_not_accumulate_what_fits_at_once() -> None:
    assert on("A100-80GB:1", model="resnet50", images="1M", global_batch=256).layout.grad_accum == 1


def test_where_memory_is_tight_the_layout_expected_to_fit_is_taken() -> None:
    """Full recomputation holds 8B LoRA within an A10G; a faster layout would be expected to exceed it."""
    memory = on("A10G:1", model="llama3-8b", method="lora", tokens="50M", seq_len=2048, global_batch=64).memory_gib
    assert memory.verdict == "tight"
    assert memory.used is not None
    assert memory.used <= memory.capacity


def test_stated_accumulation_steps_are_kept() -> None:
    lora = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "global_batch": 64}
    assert on("H100:8", **lora, grad_accum=4).layout.grad_accum == 4
    assert on("H100:8", **lora, grad_accum=8).layout.micro_batch == 1


def test_adapters_on_fewer_matrices_take_less_memory() -> None:
    used = []
    for targets in ("q_proj", "q_proj,v_proj", "attention", "q_proj,k_proj,v_proj,o_proj,up_proj", "all-linear"):
        lora = {"rank": 256, "targets": targets}
        asked = {"model": "llama3-8b", "method": "lora", "tokens": "5M", "global_batch": 8, "micro_batch": 1}
        entry = on("A100-80GB:1", **asked, lora=lora, activation_checkpointing="full")
        used.append(entry.memory_gib.parts["optimizer"])
    assert used == sorted(used)
    assert used[0] < used[1] < used[2] < used[4]


def test_an_unknown_adapter_target_is_refused() -> None:
    asked = {"model": "llama3-8b", "method": "lora", "tokens": "5M", "lora": {"rank": 8, "targets": "q_prj"}}
    with pytest.raises(UnknownName, match="q_prj"):
        on("A100-80GB:1", **asked)


def test_an_own_machine_may_have_any_name() -> None:
    machine = {"name": "lab[1]*", "gpu": "A100-80GB", "usd_per_hour": 0}
    asked = {"model": "llama3-8b", "method": "lora", "tokens": "5M", "own": [machine]}
    [entry] = estimate(Workload.model_validate(asked), now=NOW).estimates
    assert entry.gpu == "A100-SXM4-80GB"


def test_a_batch_that_does_not_divide_is_told_the_nearest_that_do() -> None:
    asked = {"model": "llama3-8b", "method": "lora", "tokens": "5M", "global_batch": 64}
    found = estimate(Workload.model_validate(asked), gpus=["H100:72"], now=NOW)
    assert found.hints == ["H100:72: global_batch: 64 does not divide over the GPUs; 72 would"]
    five = plan(Workload.model_validate(asked | {"constraints": {"gpus": ["H100:5"]}}), now=NOW)
    assert five.binding == "batch"
    assert five.hints == ["global_batch: 64 does not divide over the GPUs; 60 or 65 would"]


def test_accelerators_that_are_not_gpus_say_how_they_are_planned() -> None:
    asked = {"model": "llama3-8b", "tokens": "5M", "constraints": {"gpus": ["Trainium2"]}}
    assert any("constraints.accelerators: any" in hint for hint in plan(Workload.model_validate(asked), now=NOW).hints)


def test_a_model_known_by_its_size_alone_is_not_passed_off_as_understood() -> None:
    asked = {"model": "pixart-alpha", "samples": "1M", "global_batch": 256}
    said = estimate(Workload.model_validate(asked), gpus=["A100-80GB:8"], now=NOW).warnings
    assert any("only the size of pixart-alpha" in warning for warning in said)
    plain = estimate(Workload(model="openelm-3b", tokens="1B"), gpus=["A100-80GB:8"], now=NOW).warnings
    assert not any("only the size" in warning for warning in plain)


def test_fine_tuning_splits_weights_only_where_sharding_them_does_not_fit() -> None:
    """The Hugging Face Trainer, FSDP and ZeRO replicate and shard; Megatron's layouts are for whoever asks for them."""
    asked = {"model": "llama2-7b", "tokens": "10M", "seq_len": 2048, "global_batch": 64}
    usual = on("RTX-4090:8", **asked, method="full").layout
    assert (usual.tensor, usual.pipeline, usual.sharding) == (1, 1, "zero3")
    for other in ({"method": "pretrain"}, {"method": "full", "software": "tuned"}):
        layout = on("RTX-4090:8", **asked, **other).layout
        assert layout.tensor * layout.pipeline > 1
    assert on("RTX-4090:8", **asked, method="full", pipeline_parallel=8).layout.pipeline == 8
    crowded = on("H100:16", **asked | {"model": "llama3-70b"}, method="full")
    assert crowded.memory_gib.verdict == "yes"
    assert crowded.layout.tensor > 1
