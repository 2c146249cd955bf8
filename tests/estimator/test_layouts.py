"""The search for layouts: what it proposes, what it respects, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.hardware import Hardware
from estimator.layouts import REFUSALS, Candidates, Limits, enumerate_layouts
from estimator.memory import NO, TIGHT, UNKNOWN, YES, account, verdict
from estimator.terms import ActivationCheckpointing, LinkKind, Method, Recompute, Sharding, ShardingKind
from estimator.work import Work
from tests.estimator.test_memory import llama


def machines(*rows: tuple[float, float, float], link: LinkKind = LinkKind.NVSWITCH, domain: float = 0.0) -> Hardware:
    """Hardware of (GPUs a node, nodes, usable GiB) rows; the rates do not matter here."""
    per_node, nodes, capacity = (np.array(column, float) for column in zip(*rows, strict=True))
    return Hardware(
        gpu=np.array(["any"] * len(rows)),
        matmul_tflops=300.0,
        half_tflops=300.0,
        issue_ghz=150.0,
        memory_gbps=2000.0,
        capacity_gib=capacity,
        tdp_w=400.0,
        gpus_per_node=per_node,
        nodes=nodes,
        link_gbps=300.0,
        link_kind=np.full(len(rows), int(link)),
        nic_gbps=25.0,
        nic_kind=3,
        vcpus_per_gpu=8.0,
        domain_gpus=domain,
    )


def seventy_b() -> Work:
    return replace(llama(layers=80.0, hidden=8192.0, tokens=4096.0), kv_heads=8.0)


def arrays(found: Candidates) -> dict[str, np.ndarray]:
    names = (
        "micro_batch", "grad_accum", "data", "tensor", "pipeline", "context", "expert", "sharding", "recompute",
    )  # fmt: skip
    return {name: np.asarray(getattr(found.layout, name), float) for name in names}


tables = st.lists(
    st.tuples(
        st.sampled_from([1.0, 2.0, 4.0, 8.0]), st.integers(1, 12).map(float), st.sampled_from([15.0, 22.0, 79.0, 139.0])
    ),
    min_size=1,
    max_size=6,
)


@given(tables, st.sampled_from([1.0, 48.0, 64.0, 1024.0]), st.sampled_from(list(Method)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_candidate_uses_all_gpus_divides_the_batch_and_may_fit(
    rows: list[tuple[float, float, float]], batch: float, method: Method, small: bool
) -> None:
    work = llama(adapters=4e7 if method in (Method.LORA, Method.QLORA) else 0.0) if small else seventy_b()
    hardware = machines(*rows)
    found = enumerate_layouts(work, hardware, global_batch=batch, method=method)
    gpus = np.array([per_node * nodes for per_node, nodes, _ in rows])
    a = arrays(found)
    assert np.array_equal(a["data"] * a["tensor"] * a["pipeline"] * a["context"], gpus[found.row])
    assert np.array_equal(a["micro_batch"] * a["grad_accum"] * a["data"], np.full(len(found.row), batch))
    assert np.array_equal(a["grad_accum"], np.round(a["grad_accum"]))
    assert not np.any(found.verdict == NO)
    assert set(np.unique(found.row)) == set(np.nonzero(found.refused == 0)[0])
    assert np.all(np.diff(found.row) >= 0)


@given(tables, st.sampled_from([64.0, 1024.0]))
@settings(max_examples=30, deadline=None)
def test_the_memory_and_verdict_of_a_candidate_are_those_of_its_layout(
    rows: list[tuple[float, float, float]], batch: float
) -> None:
    found = enumerate_layouts(llama(), machines(*rows), global_batch=batch)
    again = account(llama(), found.layout)
    capacity = np.array([row[2] for row in rows])[found.row]
    assert np.allclose(found.memory.used, again.used)
    assert np.array_equal(found.verdict, verdict(again.used, capacity, again.sigma))


def test_rows_of_the_same_machine_get_the_same_candidates() -> None:
    found = enumerate_layouts(llama(), machines((8, 1, 79), (8, 2, 79), (8, 1, 79)), global_batch=64)
    first, last = (found.layout.micro_batch[found.row == row].tolist() for row in (0, 2))  # type: ignore[index]
    assert first == last
    assert first


def test_a_small_model_is_not_cut_by_tensor_or_pipeline_parallelism() -> None:
    found = enumerate_layouts(llama(layers=12.0, hidden=1024.0), machines((8, 4, 79)), global_batch=256)
    a = arrays(found)
    assert set(a["tensor"]) == set(a["pipeline"]) == {1.0}


def test_replicas_and_zero3_are_both_looked_at_where_both_fit() -> None:
    found = enumerate_layouts(llama(layers=12.0, hidden=1024.0), machines((8, 1, 79)), global_batch=256)
    assert {int(Sharding.DDP), int(Sharding.ZERO3)} <= set(arrays(found)["sharding"].astype(int))


def test_a_large_model_is_cut_within_the_node_and_piped_across_nodes() -> None:
    found = enumerate_layouts(seventy_b(), machines((8, 8, 79)), global_batch=1024, method=Method.PRETRAIN)
    a = arrays(found)
    assert a["tensor"].max() == 8
    assert a["pipeline"].max() >= 4
    assert np.all(80 % a["pipeline"] == 0)


def test_tensor_parallelism_stays_within_reach_of_the_fast_link() -> None:
    four = arrays(enumerate_layouts(seventy_b(), machines((4, 16, 79)), global_batch=1024))
    rack = arrays(enumerate_layouts(seventy_b(), machines((4, 18, 180), domain=72.0), global_batch=1152))
    pcie = arrays(enumerate_layouts(seventy_b(), machines((8, 8, 79), link=LinkKind.PCIE), global_batch=1024))
    assert four["tensor"].max() == 4
    assert rack["tensor"].max() == 8
    assert pcie["tensor"].max() == 2


def test_recomputation_is_proposed_only_where_it_reaches_a_larger_micro_batch() -> None:
    zero3 = Limits(sharding=ShardingKind.ZERO3, tensor=1, pipeline=1)
    a = arrays(enumerate_layouts(llama(), machines((8, 1, 79)), global_batch=512, limits=zero3))
    plain = a["micro_batch"][a["recompute"] == Recompute.NONE].max()
    assert a["micro_batch"][a["recompute"] == Recompute.FULL].min() > plain


@pytest.mark.parametrize(
    ("limits", "column", "value"),
    [
        (Limits(micro_batch=3), "micro_batch", 3),
        (Limits(tensor=4), "tensor", 4),
        (Limits(pipeline=2), "pipeline", 2),
        (Limits(context=2), "context", 2),
        (Limits(sharding=ShardingKind.ZERO2), "sharding", 2),
        (Limits(recompute=ActivationCheckpointing.FULL), "recompute", 2),
    ],
)
def test_what_the_user_fixed_is_kept(limits: Limits, column: str, value: float) -> None:
    found = enumerate_layouts(seventy_b(), machines((8, 16, 179)), global_batch=1536, limits=limits)
    assert len(found.row)
    assert set(arrays(found)[column]) == {float(value)}


def test_a_fixed_degree_is_not_second_guessed_for_a_small_model() -> None:
    found = enumerate_layouts(
        llama(layers=12.0, hidden=1024.0), machines((8, 1, 79)), global_batch=64, limits=Limits(tensor=2, pipeline=2)
    )
    a = arrays(found)
    assert set(a["tensor"]) == set(a["pipeline"]) == {2.0}


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA, Method.QLORA])
@pytest.mark.parametrize("limits", [Limits(tensor=2), Limits(pipeline=2), Limits(tensor=4, pipeline=2)])
def test_any_method_may_be_cut_as_the_user_says(method: Method, limits: Limits) -> None:
    found = enumerate_layouts(llama(adapters=4e7), machines((8, 1, 79)), global_batch=64, limits=limits, method=method)
    layout = arrays(found)
    assert len(found.row) > 0
    assert set(layout["tensor"]) == {float(limits.tensor or 1)}
    assert set(layout["pipeline"]) == {float(limits.pipeline or 1)}


def test_the_largest_micro_batch_is_among_the_candidates() -> None:
    found = enumerate_layouts(
        llama(), machines((1, 1, 139)), global_batch=48, limits=Limits(recompute=ActivationCheckpointing.FULL)
    )
    largest = arrays(found)["micro_batch"].max()
    bigger = next(n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48) if n > largest)
    too_much = account(llama(), replace(found.layout, micro_batch=float(bigger)))
    assert not np.any(verdict(too_much.used, 139.0, too_much.sigma) == YES)


def test_tight_layouts_are_offered_only_where_nothing_surely_fits() -> None:
    roomy, narrow = (
        enumerate_layouts(llama(adapters=4e7), machines((1, 1, capacity)), global_batch=8, method=Method.LORA)
        for capacity in (40.0, 16.5)
    )
    assert set(roomy.verdict) == {YES}
    assert set(narrow.verdict) == {TIGHT}


@pytest.mark.parametrize(
    ("rows", "batch", "limits", "reason"),
    [
        ((8, 1, 8), 1024, Limits(), "memory"),
        ((8, 3, 139), 64, Limits(pipeline=1), "batch"),
        ((8, 1, 139), 64, Limits(micro_batch=3), "batch"),
        ((8, 1, 139), 64, Limits(tensor=3), "degrees"),
    ],
)
def test_a_row_without_candidates_says_why(
    rows: tuple[float, float, float], batch: float, limits: Limits, reason: str
) -> None:
    found = enumerate_layouts(llama(), machines(rows), global_batch=batch, limits=limits)
    assert len(found.row) == 0
    assert [REFUSALS[code] for code in found.refused] == [reason]


def test_a_share_of_a_gpu_is_one_gpu() -> None:
    found = enumerate_layouts(llama(adapters=4e7), machines((0.5, 1, 40)), global_batch=8, method=Method.LORA)
    assert set(arrays(found)["data"]) == {1.0}


def test_unknown_activations_or_capacity_give_candidates_whose_verdict_is_unknown() -> None:
    profiled = Work(params=3e7, active_params=3e7, trainable_params=3e7)
    for found in (
        enumerate_layouts(profiled, machines((8, 1, 79)), global_batch=256),
        enumerate_layouts(llama(), machines((8, 1, float("nan"))), global_batch=256),
    ):
        assert len(found.row)
        assert set(found.verdict) == {UNKNOWN}


def test_experts_are_spread_over_gpus_where_there_are_experts() -> None:
    moe = replace(llama(), params=4e10, expert_params=3.4e10, trainable_params=4e10, experts=8.0)
    a = arrays(enumerate_layouts(moe, machines((8, 4, 79)), global_batch=512))
    assert a["expert"].max() == 8
    assert np.all((a["data"] * a["context"] * a["tensor"]) % a["expert"] == 0)


def test_at_most_so_many_layouts_a_row() -> None:
    found = enumerate_layouts(seventy_b(), machines((8, 64, 79)), global_batch=2048, limits=Limits(per_hardware=20))
    assert len(found.row) == 20


def test_pipelines_interleave_where_their_stages_divide_the_micro_batches() -> None:
    found = enumerate_layouts(seventy_b(), machines((8.0, 8.0, 79.0)), global_batch=512.0).layout
    piped = found.pipeline > 1
    divided = found.grad_accum % found.pipeline == 0
    assert (piped & divided).any()
    assert np.all(found.virtual_stages[piped & divided] > 1)
    assert np.all(found.virtual_stages[~piped | ~divided] == 1)
    assert np.all(found.virtual_stages * found.pipeline <= 80)
