"""How long does one GPU work on a micro-batch: matrix units, memory traffic, host?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layouts import Layout
from estimator.performance.constants import Constants
from estimator.terms import Recompute, Sharding
from estimator.work import Work

Seconds = NDArray[np.float64]

FORMATS = ("half", "fp8", "fp4", "tf32", "fp32")
"""Matrix formats with an efficiency of their own; fp64 counts as fp32."""

LINEAR = 0.95
"""Highest share of the datasheet rate that transformers' matrices reach; only convolutions pass it (Winograd)."""

FUSED_SCORES = 0.1
"""Passes over the attention scores that software tuned by vendors leaves (fused attention keeps them on the chip)."""

QUANTISED_BYTES = 0.516
"""Bytes a 4-bit weight: half a byte, and a scale of 8 bits for 64 weights (Dettmers et al., arXiv:2305.14314)."""

EXPERT_KERNELS = 3.0
"""Launches an expert, layer and forward pass of stacks that may loop over their experts; a loop has about 10."""

Switch = float | NDArray[np.float64]

USUAL_BYTES = 7.0
"""Bytes of device memory a clock and multiprocessor (V100 7.4, RTX 3090 6.7, L4 2.5, A100 13), where `cache` changes
nothing."""

USUAL_FLOPS = 1024.0
"""Dense FLOPs a clock and multiprocessor (V100 at 16 bit; RTX 3090 512, A100 2,048), where `feed` changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How the software runs the work; every field a scalar or an array of shape (n,)."""

    value_bytes: Switch = 2.0  # of activations and of the weights that the matrices read
    format: Switch = 0.0  # of the matrices: index into FORMATS
    eager_attention: Switch = 0.0  # 1: scores go through memory and the full square is computed
    early_attention: Switch = 0.0  # 1: fused attention of the first generation (before FlashAttention-2, July 2023)
    quantised: Switch = 0.0  # 1: the frozen base is stored in 4 bit
    early_dequantise: Switch = 0.0  # 1: its kernels branch by value (bitsandbytes before 0.48, September 2025)
    fused_adapters: Switch = 0.0  # 1: adapters run inside fused kernels, not as modules of their own
    length_assumed: Switch = 0.0  # 1: nobody said how long the samples are (widens the interval, changes no time)
    optimizer_bytes: Switch = 30.0  # read and written a trainable parameter and step
    looped: Switch = 0.0  # 1: experts run one after the other, a loop of their own kernels
    plain: Switch = 0.0  # 1: plain Python stack (Hugging Face, adapters), 0: lean (Megatron, compiled, graphs)
    fused: Switch = 0.0  # 1: norms, activations and losses in fused kernels (Transformer Engine, XLA, torch.compile)
    tuned: Switch = 0.0  # 1: tuned by a vendor, as in MLPerf
    compiled: Switch = 0.0  # 1: torch.compile, XLA
    library: Switch = 0.0  # 1: matrices and attention of vendors' libraries (Transformer Engine, cuDNN, XLA)
    channels_last: Switch = 0.0  # 1: NHWC convolutions
    real_data: Switch = 0.0  # 1: samples are read and decoded, 0: synthetic or cached


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Seconds a GPU and optimizer step, before communication; arrays of shape (n,)."""

    matmul: Seconds  # dense matrices, experts, grouped convolutions and attention
    memory: Seconds  # elementwise, dequantisation, weight reads
    optimizer: Seconds
    host: Seconds  # launches
    fixed: float | Seconds  # host time a step, whatever its work


def format_code(name: str) -> float:
    """Index into `FORMATS` of a precision's name (`estimator.precision.FORMATS`)."""
    kind = {"fp8": "fp8", "mxfp8": "fp8", "int8": "fp8", "nvfp4": "fp4", "tf32": "tf32", "fp32": "fp32", "fp64": "fp32"}
    return float(FORMATS.index(kind.get(name, "half")))


def format_scale(run: Execution, c: Constants) -> float | Seconds:
    """Matrix efficiency of each row's format over that of 16 bit."""
    code = np.asarray(run.format, int)
    scales = [1.0, c.narrow, c.tiny, c.tf32, c.single]
    if code.ndim == 0:
        return scales[int(code)]
    picked: Seconds = np.select([code == i for i in range(len(scales))], scales)
    return picked


