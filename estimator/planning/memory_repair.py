"""What is the smallest change that makes a workload fit, where it fits nowhere?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from estimator.hardware import Hardware
from estimator.layouts import Candidates, Limits, enumerate_layouts
from estimator.memory import YES
from estimator.terms import ActivationCheckpointing, Method, Optimizer, Precision, ShardingKind
from estimator.work import Work

MORE_NODES = (2.0, 4.0, 8.0, 16.0)
SHORTER = (0.5, 0.25)

WorkFor = Callable[[Method, float], Work | None]
"""Work of one sample under a method, with the sequence scaled by a factor; None where that makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One change of the request and where it then fits."""

    field: str  # key of the request
    value: str
    gpus: int  # the fewest GPUs that do, in all
    capacity_gib: float  # usable GiB of each
    used_gib: float
    surely: bool  # the verdict is `yes`, not `tight`

    def __str__(self) -> str:
        """The change in words.

        >>> print(Repair(field="method", value="qlora", gpus=1, capacity_gib=22.1, used_gib=9.8, surely=True))
        method: qlora would fit (9.8 of 22.1 GiB on 1 GPU)
        """
        cards = "1 GPU" if self.gpus == 1 else f"each of {self.gpus} GPUs"
        verb = "would fit" if self.surely else "might just fit"
        return f"{self.field}: {self.value} {verb} ({self.used_gib:.1f} of {self.capacity_gib:.1f} GiB on {cards})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the memory of a workload depends on."""

    global_batch: float
    limits: Limits
    method: Method
    precision: Precision = Precision.BF16
    optimizer: Optimizer = Optimizer.ADAMW
    attention: str = "flash"
    seq_len: float | None = None  # tokens; None where there is no sequence


def repairs(work_for: WorkFor, hardware: Hardware, asked: Request, *, most: int = 4) -> list[Repair]:
    """Changes that make the request fit on some row of `hardware`, those that cost least time first.

    First what costs no result (a free choice of micro-batch, recomputation, sharding or degrees, 8-bit Adam), then
    more nodes, states in host memory, a shorter sequence, and last another method. Where no single change helps,
    another method together with more nodes or a shorter sequence. Empty where that does not help either.
    """
    single = _that_fit(_changes(asked), work_for, hardware, most)
    return single or _that_fit(_pairs(asked), work_for, hardware, 1)


Change = tuple[str, str, Request, float, float]
"""Field, value, changed request, scale of the sequence, factor on nodes."""


def _that_fit(changes: Iterable[Change], work_for: WorkFor, hardware: Hardware, most: int) -> list[Repair]:
    """The first `most` of `changes` that fit, one a field unless the first of it only might."""
    found: list[Repair] = []
    for field, value, changed, scale, nodes in changes:
        if any(one.field == field and (one.surely or field != "method") for one in found):
            continue  # the smaller step of the same kind is enough
        work = work_for(changed.method, scale)
        if work is None:
            continue
        machines = hardware if nodes == 1.0 else replace(hardware, nodes=np.asarray(hardware.nodes, float) * nodes)
        candidates = enumerate_layouts(
            work,
            machines,
            global_batch=changed.global_batch,
            limits=changed.limits,
            method=changed.method,
            precision=changed.precision,
            optimizer=changed.optimizer,
            attention=changed.attention,
        )
        smallest = _smallest(field, value, candidates, machines)
        if smallest is not None:
            found.append(smallest)
        if len(found) == most:
            break
    return found


def _pairs(asked: Request) -> Iterator[Change]:
    """Another method and one more change, the less of either first."""
    methods = {Method.FULL: (Method.LORA, Method.QLORA), Method.LORA: (Method.QLORA,)}.get(asked.method, ())
    shorter = [(scale, 1.0) for scale in SHORTER if asked.seq_len is not None]
    for scale, nodes in [*((1.0, factor) for factor in MORE_NODES), *shorter]:
        for method in methods:
            more = f"{nodes:.0f} times the nodes" if nodes > 1.0 else f"seq_len {(asked.seq_len or 0.0) * scale:.0f}"
            yield "method", f"{method.value} and {more}", replace(asked, method=method), scale, nodes


def _changes(asked: Request) -> Iterator[Change]:
    """Changes of one thing, the cheapest in time first."""
    limits = asked.limits

    def freed(**free: object) -> Request:
        return replace(asked, limits=replace(limits, **free))  # type: ignore[arg-type]

    if limits.micro_batch is not None:
        yield "micro_batch", "auto", freed(micro_batch=None), 1.0, 1.0
    if limits.recompute not in (ActivationCheckpointing.AUTO, ActivationCheckpointing.FULL):
        yield "activation_checkpointing", "full", freed(recompute=ActivationCheckpointing.FULL), 1.0, 1.0
    if limits.sharding not in (ShardingKind.AUTO, ShardingKind.ZERO3):
        yield "sharding", "zero3", freed(sharding=ShardingKind.ZERO3), 1.0, 1.0
    if any((limits.tensor, limits.pipeline, limits.context, limits.expert)):
        yield "tensor_parallel", "auto", freed(tensor=None, pipeline=None, context=None, expert=None), 1.0, 1.0
    if asked.optimizer is Optimizer.ADAMW:
        yield "optimizer", Optimizer.ADAMW_8BIT.value, replace(asked, optimizer=Optimizer.ADAMW_8BIT), 1.0, 1.0
    for factor in MORE_NODES:
        yield "max_nodes", f"{factor:.0f} times the nodes", asked, 1.0, factor
    if not limits.offload:
        yield "offload", "optimizer states in host memory", freed(offload=True), 1.0, 1.0
    if asked.precision is Precision.BF16 and asked.method in (Method.FULL, Method.PRETRAIN):
        yield "precision", Precision.PURE_BF16.value, replace(asked, precision=Precision.PURE_BF16), 1.0, 1.0
    if asked.seq_len is not None:
        for scale in SHORTER:
            yield "seq_len", f"{asked.seq_len * scale:.0f}", asked, scale, 1.0
    if asked.method is Method.FULL:
        yield "method", Method.LORA.value, replace(asked, method=Method.LORA), 1.0, 1.0
    if asked.method in (Method.FULL, Method.LORA):
        yield "method", Method.QLORA.value, replace(asked, method=Method.QLORA), 1.0, 1.0


def _smallest(field: str, value: str, candidates: Candidates, hardware: Hardware) -> Repair | None:
    """The change, on the fewest and smallest GPUs that it needs; surely before tight, nothing beyond the capacity."""
    gpus = np.broadcast_to(np.maximum(np.asarray(hardware.gpus, float), 1.0), candidates.refused.shape)
    capacity = np.broadcast_to(np.asarray(hardware.capacity_gib, float), candidates.refused.shape)
    sure = candidates.verdict == YES
    used = candidates.memory.used
    within = used <= capacity[candidates.row]
    if not within.any():
        return None
    best = np.lexsort((used, capacity[candidates.row], gpus[candidates.row], ~sure, ~within))[0]
    row = candidates.row[best]
    return Repair(
        field=field,
        value=value,
        gpus=int(gpus[row]),
        capacity_gib=float(capacity[row]),
        used_gib=float(used[best]),
        surely=bool(sure[best]),
    )
