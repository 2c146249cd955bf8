from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.gpus import gpu
from benchmarks_db.models import resolve_model
from estimator.architectures.transformer import work
from estimator.hardware import Hardware, hardware_of
from estimator.layouts import Layout
from estimator.performance import BOUNDS, Execution, execution_of, step_time
from estimator.performance.constants import Constants
from estimator.precision import rate
from estimator.terms import BoundBy, Method, Recompute, Sharding

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

MODELS = ("gpt2-124m", "llama3-8b", "llama3-70b", "mixtral-8x7b", "qwen3-30b-a3b")
CARDS = ("T4", "L4", "RTX-4090", "A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB", "MI300X")


def machine(name="A100-SXM4-80GB", nodes=1.0, form=None, per_node=8.0):
    card = gpu(name)
    return hardware_of(
        [card], [rate(form or ("bf16" if card.bf16_tflops else "fp16"), card)], gpus_per_node=per_node, nodes=nodes
    )


degrees = st.sampled_from([1.0, 2.0, 4.0, 8.0])
layouts = st.builds(
    Layout,
    micro_batch=st.sampled_from([1.0, 2.0, 8.0, 32.0]),
    grad_accum=st.sampled_from([1.0, 3.0, 16.0, 128.0]),
    data=st.sampled_from([1.0, 2.0, 8.0, 64.0]),
    tensor=degrees,
    pipeline=degrees,
    context=degrees,
    expert=st.sampled_from([1.0, 2.0]),
    sharding=st.sampled_from(list(Sharding)),
    recompute=st.sampled_from(list(Recompute)),
)
works = st.builds(
    lambda name, seq, method: work(resolve_model(name).model, seq_len=seq, method=method),
    st.sampled_from(MODELS),
    st.sampled_from([128, 2048, 32768]),
    st.sampled_from(list(Method)),
)


@given(works, layouts, st.sampled_from(CARDS))
def test_every_step_is_finite_positive_and_the_sum_of_its_terms(made, layout, card):
    step = step_time(made, machine(card, nodes=4.0), layout)
    assert np.all(np.isfinite(step.total))
    assert np.all(step.total > 0)
    terms = step.compute + step.memory + step.launch + step.communication + step.pipeline + step.input
    assert terms == pytest.approx(step.total)
    assert np.all(np.array([step.compute, step.memory, step.pipeline, step.input]) >= 0)
    again = step_time(made, machine(card, nodes=4.0), layout)
    assert np.array_equal(step.total, again.total)


def scaled(hardware: Hardware, **factors: float) -> Hardware:
    return replace(hardware, **{name: getattr(hardware, name) * factor for name, factor in factors.items()})


@given(works, layouts, st.sampled_from(["memory_gbps", "link_gbps", "nic_gbps"]))
def test_more_bandwidth_is_never_slower(made, layout, what):
    base = machine(nodes=8.0)
    assert np.all(
        step_time(made, scaled(base, **{what: 2.0}), layout).total <= step_time(made, base, layout).total + 1e-12
    )


@given(works, layouts)
def test_a_faster_matrix_unit_is_never_slower(made, layout):
    base = machine(nodes=8.0)
    fast = scaled(base, matmul_tflops=2.0, half_tflops=2.0)
    assert np.all(step_time(made, fast, layout).total <= step_time(made, base, layout).total * (1 + 1e-9))


@given(works, layouts, st.sampled_from(["micro_batch", "grad_accum"]))
def test_more_work_in_a_step_never_takes_less_time(made, layout, what):
    base = machine(nodes=8.0)
    larger = replace(layout, **{what: getattr(layout, what) * 2.0})
    assert np.all(step_time(made, base, larger).total >= step_time(made, base, layout).total * (1 - 1e-9))


@given(works, layouts)
def test_recomputing_everything_is_never_faster_than_nothing(made, layout):
    base = machine(nodes=8.0)
    none, full = (step_time(made, base, replace(layout, recompute=r)).total for r in (Recompute.NONE, Recompute.FULL))
    assert np.all(full >= none)


def test_one_call_of_many_candidates_equals_many_calls_of_one():
    made = work(resolve_model("llama3-8b").model)
    micro = np.array([1.0, 2.0, 4.0, 8.0])
    many = step_time(made, machine(), Layout(micro_batch=micro, data=8.0)).total
    one = [float(step_time(made, machine(), Layout(micro_batch=m, data=8.0)).total[0]) for m in micro]
    assert many.tolist() == one


def bound(step):
    return BOUNDS[int(step.bound_by[0])]