def passes(work: Work, layout: Layout, c: Constants) -> tuple[Seconds, Seconds]:
    """(matrix passes, other passes) over the forward work: forward + backward + what is recomputed.

    Full recomputation adds `again` forward passes of everything, selective 0.7 of what is neither matrix nor attention.
    """
    recompute = np.asarray(layout.recompute)
    full = (recompute == Recompute.FULL) * c.again
    selective = (recompute == Recompute.SELECTIVE).astype(float)
    return 1.0 + work.backward_ratio + full, 3.0 + full + 0.7 * selective


def linear_share(work: Work) -> float | Seconds:
    """Share of the weights that a 4-bit base quantises: all but the embeddings and the output matrix."""
    return 1.0 - (work.embedding_params + work.output_params) / work.params


def stored_bytes(work: Work, run: Execution) -> float | Seconds:
    """Bytes that a stored weight of the (frozen) base takes on average."""
    return run.value_bytes + run.quantised * linear_share(work) * (QUANTISED_BYTES - run.value_bytes)


def _power(ratio: float | Seconds, exponent: Switch) -> float | Seconds:
    """ratio^exponent, 1 where the ratio is unknown (NaN)."""
    if isinstance(exponent, float) and exponent == 0.0:
        return 1.0
    known: Seconds = np.where(np.isfinite(ratio), ratio, 1.0)
    return np.asarray(known**exponent)


def device_time(work: Work, hardware: Hardware, layout: Layout, run: Execution, c: Constants) -> DeviceTime:
    """Time of the operator classes, seconds a step.

    Matrix work: passes x FLOPs / (peak x sustained x efficiency), slowed where tensor parallelism cuts matrices
    thin and where a micro-batch has few tokens (a fast GPU needs more of both); roofed by the weights' own traffic.
    Under fp8 and fp4 the output matrix stays in 16 bit. A pipeline runs at the pace of its busiest stage.
    Attention: 3.5 x forward (its backward recomputes the scores, Dao 2023). Elementwise: values x bytes / bandwidth.
    Adapters that are modules of their own read, scale and add their inputs and outputs beside the frozen matrix. A
    4-bit base is unpacked in every pass: bytes over bandwidth, and before 2025-10 clocks of the multiprocessors, as
    the threads of a warp branched by the value of their weight.
    Caches and the multiprocessors' own paths carry part of the traffic and feed the matrix units, and grow with
    clock x multiprocessors, not with the memory's rate or the peak: `cache` and `feed` take the rates towards them.
    Host: kernels x launch time, whatever the batch; gathering sharded weights waits for the host layer by layer.
    """
    cut = layout.tensor * layout.pipeline
    micros = layout.grad_accum
    samples = layout.micro_batch * micros / layout.context  # sample-equivalents a replica and step
    matrix, other = passes(work, layout, c)

    peak = hardware.matmul_tflops * hardware.sustained
    speed = np.sqrt(peak / 312.0)
    peak = peak * _power(hardware.sustained, c.power - 1.0)
    peak = peak * _power(hardware.matmul_tflops * 1e3 / hardware.issue_ghz / USUAL_FLOPS, -c.feed)
    scale = format_scale(run, c)
    tokens = layout.micro_batch * work.tokens / layout.context
    hidden = np.asarray(work.hidden, float)
    width = np.maximum(hidden, 64.0)
    thin = (c.width + c.split * (np.sqrt(layout.tensor) - 1.0) * speed) / width
    narrow = np.where(hidden > 0, thin + c.fill * speed * speed / tokens, 0.0)  # transformers only
    reached = peak * c.matmul * scale
    reached = np.where(hidden > 0, np.minimum(reached, LINEAR * hardware.matmul_tflops), reached)
    slow = (1.0 + narrow) / (reached * 1e12 * np.where(run.library, c.vendor, 1.0))
    inner = work.expert_params / np.maximum(3.0 * work.layers * work.experts * width, 1.0)  # width of one expert
    routed = (1.0 + c.expert_width * speed / np.maximum(inner, 64.0)) / c.expert
    surplus = _surplus(work, layout) * c.uneven
    flops = work.matmul_flops + _late_head(work, hardware, run, peak * scale)
    flops = flops + surplus * (work.matmul_flops + work.expert_flops)
    dense = samples / cut * matrix * (flops + work.expert_flops * routed + work.grouped_flops / c.grouped)
    matmul = dense * slow * np.where(np.asarray(work.backward_ratio) < 1.9, c.frozen, 1.0)
    eager = np.asarray(run.eager_attention)
    library = np.where(run.library, c.vendor_attention, np.where(run.early_attention, c.early_attention, 1.0))
    fused = c.attention * (312.0 / hardware.half_tflops) ** c.attention_fall * library
    rate = np.where(eager > 0, 0.5 * c.matmul * hardware.sustained, fused)
    scores = samples / cut * (3.5 + (matrix - 1.0 - work.backward_ratio)) * work.attention_flops
    matmul = matmul + scores / (rate * hardware.half_tflops * 1e12)

    bandwidth = hardware.memory_gbps * 1e9 * c.memory
    beside = c.adapter * run.plain * (1.0 - run.fused_adapters) * work.adapter_values
    scored = work.score_values_moved * np.where(run.tuned, FUSED_SCORES, 1.0)
    values = samples / cut * other * (work.elementwise_values * (1.0 + surplus) + scored + beside)
    weights = (work.params - work.expert_params * (1.0 - 1.0 / layout.expert)) / cut
    loose = np.where(run.fused, c.traffic * c.fused, c.traffic)
    passed = micros * weights * matrix
    moved = values * run.value_bytes * loose + passed * run.value_bytes
    branching = run.early_dequantise * c.branches / (np.nan_to_num(hardware.issue_ghz, nan=np.inf) * 1e9)
    unpacking = run.quantised * linear_share(work) * passed * (c.dequantise / bandwidth + branching)
    half = np.where(np.asarray(run.value_bytes) < 4, work.half_factor, 1.0)
    half = half / np.where(run.tuned, c.tuned, 1.0)
    matmul = matmul * half
    paths = _power(hardware.memory_gbps / hardware.issue_ghz / USUAL_BYTES, c.cache)
    memory = moved * half / bandwidth * paths + unpacking
    shards = np.where(np.asarray(layout.sharding) >= 1, layout.data, 1.0)
    optimizer = work.trainable_params * run.optimizer_bytes / (cut * shards) / bandwidth

    loops = work.kernels + run.looped * EXPERT_KERNELS * work.experts * work.layers
    host = micros * loops / layout.pipeline * (matrix * c.launch_us * 1e-6) * np.where(run.plain, c.plain, 1.0)
    gathers = (np.asarray(layout.sharding) == Sharding.ZERO3) & (np.asarray(layout.data) > 1.0)
    waits = gathers * (1.0 - run.fused) * micros * work.gathered_units / layout.pipeline * matrix
    replayed = np.where(run.tuned, c.graphs, 1.0)
    host = (host + waits * c.hooks_us * 1e-6) * replayed
    return DeviceTime(matmul, memory, optimizer, host, c.step_ms * 1e-3 * replayed)


