"""The memory account: what it adds up, what it never does, and what it answers."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.models import resolve_model
from estimator.architectures import work_of
from estimator.architectures.inventories import find
from estimator.architectures.vision import of_inventory
from estimator.layout import Layout
from estimator.memory import (
    COMPONENTS,
    DEFAULT,
    GIB,
    NO,
    TIGHT,
    UNKNOWN,
    VERDICTS,
    YES,
    MemoryAccount,
    Stack,
    account,
    largest_micro_batch,
    recipe,
    stack_name,
    stacks_of,
    verdict,
)
from estimator.memory.stack import TUNED, UNKNOWN_METER
from estimator.records import pick
from estimator.terms import Method, Optimizer, Precision, Recompute, Sharding
from estimator.work import Work

SEVEN_B = 6.74e9


def llama(*, tokens: float = 2048.0, layers: float = 32.0, hidden: float = 4096.0, adapters: float = 0.0) -> Work:
    """A Llama-like decoder of 32,000 tokens vocabulary with untied embeddings."""
    vocab, ffn = 32_000.0, 2.7 * hidden
    linear = layers * (4 * hidden**2 + 3 * hidden * ffn)
    kept = 8 * hidden + 3 * ffn
    return Work(
        params=linear + 2 * vocab * hidden + adapters,
        active_params=linear + 2 * vocab * hidden + adapters,
        embedding_params=vocab * hidden,
        output_params=vocab * hidden,
        trainable_params=adapters or linear + 2 * vocab * hidden,
        layers=layers,
        hidden=hidden,
        heads=hidden / 128,
        kv_heads=hidden / 128,
        vocab=vocab,
        tokens=tokens,
        stored_values=layers * tokens * kept,
        stored_values_selective=layers * tokens * (kept - 2 * hidden - ffn),
        stored_values_full=layers * tokens * hidden,
        score_values=layers * hidden / 128 * tokens**2,
        layer_values=tokens * kept,
        logits_values=tokens * vocab,
    )


def used(work: Work, layout: Layout, **options: object) -> float:
    return float(account(work, layout, **options).used)  # type: ignore[arg-type]


degrees = st.sampled_from([1.0, 2.0, 4.0, 8.0])
layouts = st.builds(
    Layout,
    micro_batch=st.integers(1, 64).map(float),
    grad_accum=st.integers(1, 64).map(float),
    data=degrees,
    tensor=degrees,
    pipeline=degrees,
    context=st.sampled_from([1.0, 2.0]),
    sharding=st.sampled_from([int(s) for s in Sharding]),
    recompute=st.sampled_from([int(r) for r in Recompute]),
)
works = st.builds(
    llama,
    tokens=st.sampled_from([128.0, 2048.0, 32_768.0]),
    layers=st.sampled_from([8.0, 32.0, 80.0]),
    hidden=st.sampled_from([512.0, 4096.0, 8192.0]),
)
options = st.fixed_dictionaries(
    {
        "method": st.sampled_from(list(Method)),
        "precision": st.sampled_from(list(Precision)),
        "optimizer": st.sampled_from(list(Optimizer)),
        "attention": st.sampled_from(["flash", "eager"]),
    }
)


@given(works, layouts, options)
@settings(max_examples=200, deadline=None)
def test_components_are_finite_not_negative_and_sum_to_used(work: Work, layout: Layout, how: dict) -> None:
    found = account(work, layout, **how)
    parts = [float(getattr(found, name)) for name in COMPONENTS]
    assert all(np.isfinite(part) and part >= 0.0 for part in parts)
    assert float(found.used) == pytest.approx(sum(parts))
    assert float(found.used) > 0.5
    assert 0.0 < float(found.sigma) < float(found.used)


@given(works, layouts, options)
@settings(max_examples=100, deadline=None)
def test_the_same_question_gets_the_same_answer(work: Work, layout: Layout, how: dict) -> None:
    assert used(work, layout, **how) == used(work, layout, **how)


@given(works, layouts, options, st.integers(1, 32))
@settings(max_examples=200, deadline=None)
def test_memory_never_falls_when_the_micro_batch_grows(work: Work, layout: Layout, how: dict, more: int) -> None:
    larger = replace(layout, micro_batch=layout.micro_batch + more)
    assert used(work, larger, **how) >= used(work, layout, **how)


@given(layouts, options, st.sampled_from([(512.0, 1024.0), (2048.0, 2049.0), (4096.0, 65_536.0)]))
@settings(max_examples=200, deadline=None)
def test_memory_never_falls_when_the_sequence_grows(layout: Layout, how: dict, tokens: tuple[float, float]) -> None:
    short, long = (llama(tokens=n) for n in tokens)
    assert used(long, layout, **how) >= used(short, layout, **how)


@given(works, layouts, options)
@settings(max_examples=200, deadline=None)
def test_states_never_grow_with_the_sharding_stage(work: Work, layout: Layout, how: dict) -> None:
    stages = [account(work, replace(layout, sharding=s), **how) for s in range(4)]
    states = [float(a.weights + a.gradients + a.optimizer) for a in stages]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(states))


def test_zero3_can_hold_more_than_zero2_where_its_gathered_layers_outweigh_the_shared_weights() -> None:
    # DeepSpeed issue 5305: 52.8 against 43.8 GB. Few layers, few GPUs, adapters only: nothing but weights to share.
    work = llama(layers=2.0, hidden=8192.0, adapters=1e7)
    two, three = (used(work, Layout(data=2.0, sharding=s, recompute=2), method=Method.LORA) for s in (2, 3))
    assert three > two


@given(works, layouts, options)
@settings(max_examples=100, deadline=None)
def test_recomputation_never_stores_more(work: Work, layout: Layout, how: dict) -> None:
    none, full = (used(work, replace(layout, recompute=int(r), pipeline=1.0), **how) for r in (0, 2))
    if float(work.layers) >= 32:
        assert full <= none


@given(works, layouts, options, st.floats(4.0, 300.0))
@settings(max_examples=200, deadline=None)
def test_the_largest_micro_batch_surely_fits_and_one_more_does_not(
    work: Work, layout: Layout, how: dict, capacity: float
) -> None:
    largest = float(largest_micro_batch(work, layout, capacity, **how))
    for micro, expected in ((largest, True), (largest + 1, False)):
        if micro < 1:
            continue
        found = account(work, replace(layout, micro_batch=micro), **how)
        assert (int(verdict(found.used, capacity, found.sigma)) == YES) is expected


def test_mixed_precision_adam_takes_eighteen_bytes_a_parameter() -> None:
    found = account(llama(), Layout(recompute=2), method=Method.PRETRAIN, precision=Precision.BF16)
    states = float(found.weights + found.gradients + found.optimizer)
    assert states * GIB / float(llama().params) == pytest.approx(18.0)


@pytest.mark.parametrize(
    ("precision", "optimizer", "total"),
    [
        (Precision.FP32, Optimizer.ADAMW, 16.0),
        (Precision.TF32, Optimizer.SGD, 12.0),
        (Precision.FP16, Optimizer.ADAMW, 18.0),
        (Precision.PURE_BF16, Optimizer.ADAMW, 8.0),
        (Precision.BF16, Optimizer.LION, 14.0),
        (Precision.BF16, Optimizer.ADAMW_8BIT, 12.0625),
        (Precision.FP64, Optimizer.ADAMW, 32.0),
    ],
)
def test_bytes_a_parameter_follow_precision_and_optimizer(
    precision: Precision, optimizer: Optimizer, total: float
) -> None:
    bytes_ = recipe(precision=precision, optimizer=optimizer)
    assert bytes_.weight + bytes_.master + bytes_.gradient + bytes_.optimizer == pytest.approx(total)


def test_a_sequence_of_requests_is_the_requests_one_by_one() -> None:
    methods = [Method.FULL, Method.LORA, Method.QLORA]
    together = recipe(method=methods, precision=[Precision.FP16] * 3, optimizer=[Optimizer.ADAMW] * 3)
    for i, method in enumerate(methods):
        alone = recipe(method=method, precision=Precision.FP16, optimizer=Optimizer.ADAMW)
        for field in fields(alone):
            assert np.broadcast_to(getattr(together, field.name), (3,))[i] == getattr(alone, field.name)


def test_qlora_stores_the_base_in_a_little_over_four_bits_and_leaves_embeddings_alone() -> None:
    work = llama(adapters=4e7)
    base, tables = float(work.params) - 4e7 - 2 * 32_000 * 4096, 2 * 32_000 * 4096
    found = account(work, Layout(recompute=2), method=Method.QLORA)
    expected = (base * 0.5159 + tables * 2.0 + 4e7 * 4.0) / GIB
    assert float(found.weights) == pytest.approx(expected, rel=0.01)
    single = account(work, Layout(recompute=2), method=Method.QLORA, double_quant=False)
    assert float(single.weights) > float(found.weights)


def test_sharding_divides_what_its_stage_shares_and_nothing_else() -> None:
    alone = account(llama(), Layout(recompute=2))
    for stage, shared in (
        (Sharding.ZERO1, {"optimizer"}),
        (Sharding.ZERO2, {"optimizer", "gradients"}),
    ):
        found = account(llama(), Layout(data=8.0, sharding=int(stage), recompute=2))
        for name in ("weights", "gradients", "optimizer"):
            factor = 8.0 if name in shared else 1.0
            assert float(getattr(found, name)) * factor == pytest.approx(float(getattr(alone, name)))


def test_the_first_pipeline_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    one = account(llama(), Layout(micro_batch=1.0, pipeline=4.0, grad_accum=1.0))
    four = account(llama(), Layout(micro_batch=1.0, pipeline=4.0, grad_accum=4.0))
    many = account(llama(), Layout(micro_batch=1.0, pipeline=4.0, grad_accum=64.0))
    assert float(four.activations) == pytest.approx(4 * float(one.activations))
    assert float(many.activations) == float(four.activations)


def test_tensor_and_context_parallelism_divide_activations_and_logits() -> None:
    alone = account(llama(), Layout(micro_batch=2.0))
    for layout in (Layout(micro_batch=2.0, tensor=4.0), Layout(micro_batch=2.0, context=4.0)):
        found = account(llama(), layout)
        assert float(found.activations) == pytest.approx(float(alone.activations) / 4)
        assert float(found.logits) == pytest.approx(float(alone.logits) / 4)


def test_experts_are_divided_by_the_expert_degree() -> None:
    dense = llama()
    moe = replace(dense, params=4e10, expert_params=3.4e10, trainable_params=4e10, experts=8.0)
    one, eight = (account(moe, Layout(data=8.0, expert=e, sharding=1, recompute=2)) for e in (1.0, 8.0))
    assert float(one.weights - eight.weights) == pytest.approx(2 * 3.4e10 * 7 / 8 / GIB, rel=1e-6)


def test_eager_attention_stores_scores_that_grow_with_the_square_of_the_sequence() -> None:
    flash = [used(llama(tokens=n), Layout()) for n in (2048.0, 4096.0)]
    eager = [used(llama(tokens=n), Layout(), attention="eager") for n in (2048.0, 4096.0)]
    assert (eager[1] - flash[1]) == pytest.approx(4 * (eager[0] - flash[0]))


def test_unknown_activations_make_the_account_and_the_verdict_unknown() -> None:
    found = account(replace(llama(), stored_values=0.0), Layout())
    assert np.isnan(float(found.used))
    assert int(verdict(found.used, 80.0, found.sigma)) == UNKNOWN


def test_the_verdict_is_tight_within_the_uncertainty() -> None:
    assert verdict(np.array([10.0, 23.5, 24.5, 30.0]), 24.0, 1.0).tolist() == [YES, TIGHT, TIGHT, NO]
    assert int(verdict(10.0, float("nan"), 1.0)) == UNKNOWN


def test_candidates_broadcast_and_can_be_taken_apart_again() -> None:
    micro = np.array([1.0, 2.0, 4.0])
    found = account(llama(), Layout(micro_batch=micro, sharding=np.array([0, 1, 3]), data=8.0))
    assert found.used.shape == (3,)
    picked = pick(found, np.array([2]))
    assert isinstance(picked, MemoryAccount)
    assert float(picked.used[0]) == pytest.approx(float(found.used[2]))
    assert sum(found.row(1).values()) == pytest.approx(float(found.used[1]))


def test_known_programs_keep_their_habits_and_unknown_ones_are_ordinary() -> None:
    assert stack_name("unslothai/notebooks", "unsloth") == "unsloth"
    assert stack_name("somebody/else", "trl") == ""
    habits = stacks_of(["unslothai/notebooks", "somebody/else"], ["unsloth", "trl"])
    assert np.asarray(habits.host_checkpoints).tolist() == [1.0, 0.0]
    assert np.asarray(habits.counted).tolist() == [0.0, UNKNOWN_METER]  # torch or nvidia-smi, who knows


def test_tuned_software_that_is_not_named_has_the_habits_of_the_program_behind_it() -> None:
    fused = np.asarray(stacks_of(["", "", ""], ["pytorch", TUNED, "pytorch"], [True, False, False]).fused)
    assert fused.tolist() == [1.0, 1.0, 0.0]


def test_fused_layers_keep_less_and_a_chunked_loss_holds_fewer_logits() -> None:
    plain, fused, chunked = (
        account(llama(), Layout(micro_batch=4.0), stack=stack)
        for stack in (Stack(), Stack(fused=1.0), Stack(chunked_loss=1.0))
    )
    assert float(fused.activations) == pytest.approx(float(plain.activations) * DEFAULT.fused_share)
    assert float(chunked.logits) == pytest.approx(float(plain.logits) * DEFAULT.chunked_share)
    assert float(fused.logits) == float(plain.logits)


def test_a_gated_layer_keeps_its_silu_unless_it_is_fused() -> None:
    model = resolve_model("llama3-8b").model
    gated, same = work_of(model), replace(work_of(model), single_share=0.0)
    ffn = gated.single_share * float(gated.stored_values) / (float(gated.tokens) * float(gated.layers))
    assert ffn == pytest.approx(14_336.0)  # intermediate_size of the published config.json
    plain, fused = Stack(), Stack(fused=1.0)
    assert used(gated, Layout(), stack=plain) > used(same, Layout(), stack=plain)
    assert used(gated, Layout(), stack=fused) == used(same, Layout(), stack=fused)
    assert work_of(resolve_model("gpt2").model).single_share == 0.0


def test_a_frozen_base_in_fp32_takes_twice_the_bytes_unless_it_is_quantised() -> None:
    base = llama(adapters=4e7)
    single = Stack(frozen_fp32=1.0)
    plain, wide = (
        float(account(base, Layout(recompute=2), method=Method.LORA, stack=stack).weights)
        for stack in (Stack(), single)
    )
    assert wide == pytest.approx(2.0 * plain, rel=0.02)
    quantised = (used(base, Layout(recompute=2), method=Method.QLORA, stack=stack) for stack in (Stack(), single))
    assert next(quantised) == next(quantised)


def test_a_program_without_master_weights_needs_less() -> None:
    plain = used(llama(), Layout(recompute=2))
    pure = used(llama(), Layout(recompute=2), stack=Stack(pure16=1.0))
    assert plain - pure == pytest.approx(10.0 * float(llama().params) / GIB, rel=1e-6)


def test_a_published_lora_measurement_is_met_within_its_uncertainty() -> None:
    # fms-acceleration scripts/benchmarks/refs/a100_80gb.csv: Mistral-7B LoRA, 4 x 4,096 tokens, full recomputation,
    # one A100-80GB: 28.88 GiB by nvidia-smi.
    work = replace(llama(tokens=4096.0, adapters=4.2e7), kv_heads=8.0)
    found = account(work, Layout(micro_batch=4.0, recompute=2), method=Method.LORA)
    assert float(found.used) == pytest.approx(28.88, rel=0.1)


def test_recomputation_keeps_no_more_than_the_inputs_of_layers() -> None:
    # 80 layers of one more token: 80 x 8,192 values of 2 bytes, and one layer at work
    def kept(tokens: float, layers: float) -> float:
        work = llama(tokens=tokens, layers=layers, hidden=8192.0)
        return float(account(work, Layout(recompute=2)).activations) * GIB

    deeper = kept(4096.0, 80.0) - kept(4096.0, 40.0)
    assert deeper == pytest.approx(40 * 8192 * 2 * 4096, rel=1e-6)


def test_one_expert_at_a_time_is_dequantised() -> None:
    mixture = replace(llama(), params=4.7e10, expert_params=4.5e10, experts=8.0, trainable_params=1e7)
    whole = replace(mixture, experts=1.0)
    few, many = (float(account(work, Layout(recompute=2), method=Method.QLORA).buffers) for work in (mixture, whole))
    assert few < 0.3 * many


def test_a_yes_asks_for_less_than_a_no() -> None:
    sigma = 1.0
    below, above = 24.0 - DEFAULT.margin * sigma, 24.0 + DEFAULT.margin_over * sigma
    codes = verdict(np.array([below - 0.01, below + 0.01, above - 0.01, above + 0.01]), 24.0, sigma)
    assert [VERDICTS[code].value for code in codes] == ["yes", "tight", "tight", "no"]
    assert DEFAULT.margin < DEFAULT.margin_over


def test_a_detector_with_frozen_norms_keeps_fp32_values_in_mixed_precision() -> None:
    detector = of_inventory(find("maskrcnn-resnet50-fpn"))
    assert detector.single_share == 1.0
    one = Layout(micro_batch=2.0)
    half, whole = (account(detector, one, precision=p).activations for p in (Precision.BF16, Precision.FP32))
    assert half == pytest.approx(whole)
    assert of_inventory(find("resnet50")).single_share == 0.0


def test_the_phases_of_a_step_stay_below_its_backward_pass() -> None:
    found = account(llama(), Layout(micro_batch=2.0))
    phases = found.phases(0)
    assert list(phases) == ["forward", "backward", "optimizer", "evaluation", "checkpoint"]
    assert phases["backward"] == pytest.approx(float(found.used))
    assert all(0 < gib <= phases["backward"] for gib in phases.values())