def test_what_bounds_a_step_is_what_physics_says():
    large = work(resolve_model("llama3-8b").model, seq_len=4096)
    assert bound(step_time(large, machine(), Layout(micro_batch=4.0, data=8.0))) is BoundBy.COMPUTE
    tiny = work(resolve_model("gpt2-124m").model, seq_len=64)
    assert bound(step_time(tiny, machine("H100-SXM5-80GB"), Layout())) is BoundBy.LAUNCH
    slow = replace(machine(nodes=8.0), nic_gbps=np.array([0.1]))
    spread = Layout(micro_batch=1.0, data=64.0, sharding=Sharding.ZERO3)
    assert bound(step_time(large, slow, spread)) is BoundBy.COMMUNICATION


def test_a_second_node_on_slow_ethernet_can_be_slower_than_one():
    made = work(resolve_model("llama3-8b").model, seq_len=1024)
    one = step_time(made, machine("A10G", per_node=4.0), Layout(data=4.0, sharding=Sharding.ZERO3)).total[0] / 4
    two = replace(machine("A10G", nodes=2.0, per_node=4.0), nic_gbps=np.array([0.3]))
    assert step_time(made, two, Layout(data=8.0, sharding=Sharding.ZERO3)).total[0] / 8 > one


def test_of_a_pipeline_and_its_replicas_one_crosses_the_network():
    """4 nodes of 4 GPUs hold 4 stages of 4 replicas: either stages or replicas talk between nodes, never neither."""
    made = work(resolve_model("llama2-7b").model, seq_len=2048)
    fast = machine("RTX-3090", nodes=4.0, per_node=4.0)
    slow = replace(fast, nic_gbps=fast.nic_gbps / 100.0)
    layout = Layout(micro_batch=1.0, grad_accum=16.0, data=4.0, pipeline=4.0, sharding=Sharding.ZERO1)
    communication = [float(step_time(made, network, layout).communication[0]) for network in (fast, slow)]
    assert communication[1] > 20.0 * communication[0]
    eight = replace(layout, data=2.0)
    together, apart = (step_time(made, machine(nodes=n, per_node=8.0 / n), eight).communication[0] for n in (1.0, 2.0))
    assert together < apart


def test_quantised_bases_pay_for_dequantisation_and_plain_stacks_for_their_host():
    made = work(resolve_model("llama3-8b").model, seq_len=512, method=Method.LORA)
    base, four, plain = (
        step_time(made, machine(), Layout(), execution=e).total[0]
        for e in (Execution(), Execution(quantised=1.0), Execution(plain=1.0))
    )
    assert four > base
    assert plain > base


def test_kernels_that_branched_unpack_at_the_pace_of_the_clock_today_s_at_that_of_memory():
    made = work(resolve_model("llama3-8b").model, seq_len=512, method=Method.LORA)

    def unpacking(name, early):
        times = [
            step_time(made, machine(name), Layout(), execution=Execution(quantised=q, early_dequantise=early)).memory
            for q in (0.0, 1.0)
        ]
        return float((times[1] - times[0])[0])

    assert unpacking("RTX-4090", 1.0) < 0.75 * unpacking("A100-SXM4-80GB", 1.0)  # more clocks, half of the bandwidth
    assert unpacking("RTX-4090", 0.0) > 1.5 * unpacking("A100-SXM4-80GB", 0.0)
    assert unpacking("A100-SXM4-80GB", 1.0) > 2.0 * unpacking("A100-SXM4-80GB", 0.0)
    assert unpacking("TPU-v5e", 1.0) == unpacking("TPU-v5e", 0.0)  # its clocks are unknown, not none


def test_a_tensor_parallel_ring_over_two_nodes_has_the_whole_network_of_each():
    made, two, c = work(resolve_model("gpt2-xl").model, seq_len=2048), machine("A100-SXM4-80GB", nodes=2.0), Constants()
    layout = Layout(micro_batch=16.0, data=1.0, tensor=16.0)
    usual, endless, thin = (
        step_time(made, replace(two, nic_gbps=two.nic_gbps * factor), layout, constants=c).communication[0]
        for factor in (1.0, 1e6, 1.0 / 8.0)
    )
    reduced = 4.0 * made.layers * 16.0 * 2048.0 * made.hidden * 2.0 * 2.0 * 15.0 / 16.0  # bytes through every link
    network = float(two.nic_gbps[0]) * 1e9 * c.nic * 8.0  # of a node: one ring crosses it once
    assert usual - endless == pytest.approx(c.tensor * reduced / network, rel=1e-3)
    assert thin - endless == pytest.approx(8.0 * (usual - endless), rel=1e-3)


