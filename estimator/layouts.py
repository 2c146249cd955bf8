"""Which divisions of the job over GPUs are worth a look, on every kind of hardware at once?

The search is an array program. Rows of hardware that memory cannot tell apart are searched once; the parallel degrees
that make sense for the size of the model (a few dozen) are crossed with them, then with sharding and recomputation; the
largest micro-batch of each comes out of the memory account in closed form, and only micro-batches that no cheaper
choice also reaches are kept: recomputation and sharding are there to fit more, so where a layout without them fits the
same micro-batch, theirs is not worth evaluating (the largest of each sharding stage stays, for comparison).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layout import Layout
from estimator.memory import MemoryAccount, account, largest_micro_batch, verdict
from estimator.records import pick
from estimator.terms import (
    ActivationCheckpointing,
    LinkKind,
    Method,
    Optimizer,
    Precision,
    Recompute,
    Sharding,
    ShardingKind,
)
from estimator.work import Work

__all__ = ["REFUSALS", "Candidates", "Layout", "Limits", "enumerate_layouts"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

REFUSALS = ("", "memory", "batch", "degrees")
"""By code, why a row of hardware has no candidate: nothing fits; the batch does not divide over the replicas; the
parallel degrees do not divide the GPUs."""
FITS, NO_MEMORY, NO_BATCH, NO_DEGREES = range(4)

SHARDINGS = (Sharding.DDP, Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3)
RECOMPUTES = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
LONG_CONTEXT = 16_384.0  # tokens from which splitting a sequence over GPUs is considered
MAX_TENSOR = 8.0  # the tensor degree that published runs stay within on NVLink nodes; 2 on PCIe
GOOD_PIPELINES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 32)
UNLIMITED_GIB = 1e6  # stands for a capacity nobody states


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the user fixed; None and AUTO leave the choice to the search."""

    micro_batch: int | None = None
    grad_accum: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    context: int | None = None
    expert: int | None = None
    sharding: ShardingKind = ShardingKind.AUTO
    recompute: ActivationCheckpointing = ActivationCheckpointing.AUTO
    offload: bool = False
    per_hardware: int = 64  # at most so many layouts a row of hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Layouts worth evaluating on h rows of hardware; n candidates in all, those of one row together."""

    layout: Layout  # arrays of shape (n,)
    row: Index  # (n,) the row of the hardware table each belongs to
    memory: MemoryAccount  # (n,)
    verdict: Index  # (n,) codes of `memory.VERDICTS`; never "no"
    refused: Index  # (h,) codes of `REFUSALS`


@dataclass(frozen=True, slots=True)
class _Machines:
    """Rows of hardware that differ for the search, shape (u,)."""

    gpus: Array
    nodes: Array
    domain: Array  # GPUs within reach of the in-node link
    capacity: Array
    pcie: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Method:
    """What the memory account wants to know besides work and layout."""

    method: Method
    precision: Precision
    optimizer: Optimizer
    attention: str


def enumerate_layouts(
    work: Work,
    hardware: Hardware,
    *,
    global_batch: float,
    limits: Limits = Limits(),
    method: Method = Method.FULL,
    precision: Precision = Precision.BF16,
    optimizer: Optimizer = Optimizer.ADAMW,
    attention: str = "flash",
) -> Candidates:
    """Candidate layouts of one workload (scalar `work`) on h rows of hardware, those that cannot fit left out.

    data x micro_batch always divides `global_batch`. Layouts that surely fit are preferred; a row where none does gets
    those whose verdict is `tight`. Where the activations of a model are unknown, its verdict is `unknown`.
    """
    ask = _Method(method, precision, optimizer, attention)
    machines, machine_of_row = _machines(hardware)
    degrees = _degrees(work, limits)
    machine, degree, refused = _pairs(work, machines, degrees, limits, global_batch, ask)
    layout, machine = _with_micro_batches(work, machines, machine, degrees[degree], limits, global_batch, ask)
    layout, machine = _best(layout, machine, work, machines, limits.per_hardware)
    memory = _account(work, layout, ask)
    fits = verdict(memory.used, machines.capacity[machine], memory.sigma)
    refused = np.where(np.bincount(machine, minlength=len(machines.gpus)) > 0, FITS, refused)

    # From machines back to the rows of the table
    count = np.bincount(machine, minlength=len(machines.gpus))
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    copies = count[machine_of_row]
    row = np.repeat(np.arange(len(machine_of_row)), copies)
    within = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
    place = start[machine_of_row][row] + within
    return Candidates(
        layout=pick(layout, place),
        row=row,
        memory=pick(memory, place),
        verdict=fits[place],
        refused=refused[machine_of_row],
    )


