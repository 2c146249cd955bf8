"""How many bytes does one GPU hold at the worst moment of a training step, and what are they?

Closed-form arithmetic over arrays of candidates. The worst GPU of a pipeline is its first stage (most micro-batches in
flight, input embedding) or its last (output projection, logits); both are counted and the larger is returned. The worst
moment is the start of the backward pass, when every stored activation is alive; gradients are counted whole because
gradient accumulation keeps them from the micro-batch before.

Formulae (t, p, c, e, d: tensor, pipeline, context, expert, data degrees; s = d x c: the sharding group):

    parameters of a stage  = dense layers / (t p) + embeddings / t + experts / (t p e)
    states                 = parameters x bytes (`recipe`) / s for what the ZeRO stage shares (experts: / (s / e))
    gathered (ZeRO-3)      = (prefetched layers + embeddings) in the compute format + one unsharded gradient; the whole
                             stage and its gradients in a pipeline
    activations            = stored values x micro-batch x bytes / (t c) x micro-batches in flight / p + working set
    in flight (1F1B)       = min(p, grad_accum) on the first stage, 1 on the last; interleaved: x (1 + (p - 1)/(p v))
    logits                 = logits x micro-batch x bytes / (t c), on the last stage

ZeRO-3 can hold more than ZeRO-2: its gathered layers may outweigh what sharding the weights saves when the group or the
model is small (DeepSpeed issue 5305: 52.8 against 43.8 GB).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from estimator.layout import Layout
from estimator.memory.constants import DEFAULT, GIB, MemoryConstants
from estimator.memory.recipe import Recipe, recipe
from estimator.memory.stack import ORDINARY, Stack, adjust
from estimator.terms import Method, Optimizer, Precision, Recompute, Sharding
from estimator.work import Work

Array = NDArray[np.float64]
LOGIT_GRADIENT = 4.0
"""Bytes of `logits_bytes` that come into being when the backward pass starts: the fp32 gradient of a logit."""
COMPONENTS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework", "fragmentation")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccount:
    """GiB per GPU of n candidates by component, on the worst GPU of each; arrays of one common shape."""

    weights: Array  # parameters in the compute format, adapters included
    gradients: Array
    optimizer: Array  # states and fp32 master weights
    activations: Array  # kept for the backward pass, and the working set of recomputation
    logits: Array  # output logits and the copies of the loss
    buffers: Array  # gathered weights, gradient buckets, dequantised layers
    framework: Array  # CUDA context, libraries, NCCL
    fragmentation: Array  # held by the allocator, not usable
    sigma: Array  # one standard deviation of `used`, GiB

    @property
    def used(self) -> Array:
        """GiB per GPU; the sum of the components."""
        total: Array = np.add.reduce([getattr(self, name) for name in COMPONENTS])
        return total

    def scaled(self, factor: Array) -> MemoryAccount:
        """Every component times `factor`, shape (n,)."""
        return MemoryAccount(**{f.name: getattr(self, f.name) * factor for f in fields(self)})

    def row(self, index: int) -> dict[str, float]:
        """The components of one candidate, GiB, in printing order."""
        return {name: float(np.atleast_1d(getattr(self, name))[index]) for name in COMPONENTS}

    def phases(self, index: int) -> dict[str, float]:
        """GiB of one candidate at the worst moment of each phase, gradients of earlier micro-batches included.

        forward: all but the gradient of the logits; backward: everything; optimizer: activations and logits are gone;
        evaluation: logits, but no gradients and no stored activations; checkpoint: as the optimizer step (states are
        written shard by shard).
        """
        part = self.row(index)
        whole = sum(part.values())
        quiet = whole - part["activations"] - part["logits"]
        return {
            "forward": whole - min(LOGIT_GRADIENT / DEFAULT.logits_bytes, 1.0) * part["logits"],
            "backward": whole,
            "optimizer": quiet,
            "evaluation": quiet + part["logits"] - part["gradients"],
            "checkpoint": quiet,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The account of one pipeline stage as a straight line in the micro-batch: fixed bytes and bytes a sample."""

    weights: Array
    gradients: Array
    optimizer: Array
    buffers: Array
    framework: Array
    activations_per_sample: Array
    logits_per_sample: Array