def test_experts_on_other_nodes_are_reached_over_the_network_those_of_the_rack_over_its_link():
    made = work(resolve_model("qwen3-235b-a22b").model, seq_len=4096)

    def exchange(name, expert, tensor=1.0, per_node=8.0):
        layout = Layout(micro_batch=1.0, data=64.0 / tensor, tensor=tensor, expert=expert)
        there = machine(name, nodes=64.0 / per_node, per_node=per_node)
        whole, none = (
            step_time(made, there, layout, constants=Constants(exchange=share)).communication[0] for share in (1.0, 0.0)
        )
        return float(whole - none)

    assert exchange("B200-SXM-180GB", 64.0) > 5.0 * exchange("B200-SXM-180GB", 8.0)
    assert exchange("GB200-186GB", 64.0, per_node=4.0) < 0.2 * exchange("B200-SXM-180GB", 64.0)
    # 64 experts of tensor pairs would not fit on 64 GPUs, so each lies on one GPU of the rack
    assert exchange("GB200-186GB", 64.0, 2.0, 4.0) == pytest.approx(0.5 * exchange("GB200-186GB", 64.0, 1.0, 4.0), 0.1)


def test_a_pipeline_waits_for_the_stage_that_computes_the_logits():
    model = resolve_model("gpt-oss-120b").model  # 36 layers, 201,088 words
    made, few = work(model, seq_len=4096), work(replace(model, vocab=10_000), seq_len=4096)

    def stages(made, pipeline, uneven):
        layout = Layout(micro_batch=1.0, grad_accum=64.0, pipeline=pipeline, expert=8.0)
        return float(step_time(made, machine(), layout, constants=Constants(uneven=uneven)).compute[0])

    assert stages(made, 1.0, 1.0) == stages(made, 1.0, 0.0)
    assert stages(made, 4.0, 1.0) > 1.15 * stages(made, 4.0, 0.0)
    assert stages(few, 4.0, 1.0) < 1.03 * stages(few, 4.0, 0.0)
    uneven = stages(made, 8.0, 1.0) / stages(made, 8.0, 0.0)  # 7 stages of 5 layers, the last has 1 and the logits
    assert uneven < stages(made, 4.0, 1.0) / stages(made, 4.0, 0.0)


def test_adapters_beside_the_matrices_cost_traffic_unless_kernels_fuse_them():
    made = work(resolve_model("qwen-1.8b").model, seq_len=4096, method=Method.LORA)
    full = work(resolve_model("qwen-1.8b").model, seq_len=4096)
    beside, fused = (
        step_time(made, machine(), Layout(), execution=Execution(plain=1.0, fused_adapters=flag)).memory[0]
        for flag in (0.0, 1.0)
    )
    assert full.adapter_values == 0.0
    assert beside > 1.5 * fused


def test_a_sharded_4_bit_base_is_gathered_in_4_bit():
    made = work(resolve_model("llama2-70b").model, seq_len=512, method=Method.QLORA)
    split = Layout(data=2.0, sharding=Sharding.ZERO3)
    slow = replace(machine(per_node=2.0), link_gbps=np.array([2.0]))
    half, four = (step_time(made, slow, split, execution=Execution(quantised=q)).communication[0] for q in (0.0, 1.0))
    assert four < 0.4 * half


def test_gathering_sharded_weights_waits_for_the_host_layer_by_layer():
    made = work(resolve_model("qwen-1.8b").model, seq_len=256, method=Method.LORA)
    whole = step_time(made, machine(per_node=2.0), Layout(data=2.0, sharding=Sharding.NONE)).launch[0]
    split, fused = (
        step_time(made, machine(per_node=2.0), Layout(data=2.0, sharding=Sharding.ZERO3), execution=run).launch[0]
        for run in (Execution(), Execution(fused=1.0))
    )
    assert split > 1.3 * whole
    assert fused == pytest.approx(whole, rel=0.05)


def test_a_request_resolves_to_an_execution():
    run = execution_of(precision="fp8", method=Method.PRETRAIN)
    assert (run.value_bytes, run.format, run.plain) == (2.0, 1.0, 0.0)
    assert execution_of(precision="fp32", method=Method.QLORA).value_bytes == 4.0
    assert execution_of(precision="bf16", method=Method.QLORA).quantised == 1.0


def test_tuned_software_moves_values_faster_too():
    made = work(resolve_model("llama3-8b").model, seq_len=2048)
    ordinary, tuned = (
        step_time(made, machine(), Layout(), execution=Execution(fused=1.0, tuned=flag)) for flag in (0.0, 1.0)
    )
    assert np.all(tuned.memory < ordinary.memory)
    assert np.all(tuned.compute < ordinary.compute)