def _late_head(work: Work, hardware: Hardware, run: Execution, rate: float | Seconds) -> Seconds:
    """FLOPs that the output matrix counts for beyond its own under fp8 and fp4, as recipes keep it in 16 bit.

    2 x vocabulary x width a token (NVIDIA Transformer Engine and torchao convert the layers' matrices only); `rate` in
    TFLOP/s is that of the narrow format.
    """
    narrow = np.isin(np.asarray(run.format, int), (FORMATS.index("fp8"), FORMATS.index("fp4")))
    slower = np.maximum(rate / hardware.half_tflops - 1.0, 0.0)
    return np.asarray(np.where(narrow, 2.0 * work.tokens * work.vocab * work.hidden * slower, 0.0), float)


def _surplus(work: Work, layout: Layout) -> Seconds:
    """By what share the busiest pipeline stage has more matrix work than the average: the last one computes the logits.

    Layers are dealt out evenly where the stages divide them; else the last stage gets what the others leave.
    """
    p = np.asarray(layout.pipeline, float)
    layers = np.asarray(work.layers, float)
    whole = np.maximum(work.matmul_flops + work.expert_flops, 1.0)
    head = 2.0 * np.asarray(work.tokens) * work.vocab * work.hidden
    each = np.maximum(whole - head, 0.0) / np.maximum(layers, 1.0)
    most = np.ceil(layers / p)
    last = np.maximum(layers - (p - 1.0) * most, 0.0)
    busiest = np.maximum(np.where(last < most, most, 0.0) * each, last * each + head)
    return np.asarray(np.where((p > 1.0) & (layers > 0.0), np.maximum(busiest * p / whole - 1.0, 0.0), 0.0))