def account(
    work: Work,
    layout: Layout,
    *,
    method: Method | Sequence[Method] = Method.FULL,
    precision: Precision | Sequence[Precision] = Precision.BF16,
    optimizer: Optimizer | Sequence[Optimizer] = Optimizer.ADAMW,
    attention: str | Sequence[str] = "flash",
    double_quant: bool = True,
    stack: Stack = ORDINARY,
    constants: MemoryConstants = DEFAULT,
) -> MemoryAccount:
    """Memory of each candidate, GiB per GPU by component.

    `work` and `layout` are scalars or arrays of shape (n,), broadcast against each other; `method`, `precision`,
    `optimizer` and `attention` (flash | eager; anything but eager counts as flash) are one value or n. Candidates whose
    activations are unknown (`stored_values` zero or NaN) come out as NaN, never as small.
    """
    first, last = stages(
        work,
        layout,
        bytes_of(method, precision, optimizer, double_quant, stack),
        is_eager(attention),
        stack,
        constants,
    )
    micro = np.asarray(layout.micro_batch, float)
    one = _components(first, micro, constants)
    other = _components(last, micro, constants)
    heavier_last = sum(other.values()) > sum(one.values())
    chosen = {name: np.where(heavier_last, other[name], one[name]) / GIB for name in COMPONENTS}
    sigma = uncertainty(chosen, constants)
    arrays = np.broadcast_arrays(sigma, *chosen.values())
    return MemoryAccount(sigma=arrays[0], **dict(zip(COMPONENTS, arrays[1:], strict=True)))


def bytes_of(
    method: Method | Sequence[Method],
    precision: Precision | Sequence[Precision],
    optimizer: Optimizer | Sequence[Optimizer],
    double_quant: bool,
    stack: Stack,
) -> Recipe:
    """Bytes a parameter of a request, as a training program keeps them."""
    plain = recipe(method=method, precision=precision, optimizer=optimizer, double_quant=double_quant)
    if stack is ORDINARY:
        return plain
    if isinstance(precision, Precision):
        return adjust(plain, stack, np.asarray(MIXED.get(precision, 0)))
    return adjust(plain, stack, np.array([MIXED.get(p, 0) for p in precision]))


MIXED = {Precision.FP16: 1, Precision.BF16: 2, Precision.AUTO: 2, Precision.FP8: 3}


def is_eager(attention: str | Sequence[str]) -> Array:
    """1 where attention keeps its scores, 0 where it does not."""
    if isinstance(attention, str):
        return np.asarray(float(attention == "eager"))
    return np.array([name == "eager" for name in attention], float)


def uncertainty(components: dict[str, Array], constants: MemoryConstants) -> Array:
    """One standard deviation, GiB: the components' own errors added up, as they err together (and stay linear)."""
    return (
        constants.sigma_states * (components["weights"] + components["gradients"] + components["optimizer"])
        + constants.sigma_moving * (components["activations"] + components["logits"] + components["buffers"])
        + constants.sigma_gib
    )