def test_caches_serve_part_of_the_traffic_and_a_wider_core_is_fed_slower():
    made, layout = work(resolve_model("gpt2-124m").model, seq_len=1024), Layout(micro_batch=8.0)
    plain, cached, fed = Constants(), Constants(cache=0.2), Constants(feed=0.2)
    for card, slower in (("A100-SXM4-80GB", True), ("L4", False)):  # 13 and 2.5 bytes a clock and multiprocessor
        here = machine(card)
        before, after = (step_time(made, here, layout, constants=c).memory for c in (plain, cached))
        assert np.all((after > before) == slower)
        unknown = replace(here, issue_ghz=np.array([np.nan]))
        assert step_time(made, unknown, layout, constants=cached).memory == pytest.approx(before)
    wide = machine("H100-SXM5-80GB")
    assert np.all(
        step_time(made, wide, layout, constants=fed).compute > step_time(made, wide, layout, constants=plain).compute
    )


def test_collectives_inside_a_node_take_time_from_compute_and_network_cards_do_not():
    made = work(resolve_model("gpt2-124m").model, seq_len=1024)
    layout = Layout(micro_batch=8.0, data=8.0)
    hidden, beside = (
        step_time(made, machine(per_node=8.0), layout, constants=Constants(contend=c, overlap=100.0))
        for c in (0.0, 1.0)
    )
    assert np.all(hidden.communication < 0.01 * hidden.total)
    assert np.all(beside.communication > 10.0 * hidden.communication)
    apart = [
        step_time(made, machine(per_node=1.0, nodes=8.0), layout, constants=Constants(contend=c, link=1e6))
        for c in (0.0, 1.0)
    ]
    assert apart[0].total == pytest.approx(apart[1].total)


def test_under_fp8_the_output_matrix_stays_in_16_bit():
    made = work(resolve_model("llama3-8b").model, seq_len=2048)
    headless = replace(made, vocab=0.0)
    eight, sixteen = (
        [
            step_time(w, machine("H100-SXM5-80GB", form=form), Layout(), execution=execution_of(precision=form)).compute
            for w in (made, headless)
        ]
        for form in ("fp8", "bf16")
    )
    assert eight[0] > eight[1]
    assert sixteen[0] == pytest.approx(sixteen[1])


def test_kernels_of_vendors_libraries_are_faster_than_compiled_ones():
    made = work(resolve_model("llama3-8b").model, seq_len=8192)
    compiled, vendor = (
        step_time(made, machine("H100-SXM5-80GB"), Layout(), execution=Execution(fused=1.0, library=flag))
        for flag in (0.0, 1.0)
    )
    assert np.all(vendor.compute < compiled.compute)


def test_tables_that_gpus_share_out_are_waited_for_and_nvlink_carries_them_faster_than_pcie():
    made = work(resolve_model("gpt2-124m").model, seq_len=128)
    shared, layout = replace(made, exchanged_values=26 * 128.0), Layout(micro_batch=64.0, data=8.0)

    def waited(name):
        there = machine(name)
        return float((step_time(shared, there, layout).total - step_time(made, there, layout).total)[0])

    assert 0.0 < waited("A100-SXM4-80GB") < 0.2 * waited("A100-PCIE-80GB")


def test_tuned_software_spares_passes_over_attention_scores_half_the_gradient_bytes_and_most_launches():
    made = replace(work(resolve_model("gpt2-124m").model, seq_len=512), score_values_moved=1e9)
    layout, c = Layout(micro_batch=8.0, data=8.0), Constants(tuned=1.0, wire=0.5, graphs=0.4)
    plain, tuned = (step_time(made, machine(), layout, execution=Execution(tuned=on), constants=c) for on in (0.0, 1.0))
    assert tuned.memory[0] < 0.5 * plain.memory[0]
    hidden = step_time(made, machine(), layout, execution=Execution(tuned=1.0), constants=replace(c, wire=1.0))
    assert tuned.communication[0] < hidden.communication[0]


def test_no_transformer_runs_its_matrices_faster_than_the_datasheet():
    made, layout = work(resolve_model("bert-large").model, seq_len=512), Layout(micro_batch=16.0)
    boosted = Constants(matmul=1.0, single=2.0, width=0.0, fill=0.0)
    there, run = machine("V100-SXM2-16GB", form="fp32"), execution_of(precision="fp32", attention="flash")
    flops = 16.0 * 3.0 * made.matmul_flops
    step = step_time(made, there, layout, execution=run, constants=boosted)
    assert flops / step.compute[0] <= 0.95e12 * there.matmul_tflops[0]