def _machines(hardware: Hardware) -> tuple[_Machines, Index]:
    """The distinct machines of a hardware table, and the machine of each of its rows."""
    per_node, nodes, capacity, kind, domain = np.broadcast_arrays(
        *(
            np.atleast_1d(np.asarray(x, float))
            for x in (
                hardware.gpus_per_node,
                hardware.nodes,
                hardware.capacity_gib,
                hardware.link_kind,
                hardware.domain_gpus,
            )
        )
    )
    gpus = np.maximum(np.floor(per_node * nodes + 1e-9), 1.0)
    reach = np.maximum(np.maximum(np.floor(per_node), 1.0), np.minimum(domain, gpus))
    table = np.stack([gpus, nodes, reach, np.nan_to_num(capacity, nan=-1.0), kind <= LinkKind.PCIE], axis=1)
    distinct, machine_of_row = np.unique(table, axis=0, return_inverse=True)
    memory = np.where(distinct[:, 3] < 0, np.nan, distinct[:, 3])
    return _Machines(distinct[:, 0], distinct[:, 1], distinct[:, 2], memory, distinct[:, 4] > 0), machine_of_row.ravel()


def _degrees(work: Work, limits: Limits) -> Array:
    """Parallel degrees (tensor, pipeline, context, expert) that suit the shape of the model; shape (k, 4)."""
    heads, kv, layers, tokens = (float(x) for x in (work.heads, work.kv_heads, work.layers, work.tokens))
    experts = float(work.experts)
    tensor = [t for t in (1.0, 2.0, 4.0, 8.0) if t == 1 or (heads and heads % t == 0 and (kv % t == 0 or t % kv == 0))]
    pipeline = [float(p) for p in GOOD_PIPELINES if p == 1 or (layers and p <= layers and _even(layers, p))]
    context = [1.0, *(c for c in (2.0, 4.0, 8.0, 16.0) if tokens >= LONG_CONTEXT and tokens / c >= LONG_CONTEXT / 4)]
    expert = [1.0, *(e for e in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0) if experts and experts % e == 0)]
    axes = [
        [float(fixed)] if fixed else free
        for fixed, free in (
            (limits.tensor, tensor),
            (limits.pipeline, pipeline),
            (limits.context, context),
            (limits.expert, expert),
        )
    ]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def _even(layers: float, stages: float) -> bool:
    """Whether the fullest of `stages` pipeline stages holds at most 4% more layers than the average."""
    return bool(np.ceil(layers / stages) * stages / layers <= 1.04)