def stages(
    work: Work, layout: Layout, bytes_: Recipe, eager: Array, stack: Stack, constants: MemoryConstants
) -> tuple[Parts, Parts]:
    """The first and the last pipeline stage (the same account when there is one stage)."""
    w = {f.name: np.asarray(getattr(work, f.name), float) for f in fields(Work)}
    t, p, c, e, d, v = (
        np.asarray(getattr(layout, name), float)
        for name in ("tensor", "pipeline", "context", "expert", "data", "virtual_stages")
    )
    zero = np.asarray(layout.sharding)
    group = d * c
    adapters = np.asarray(bytes_.adapter) > 0

    # Parameters of a stage
    tables = w["embedding_params"] + w["output_params"]
    dense = np.maximum(w["params"] - w["expert_params"] - tables, 0.0) / (t * p)
    experts = w["expert_params"] / (t * p * e)
    alone = p <= 1
    tables_first = np.where(alone, tables, w["embedding_params"]) / t
    tied = w["output_params"] <= 0
    tables_last = np.where(alone, tables, np.where(tied, w["embedding_params"], w["output_params"])) / t

    # Who shares what: experts are already divided by `e`, so their group is smaller
    share_w, share_g, share_o = (
        np.where(zero >= s, group, 1.0) for s in (Sharding.ZERO3, Sharding.ZERO2, Sharding.ZERO1)
    )
    expert_w, expert_g, expert_o = (np.maximum(share / e, 1.0) for share in (share_w, share_g, share_o))

    # ZeRO-3 keeps only the fp32 master; the compute copy exists layer by layer
    master = np.asarray(bytes_.master)
    kept = np.where((zero >= Sharding.ZERO3) & (master > 0), 0.0, 1.0)
    layers, one_of = np.maximum(w["layers"], 1.0), np.maximum(w["experts"] / e, 1.0)  # experts run one by one
    layer = (dense + experts) * p / layers
    gathers = (zero >= Sharding.ZERO3) & (group > 1)
    held = np.where(p > 1, 1.0, 0.0)  # a pipeline stage is used again at once, so FSDP leaves it gathered
    trained = np.where(adapters, 0.0, 1.0)
    values, working = _activation_values(w, layout, eager, constants)
    whole_stored, whole_working = _undivided(t, np.asarray(layout.recompute), np.asarray(stack.sequence_parallel))
    depth = np.where(p > 1, 1 + (p - 1) / (p * v) * (v > 1), 1.0)
    in_flight = np.minimum(p, np.maximum(np.asarray(layout.grad_accum, float), 1.0))
    quantised = np.asarray(bytes_.dequantised) > 0
    on_gpu = np.where(np.asarray(layout.offload) > 0, 0.0, 1.0)  # offloaded states and master weights live in the host
    on_host = np.asarray(stack.host_checkpoints) * (np.asarray(layout.recompute) >= Recompute.FULL)
    over = np.where(w["layers"] > 0, constants.activation_factor, constants.counted_factor)
    fused = np.asarray(stack.fused) > 0
    over = over * np.where(fused & (w["layers"] > 0), constants.fused_share, 1.0)
    value_bytes = np.asarray(bytes_.activation) * over
    # Plain layers keep the gate's SiLU beside the gate, and 16-bit ones what meets a frozen norm in fp32; fused ones no
    twice = ~fused & ((np.asarray(bytes_.activation) < 4) | (w["layers"] > 0))
    value_bytes = value_bytes * np.where(twice, 1.0 + w["single_share"], 1.0)
    value_bytes = value_bytes * np.where(quantised, constants.quantised_factor, 1.0)
    # Recomputing everything keeps the layers' inputs alone, exactly as counted; a layer at work has the copies
    kept_bytes = np.where(np.asarray(layout.recompute) >= Recompute.FULL, np.asarray(bytes_.activation), value_bytes)
    loss = w["logits_values"] * constants.logits_bytes / (t * c)
    loss = loss * np.where(np.asarray(stack.chunked_loss) > 0, constants.chunked_share, 1.0)

    gpus = np.asarray(layout.gpus, float)
    outside = constants.context_gib + np.where(gpus > 1, constants.nccl_gib, 0.0)
    framework: Array = GIB * (constants.workspace_gib + outside * np.asarray(stack.counted))

    def stage(tables_here: Array, flights: Array, logits: Array) -> Parts:
        weights = (
            kept
            * (
                bytes_.weight * dense / share_w
                + bytes_.weight * experts / expert_w
                + bytes_.embedding * tables_here / share_w
            )
            + bytes_.adapter * w["trainable_params"] / (t * p) / share_w
        )
        updated = w["trainable_params"] / np.maximum(np.where(adapters, 1.0, w["params"]), 1.0)
        mine = np.where(adapters, 1.0 / (t * p), dense + tables_here)  # x `updated` below: parameters trained here
        mine_experts = np.where(adapters, 0.0, experts)
        gradients = bytes_.gradient * updated * (mine / share_g + mine_experts / expert_g)
        states = on_gpu * (np.asarray(bytes_.optimizer) + master) * updated * (mine / share_o + mine_experts / expert_o)
        gathered = gathers * (
            held * (bytes_.weight * (dense + experts) + trained * bytes_.gradient * (dense + experts))
            + (1 - held) * layer * (constants.gathered_layers * bytes_.weight + trained * bytes_.gradient)
            + tables_here * bytes_.embedding
        )
        whole = updated * (mine + mine_experts)
        copies = (zero == Sharding.DDP) & (group > 1)
        bucket = np.where(copies, bytes_.gradient * whole * stack.bucket_copy, 0.0)
        partial = (zero >= Sharding.ZERO1) & (zero <= Sharding.ZERO2) & (group > 1)
        bucket = bucket + np.where(partial, 2 * bytes_.embedding * np.minimum(whole, BUCKET_VALUES), 0.0)
        dequantised = np.asarray(bytes_.dequantised) * (dense * p / layers + experts * p / layers / one_of)
        stored = values * flights * depth / p * (1 - on_host) * whole_stored
        at_work = working * whole_working
        return Parts(
            weights=weights,
            gradients=gradients,
            optimizer=states,
            buffers=gathered + bucket + dequantised,
            framework=framework,
            activations_per_sample=(stored * kept_bytes + at_work * value_bytes) / c,
            logits_per_sample=logits,
        )

    first = stage(tables_first, in_flight, np.where(alone, loss, 0.0))
    last = stage(tables_last, np.minimum(in_flight, 1.0), loss)
    return first, last


