"""How does one row of the search read: figures with their units, what they rest on, and what to be wary of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from estimator.documents import (
    Evidence,
    Interval,
    LayoutDocument,
    MemoryDocument,
    PriceDocument,
    Throughput,
)
from estimator.evidence import KINDS, Evidenced
from estimator.job import Job
from estimator.memory import COMPONENTS, TIGHT, VERDICTS
from estimator.performance import BOUNDS
from estimator.search import Found
from estimator.terms import ActivationCheckpointing, NicKind, Recompute, ShardingKind, Verdict
from pricing.offers import Market, Offer, PriceState

TERMS = ("compute", "memory", "launch", "communication", "pipeline", "input")
OLD_PRICE_DAYS = 45

_SHARDINGS = (ShardingKind.DDP, ShardingKind.ZERO1, ShardingKind.ZERO2, ShardingKind.ZERO3)
_RECOMPUTES = {
    Recompute.NONE: ActivationCheckpointing.NONE,
    Recompute.SELECTIVE: ActivationCheckpointing.SELECTIVE,
    Recompute.FULL: ActivationCheckpointing.FULL,
}


def echo(job: Job) -> dict[str, Any]:
    """The request as it was understood: what the user gave, and what it comes to."""
    given = job.workload.model_dump(mode="json", exclude_unset=True)
    training = job.training
    return given | {
        "model": job.facts.name,
        "params_m": job.facts.params_m,
        "method": job.workload.method.value,
        "precision": job.workload.precision.value,
        "optimizer": job.workload.optimizer.value,
        "software": job.workload.software.value,
        "seq_len": training.seq_len,
        "image_size": training.image_size,
        "global_batch": training.global_batch,
        "steps": job.steps,
        "samples_total": training.samples,
        "tokens_total": training.tokens,
        "epochs": job.workload.epochs,
    }


def price_of(offer: Offer | None, nodes: int, now: datetime) -> PriceDocument:
    """The price of `nodes` instances of an offer; unpriced where there is none."""
    if offer is None or offer.price_usd_per_hour is None:
        return PriceDocument(
            usd_per_hour=None,
            usd_per_hour_instance=None,
            source=None,
            observed_at=None,
            age_hours=None,
            state=PriceState.UNPRICED,
        )
    seen = offer.observed_at
    return PriceDocument(
        usd_per_hour=offer.price_usd_per_hour * nodes,
        usd_per_hour_instance=offer.price_usd_per_hour,
        source=offer.source,
        observed_at=seen,
        age_hours=None if seen is None else max(0.0, (now - seen).total_seconds() / 3600.0),
        state=offer.state,
    )


def entry_of(
    job: Job,
    found: Found,
    evidence: Evidenced,
    row: int,
    *,
    hours: tuple[float, float, float],
    parts: dict[str, float],
    cost: tuple[float, float, float] | None,
    price: PriceDocument,
    offer: Offer | None,
) -> dict[str, Any]:
    """The fields that an estimate and a plan share, for one row of the search."""
    gpus = float(found.gpus[row])
    step = float(evidence.step_seconds[row])
    scale = step / _at(found.step.total, row)
    samples = job.training.global_batch / step
    return {
        "gpu": str(np.asarray(found.hardware.gpu)[row]),
        "gpus": gpus,
        "nodes": int(_at(found.hardware.nodes, row)),
        "layout": layout_of(found, row),
        "throughput": Throughput(value=samples * job.sample_positions, unit=f"{job.training.unit}/s"),
        "step_ms": step * 1e3,
        "steps": job.steps,
        "mfu": utilisation(job, found, row, step, recomputed=False),
        "hfu": utilisation(job, found, row, step, recomputed=True),
        "bound_by": BOUNDS[int(found.step.bound_by[row])],
        "breakdown_ms": {term: _at(getattr(found.step, term), row) * scale * 1e3 for term in TERMS},
        "hours": Interval(p10=hours[0], p50=hours[1], p90=hours[2]),
        "hours_parts": parts,
        "gpu_hours": hours[1] * gpus,
        "cost_usd": None if cost is None else Interval(p10=cost[0], p50=cost[1], p90=cost[2]),
        "price": price,
        "memory_gib": memory_of(found, row),
        "evidence": Evidence(kind=KINDS[int(evidence.kind[row])], correction=float(evidence.factor[row])),
        "warnings": cautions(job, found, row, hours, offer, price),
    }


def layout_of(found: Found, row: int) -> LayoutDocument:
    """How the job is divided."""
    layout = found.layout
    data, context = int(_at(layout.data, row)), int(_at(layout.context, row))
    sharding = _SHARDINGS[int(_at(layout.sharding, row))]
    if sharding is ShardingKind.DDP and data * context == 1:
        sharding = ShardingKind.NONE
    return LayoutDocument(
        micro_batch=_at(layout.micro_batch, row),
        grad_accum=int(_at(layout.grad_accum, row)),
        data=data,
        tensor=int(_at(layout.tensor, row)),
        pipeline=int(_at(layout.pipeline, row)),
        context=context,
        expert=int(_at(layout.expert, row)),
        sharding=sharding.value,
        activation_checkpointing=_RECOMPUTES[Recompute(int(_at(layout.recompute, row)))].value,
    )


def memory_of(found: Found, row: int) -> MemoryDocument:
    """What one GPU holds, by component."""
    used = float(np.atleast_1d(found.memory.used)[row])
    capacity = _at(found.hardware.capacity_gib, row)
    return MemoryDocument(
        used=used,
        capacity=capacity,
        verdict=Verdict(VERDICTS[int(found.verdict[row])]),
        parts={name: _at(getattr(found.memory, name), row) for name in COMPONENTS},
    )


def utilisation(job: Job, found: Found, row: int, step: float, *, recomputed: bool) -> float | None:
    """MFU (model FLOPs) or HFU (with recomputation) against the dense peak at the precision; None without FLOPs."""
    work = job.work
    forward = work.matmul_flops + work.expert_flops + work.grouped_flops + work.attention_flops
    if not forward:
        return None
    passes = 1.0 + float(np.asarray(work.backward_ratio))
    if recomputed and _at(found.layout.recompute, row) == Recompute.FULL:
        passes += 1.0
    flops = float(np.asarray(forward)) * passes * job.training.global_batch
    peak = _at(found.hardware.matmul_tflops, row) * 1e12 * _at(found.hardware.gpus, row)
    return flops / (step * peak)


def cautions(
    job: Job,
    found: Found,
    row: int,
    hours: tuple[float, float, float],
    offer: Offer | None,
    price: PriceDocument,
) -> list[str]:
    """What a careful colleague would add to this plan."""
    notes = []
    if found.verdict[row] == TIGHT:
        notes.append("memory is tight: it may not fit; a smaller micro-batch or more recomputation gives room")
    nodes = _at(found.hardware.nodes, row)
    if nodes > 1 and _at(found.hardware.nic_kind, row) == NicKind.ETHERNET:
        notes.append("no RDMA between these nodes: multi-node scaling depends on the network actually given")
    if offer is not None and offer.market is Market.SPOT:
        notes.append("spot: interruptions are not in these hours and dollars")
    if price.age_hours is not None and price.age_hours > OLD_PRICE_DAYS * 24:
        notes.append(f"the price was observed {price.age_hours / 24:.0f} days ago")
    if price.state is PriceState.STALE:
        notes.append("the price is stale" + (f": {offer.note}" if offer is not None and offer.note else ""))
    deadline = job.workload.constraints.deadline
    if deadline is not None and hours[2] > deadline:
        notes.append(f"may miss the deadline: one run in ten takes longer than {hours[2]:.1f} h")
    return notes


def _at(value: Any, row: int) -> float:
    array = np.asarray(value)
    return float(array[row] if array.ndim else array)