def _pairs(
    work: Work, machines: _Machines, degrees: Array, limits: Limits, global_batch: float, ask: _Method
) -> tuple[Index, Index, Index]:
    """Machines crossed with the degrees that make sense on them: indices of both, and the refusal of each machine.

    Model parallelism is looked at up to four times what the states of one replica need of a GPU, and not at all where
    they take less than 80% of one: replicas and sharding are simpler and as fast there. Tensor parallelism stays within
    the reach of the in-node link, pipelines cross nodes or PCIe. A degree that the user fixed is never second-guessed.
    """
    tensor, pipeline, context, expert = (column[None, :] for column in degrees.T)
    gpus = machines.gpus[:, None]
    size = tensor * pipeline * context
    divides = (gpus % size == 0) & (expert <= gpus / (tensor * pipeline)) & ((gpus / (tensor * pipeline)) % expert == 0)

    capacity = np.nan_to_num(machines.capacity, nan=UNLIMITED_GIB)[:, None]
    need = _replica_gib(work, ask) / capacity
    peft = ask.method in (Method.LORA, Method.QLORA)
    useful = np.where(need <= (1.0 if peft else 0.8), 1.0, 2.0 ** np.ceil(np.log2(4.0 * need)))
    own = (1.0 if limits.tensor else tensor) * (1.0 if limits.pipeline else pipeline)  # the part that is ours to choose
    sensible = (own <= 1) | (
        tensor * pipeline
        <= np.maximum(useful, np.where(context > 1, MAX_TENSOR, 1.0) * (float(work.tokens) >= LONG_CONTEXT))
    )
    if not limits.tensor:
        widest = np.where(machines.pcie, 2.0, MAX_TENSOR)[:, None]
        sensible &= (tensor <= widest) & ((tensor * context <= machines.domain[:, None]) | (tensor == 1))
    if not limits.pipeline:
        sensible &= (pipeline == 1) | (machines.pcie[:, None] | (machines.nodes[:, None] > 1)) & ~np.asarray(peft)
    possible = divides & sensible

    data = gpus / size
    share = global_batch / data / float((limits.micro_batch or 1) * (limits.grad_accum or 1))
    batched = possible & (np.abs(share - np.round(share)) < 1e-9) & (share > 0.5)
    refused = np.select([~possible.any(axis=1), ~batched.any(axis=1)], [NO_DEGREES, NO_BATCH], NO_MEMORY)
    machine, degree = np.nonzero(batched)
    return machine, degree, refused


def _replica_gib(work: Work, ask: _Method) -> float:
    """GiB of weights, gradients and optimizer states of one undivided replica."""
    alone = account(
        replace(work, stored_values=1.0, stored_values_selective=1.0, stored_values_full=1.0),
        Layout(),
        method=ask.method,
        precision=ask.precision,
        optimizer=ask.optimizer,
    )
    return float(alone.weights + alone.gradients + alone.optimizer)


def _with_micro_batches(
    work: Work, machines: _Machines, machine: Index, degrees: Array, limits: Limits, global_batch: float, ask: _Method
) -> tuple[Layout, Index]:
    """Pairs crossed with sharding, recomputation and micro-batches worth a look: layouts (n,) and their machines."""
    tensor, pipeline, context, expert = degrees.T
    data = machines.gpus[machine] / (tensor * pipeline * context)
    replica_batch = np.round(global_batch / data)
    allowed = _allowed(data * context, pipeline, limits, ask)  # (pairs, shardings, recomputes)
    pair, s, r = np.nonzero(allowed)
    if len(pair) == 0:
        none = np.empty(0)
        return _layout_of(np.empty((0, 4)), none, none, none, none, none, none), pair
    trial = Layout(
        data=data[pair],
        tensor=tensor[pair],
        pipeline=pipeline[pair],
        context=context[pair],
        expert=expert[pair],
        grad_accum=np.maximum(replica_batch[pair], 1.0),
        virtual_stages=_virtual_stages(work, pipeline[pair]),
        sharding=np.array(SHARDINGS)[s],
        recompute=np.array(RECOMPUTES)[r],
        offload=int(limits.offload),
    )
    capacity = np.nan_to_num(machines.capacity, nan=UNLIMITED_GIB)[machine[pair]]
    most = np.minimum(_largest(work, trial, capacity, ask, machine[pair], len(machines.gpus)), replica_batch[pair])
    if not limits.pipeline:  # a pipeline of one's own choice is filled at least once
        most = np.where(pipeline[pair] > 1, np.minimum(most, np.floor(replica_batch[pair] / pipeline[pair])), most)

    # Keep a micro-batch only where neither less sharding nor less recomputation reaches it
    reach = np.zeros(allowed.shape)
    reach[pair, s, r] = most
    ceiling = np.maximum.accumulate(np.maximum.accumulate(reach, axis=1), axis=2)
    below = np.zeros_like(ceiling)
    below[:, 1:, :] = ceiling[:, :-1, :]
    below[:, :, 1:] = np.maximum(below[:, :, 1:], ceiling[:, :, :-1])
    lower = below[pair, s, r]
    cheaper = np.concatenate([np.zeros_like(reach[:, :, :1]), np.maximum.accumulate(reach, axis=2)[:, :, :-1]], axis=2)
    first = cheaper[pair, s, r] < 1  # the least recomputation at which this sharding fits

    sizes = _micro_batches(global_batch, limits)
    divides = (replica_batch[pair][:, None] % sizes[None, :] == 0) & (sizes[None, :] <= most[:, None])
    if limits.grad_accum is not None:
        divides &= sizes[None, :] * limits.grad_accum == replica_batch[pair][:, None]
    power = (np.log2(sizes) % 1 == 0) | (limits.micro_batch is not None)
    largest = divides & (np.cumsum(divides[:, ::-1], axis=1)[:, ::-1] == 1)
    keep = divides & (power[None, :] | largest) & (sizes[None, :] > lower[:, None]) | (largest & first[:, None])
    trial_of, size_of = np.nonzero(keep)
    chosen = pair[trial_of]
    micro = sizes[size_of]
    layout = _layout_of(
        degrees[chosen],
        data[chosen],
        micro,
        np.round(replica_batch[chosen] / micro),
        _virtual_stages(work, pipeline[chosen]),
        np.array(SHARDINGS)[s[trial_of]],
        np.array(RECOMPUTES)[r[trial_of]],
        offload=int(limits.offload),
    )
    return layout, machine[chosen]