BUCKET_VALUES = 5e8  # DeepSpeed's default reduce and all-gather bucket


def _activation_values(
    w: dict[str, Array], layout: Layout, eager: Array, constants: MemoryConstants
) -> tuple[Array, Array]:
    """Values a sample keeps over the whole model, and the working set of the layer at work; NaN where unknown."""
    mode = np.asarray(layout.recompute)
    layers = np.maximum(w["layers"], 1.0)
    scores = w["score_values"] * eager * constants.score_share
    known = np.where(w["stored_values"] > 0, w["stored_values"], np.nan)
    lean = w["stored_values_selective"]
    selective = np.where(lean > 0, lean * constants.selective_share, known)
    full = np.where(w["stored_values_full"] > 0, w["stored_values_full"], selective)
    stored = np.select([mode >= Recompute.FULL, mode >= Recompute.SELECTIVE], [full, selective], known + scores)
    working = np.select(
        [mode >= Recompute.FULL, mode >= Recompute.SELECTIVE],
        [np.maximum(w["layer_values"], known / layers) + scores / layers, scores / layers],
        0.0,
    )
    return stored, working


def _undivided(tensor: Array, mode: Array, sequence_parallel: Array) -> tuple[Array, Array]:
    """Share of stored and of working values that one GPU of a tensor-parallel group holds.

    With sequence parallelism all of them are divided. Without, the inputs of norms, projections and dropout stay whole:
    10 of 34 bytes a position and width (Korthikanti et al., arXiv:2205.05198, equation 2), and all layer inputs.
    """
    partly = 10 / 34 + 24 / 34 / tensor
    split = sequence_parallel > 0
    return (
        np.where(split, 1 / tensor, np.where(mode >= Recompute.FULL, 1.0, partly)),
        np.where(split, 1 / tensor, partly),
    )


def _components(parts: Parts, micro: Array, constants: MemoryConstants) -> dict[str, Array]:
    """Bytes by component at a micro-batch."""
    activations = micro * parts.activations_per_sample
    logits = micro * parts.logits_per_sample
    moving = activations + logits + parts.buffers
    return {
        "weights": parts.weights,
        "gradients": parts.gradients,
        "optimizer": parts.optimizer,
        "activations": activations,
        "logits": logits,
        "buffers": parts.buffers,
        "framework": parts.framework,
        "fragmentation": constants.fragmentation * moving,
    }