def _allowed(group: Array, pipeline: Array, limits: Limits, ask: _Method) -> NDArray[np.bool_]:
    """Which sharding stages and recomputation modes are looked at for each pair; shape (pairs, 4, 3).

    One GPU has nothing to share. Pipelines share optimizer states only (ZeRO-2 and 3 would gather or reduce for every
    micro-batch); adapters have next to no states, so only replicas and ZeRO-3 differ for them.
    """
    shardings = np.ones((len(group), len(SHARDINGS)), bool)
    if limits.sharding is ShardingKind.AUTO:
        shardings[:, Sharding.DDP] = (group <= 1) | (pipeline <= 1)
        shardings[:, Sharding.ZERO1] = group > 1
        shardings[:, Sharding.ZERO2 :] = ((group > 1) & (pipeline <= 1))[:, None]
        if ask.method in (Method.LORA, Method.QLORA):
            shardings[:, [Sharding.ZERO1, Sharding.ZERO2]] = False
            shardings[:, Sharding.DDP] |= pipeline > 1
    else:
        stage = {"zero1": Sharding.ZERO1, "zero2": Sharding.ZERO2, "zero3": Sharding.ZERO3}.get(
            limits.sharding.value, 0
        )
        shardings[:] = np.arange(len(SHARDINGS))[None, :] == np.where(group > 1, int(stage), 0)[:, None]
    recomputes = np.ones(len(RECOMPUTES), bool)
    if limits.recompute is not ActivationCheckpointing.AUTO:
        only = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}[
            limits.recompute.value
        ]
        recomputes = np.arange(len(RECOMPUTES)) == int(only)
    return shardings[:, :, None] & recomputes[None, None, :]


def _largest(work: Work, trial: Layout, capacity: Array, ask: _Method, machine: Index, machines: int) -> Array:
    """Largest micro-batch of each trial that surely fits; on machines where nothing does, that is expected to fit; and
    where nothing is expected to either, that may fit."""
    if not float(work.stored_values) > 0:
        return np.where(np.asarray(trial.recompute) == Recompute.NONE, 256.0, 0.0)
    largest = _largest_micro_batch(work, trial, capacity, ask, True)
    for surely in (None, False):
        barren = np.bincount(machine, weights=largest >= 1, minlength=machines)[machine] == 0
        if not barren.any():
            break
        some = _largest_micro_batch(work, pick(trial, np.nonzero(barren)[0]), capacity[barren], ask, surely)
        largest[barren] = some
    return largest


def _micro_batches(global_batch: float, limits: Limits) -> Array:
    """Divisors of the global batch in rising order, or the micro-batch the user fixed."""
    if limits.micro_batch is not None:
        return np.array([float(limits.micro_batch)])
    numbers = np.arange(1.0, min(np.floor(global_batch), 4096.0) + 1.0)
    return numbers[np.abs(global_batch % numbers) < 1e-9]


def _best(layout: Layout, machine: Index, work: Work, machines: _Machines, per_machine: int) -> tuple[Layout, Index]:
    """At most `per_machine` layouts of each machine, the likely fastest, machines in order.

    The likely cost of a step is a product of rules of thumb (recomputation 4/3, the pipeline bubble, communication of
    tensor, context and expert parallelism, tiny micro-batches); it decides what is evaluated, never what is shown.
    """
    micro, accum, tensor, pipeline, context, expert = (
        np.asarray(x, float)
        for x in (
            layout.micro_batch,
            layout.grad_accum,
            layout.tensor,
            layout.pipeline,
            layout.context,
            layout.expert,
        )
    )
    pcie = machines.pcie[machine]
    recompute = np.array([1.0, 1.1, 1.33])[np.asarray(layout.recompute, int)]
    tokens = micro * float(work.tokens) / (tensor * context)
    cost = (
        recompute
        * (1 + (pipeline - 1) / (accum * layout.virtual_stages))
        * (1 + np.where(pcie, 0.5, 0.06) * np.log2(tensor))
    )
    far = np.where(expert * tensor > machines.domain[machine], 0.3, 0.02)  # exchanges of tokens that leave the node
    cost *= (1 + 0.05 * np.log2(context)) * (1 + far * np.log2(expert)) * (1 + 512.0 / (tokens + 512.0))
    cost *= 1 + np.where(np.asarray(layout.sharding) == Sharding.ZERO3, 2e4 / (tokens * accum + 2e4), 0.0)
    order = np.lexsort((cost, machine))
    sorted_machine = machine[order]
    starts = np.searchsorted(sorted_machine, sorted_machine)
    order = order[np.arange(len(order)) - starts < per_machine]
    return pick(layout, order), machine[order]


LAYERS_A_STAGE = 2.0
"""Layers of a virtual stage in an interleaved schedule (NVIDIA's published configurations of Megatron Core)."""


def _virtual_stages(work: Work, pipeline: Array) -> Array:
    """Model chunks of a GPU in an interleaved pipeline (Narayanan et al., arXiv:2104.04473), 1 without a pipeline."""
    return np.where(pipeline > 1, np.maximum(np.round(float(work.layers) / pipeline / LAYERS_A_STAGE), 1.0), 1.0)


def _layout_of(
    degrees: Array,
    data: Array,
    micro: Array,
    accum: Array,
    virtual: Array,
    sharding: Array,
    recompute: Array,
    offload: int = 0,
) -> Layout:
    """Arrays of one length as a `Layout`; stages interleave where their number divides the micro-batches."""
    return Layout(
        micro_batch=micro,
        grad_accum=accum,
        data=data,
        tensor=degrees[:, 0],
        pipeline=degrees[:, 1],
        context=degrees[:, 2],
        expert=degrees[:, 3],
        virtual_stages=np.where(accum % np.maximum(degrees[:, 1], 1.0) == 0, virtual, 1.0),
        sharding=np.asarray(sharding, np.int64),
        recompute=np.asarray(recompute, np.int64),
        offload=np.full(len(data), offload),
    )


def _account(work: Work, layout: Layout, ask: _Method) -> MemoryAccount:
    """The memory account of layouts under one method."""
    return account(
        work,
        layout,
        method=ask.method,
        precision=ask.precision,
        optimizer=ask.optimizer,
        attention=ask.attention,
    )


def _largest_micro_batch(work: Work, trial: Layout, capacity: Array, ask: _Method, surely: bool | None) -> Array:
    """`memory.largest_micro_batch` under one method."""
    return largest_micro_batch(
        work,
        trial,
        capacity,
        method=ask.method,
        precision=ask.precision,
        optimizer=ask.optimizer,
        attention=ask.attention,
        surely=surely,
    )
