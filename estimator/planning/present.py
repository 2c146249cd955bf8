"""How does one row of the search read: figures with their units, what they rest on, and what to be wary of."""

from __future__ import annotations

from datetime import datetime
from math import erf, sqrt
from typing import Any

import numpy as np

from estimator.documents import (
    ConvertedDocument,
    Interval,
    LayoutDocument,
    MeasurementUsed,
    MemoryDocument,
    PriceDocument,
    PricePathDocument,
    PriceSpreadDocument,
    RiskDocument,
    Spread,
    Throughput,
)
from estimator.energy import energy_of
from estimator.job import Job
from estimator.layout import Layout
from estimator.memory import COMPONENTS, TIGHT, UNKNOWN, VERDICTS, Z80, MemoryAccount
from estimator.performance import BOUNDS
from estimator.planning.evidence import evidence_document
from estimator.planning.search import Found
from estimator.planning.ways import Ways
from estimator.request.run import SpotPolicy
from estimator.risk.outcome import Outcome
from estimator.risk.price_path import observed
from estimator.runtime import start_up_parts
from estimator.terms import ActivationCheckpointing, Method, NicKind, Recompute, ShardingKind, Verdict
from pricing.interruptions import interruption
from pricing.offers import Market, Offer, PriceState

TERMS = ("compute", "memory", "launch", "communication", "pipeline", "input")
ROUNDING = 1e-12  # share of a sum below which a part is what rounding left
OLD_PRICE_DAYS = 45
LONG_DAYS = 90
ARM_HOSTS = ("T4G", "GH200", "GB200", "GB300")  # beside Graviton2 (AWS g5g) and Grace (NVIDIA's superchips) only
LONE_PRICE = 0.5  # of the median elsewhere: a spot price this low is one place's moment, not what the machine costs

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
        list_usd_per_hour=None if offer.list_price_usd_per_hour is None else offer.list_price_usd_per_hour * nodes,
        term_hours=offer.term_hours,
        break_even_hours=offer.break_even_hours,
        upfront_usd=None if offer.upfront_usd is None else offer.upfront_usd * nodes,
    )


def entry_of(job: Job, ways: Ways, row: int, now: datetime, near: list[MeasurementUsed]) -> dict[str, Any]:
    """The fields that an estimate and a plan share, for one way to run the job and the measurements near it."""
    found, evidence, at = ways.best, ways.evidence, int(ways.found[row])
    offer = ways.table.offer(int(ways.offer[row]))
    nodes = int(ways.nodes[row])
    moves = {"path": price_path_of(ways, row, offer), "spread": price_spread_of(ways, row, offer)}
    price = price_of(offer, nodes, now).model_copy(update=moves)
    gpus = float(found.gpus[at])
    step = float(evidence.step_seconds[at])
    scale = step / _at(found.step.total, at)
    samples = job.training.global_batch / step
    hours = _interval(ways.outcome, "hours", row)
    cost = None if price.usd_per_hour is None else _interval(ways.outcome, "cost", row)
    parts = {} if cost is None else cost_parts(job, ways, row, cost.p50)
    return {
        **machine_of(job, offer),
        "gpu": str(np.asarray(found.hardware.gpu)[at]),
        "gpus": gpus,
        "nodes": nodes,
        "layout": layout_document(found.layout, at),
        "throughput": Throughput(value=samples * job.sample_positions, unit=f"{job.training.unit}/s"),
        "step_ms": step * 1e3,
        "steps": job.steps,
        "precision": job.workload.precision.value,
        "mfu": utilisation(job, found, at, step, recomputed=False),
        "hfu": utilisation(job, found, at, step, recomputed=True),
        "bound_by": BOUNDS[int(found.step.bound_by[at])],
        "breakdown_ms": {term: _at(getattr(found.step, term), at) * scale * 1e3 for term in TERMS},
        "hours": hours,
        "hours_parts": hours_parts(job, ways, row),
        "gpu_hours": hours.p50 * gpus,
        "cost_usd": cost,
        "cost_parts": parts,
        "converted": converted(job, cost, price.usd_per_hour, parts),
        "risk": risk_of(ways, row, offer, priced=cost is not None),
        "energy": energy_of(str(np.asarray(found.hardware.gpu)[at]), hours.p50 * gpus, offer.cloud, offer.region)
        if job.workload.bill.energy
        else None,
        "price": price,
        "memory_gib": memory_document(found.memory, _at(found.hardware.capacity_gib, at), int(found.verdict[at]), at),
        "evidence": evidence_document(job, evidence, at, near),
        "warnings": cautions(job, ways, row, offer, price),
    }


def machine_of(job: Job, offer: Offer) -> dict[str, Any]:
    """Which machine it is, and where; nothing of one that is only the datasheet of its GPUs."""
    if offer.market is Market.OWN and not any(own.name == offer.instance_type for own in job.workload.own):
        return {}
    names = ("cloud", "region", "zone", "zone_id", "instance_type", "market")
    return {name: getattr(offer, name) for name in names}


def hours_parts(job: Job, ways: Ways, row: int) -> dict[str, float]:
    """Median hours by part, summing to the median of the whole.

    What the typical lengths leave is put down to failures and interruptions, as far as they are expected to cost; the
    rest is `spread`: the median of the whole lies above the sum of the typical parts, which have longer late ends.
    """
    outcome, cloud = ways.outcome, ways.table.offer(int(ways.offer[row])).cloud
    starting = start_up_parts(cloud, job.workload.run, compiled=bool(job.workload.compiled))
    parts = {name: part.typical for name, part in starting.items()} | {
        "staging": ways.plain.staging.typical,
        "training": float(ways.plain.training[row]),
        "evaluation": float(outcome.evaluation[row]),
        "checkpoints": float(outcome.checkpoints[row]),
    }
    parts = {name: hours for name, hours in parts.items() if hours > 0 or name == "training"}
    total, whole = float(outcome.hours_p50[row]), sum(parts.values())
    if total < whole:
        return {name: hours * total / whole for name, hours in parts.items()}
    lost, share = min(total - whole, float(outcome.lost[row])), float(ways.plain.hazards.spot_share[row])
    rest = {"failures": lost * (1.0 - share), "interruptions": lost * share, "spread": total - whole - lost}
    return parts | {name: hours for name, hours in rest.items() if hours > ROUNDING * total}


def cost_parts(job: Job, ways: Ways, row: int, total: float) -> dict[str, float]:
    """Median dollars by part: machines, storage, disks, egress, fees, failed attempts, tax."""
    offer = int(ways.offer[row])
    cloud = ways.table.names["cloud"][ways.table.codes["cloud"][offer]]
    extras = ways.extras[cloud, bool(ways.near[offer])].usd(
        float(ways.plain.typical_hours[row]), float(ways.nodes[row])
    )
    untaxed = total / (1.0 + job.workload.bill.tax_percent / 100.0)
    machines = max(untaxed - sum(extras.values()), 0.0)
    good = machines / job.workload.run.attempts
    parts = {"machines": good, **extras, "other_attempts": machines - good, "tax": total - untaxed}
    return {name: usd for name, usd in parts.items() if name == "machines" or usd != 0.0}


def converted(
    job: Job, cost: Interval | None, usd_per_hour: float | None, parts: dict[str, float]
) -> ConvertedDocument | None:
    """The dollars in the currency asked for; None where none is."""
    asked = job.workload.bill.currency
    if asked is None:
        return None
    rate = asked.per_usd
    return ConvertedDocument(
        currency=asked.code,
        per_usd=rate,
        cost=None if cost is None else Interval(**{q: usd * rate for q, usd in cost.model_dump().items()}),
        per_hour=None if usd_per_hour is None else usd_per_hour * rate,
        parts={name: usd * rate for name, usd in parts.items()},
    )


def price_path_of(ways: Ways, row: int, offer: Offer) -> PricePathDocument | None:
    """How the spot price of a way is expected to move over the run, where its past is known."""
    if offer.price_usd_per_hour is None:
        return None
    found = observed(ways.plain.price, row, offer.price_usd_per_hour)
    if found is None:
        return None
    return PricePathDocument(
        observations=int(ways.plain.price.observations[row]),
        days=float(ways.plain.price.days[row]),
        mean=found["mean"],
        p10=found["low"],
        p50=found["middle"],
        p90=found["high"],
    )


def price_spread_of(ways: Ways, row: int, offer: Offer) -> PriceSpreadDocument | None:
    """How far the spot price of a way may be from the one that was seen, where nobody watched it."""
    price, at = ways.plain.price, int(ways.offer[row])
    if offer.price_usd_per_hour is None or ways.spread is None or not price.unseen[row]:
        return None
    return PriceSpreadDocument(
        p10=float(price.below[row]) * offer.price_usd_per_hour,
        p90=float(price.above[row]) * offer.price_usd_per_hour,
        places=int(ways.spread.places[ways.table.type_index[at]]),
        age_days=float(ways.spread.age_days(ways.table, np.array([at]))[0]),
    )


def risk_of(ways: Ways, row: int, offer: Offer, *, priced: bool) -> RiskDocument:
    """What chance does to one way."""
    outcome, hazards = ways.outcome, ways.plain.hazards
    interval = float(outcome.interval[row])
    whole = interval >= float(ways.plain.training[row] + outcome.evaluation[row]) * (1 - 1e-9)
    reclaimed: dict[str, str] = {}
    if offer.market is Market.SPOT and offer.region is not None:
        fact = interruption(offer.cloud, offer.region, offer.instance_type, fetched=ways.table.reclaims)
        if fact is not None:
            reclaimed[fact.period] = fact.label
    return RiskDocument(
        hazard_per_hour=Spread(
            low=float(hazards.low[row]), typical=float(hazards.typical[row]), high=float(hazards.high[row])
        ),
        expected_interruptions=float(outcome.interruptions[row]),
        expected_lost_hours=float(outcome.lost[row]),
        checkpoint_interval_hours=None if whole else interval,
        expected_hours=float(outcome.hours_mean[row]),
        expected_cost_usd=float(outcome.cost_mean[row]) if priced else None,
        probability_deadline=_known(outcome.meets_deadline[row]),
        probability_budget=_known(outcome.meets_budget[row]) if priced else None,
        reclaimed_per_month=reclaimed.get("month"),
        evicted_per_hour=reclaimed.get("hour"),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(outcome: Outcome, what: str, row: int) -> Interval:
    return Interval(**{q: float(getattr(outcome, f"{what}_{q}")[row]) for q in ("p10", "p50", "p90")})


def layout_document(layout: Layout, row: int) -> LayoutDocument:
    """How the job is divided."""
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
        virtual_stages=int(_at(layout.virtual_stages, row)),
        sharding=sharding.value,
        activation_checkpointing=_RECOMPUTES[Recompute(int(_at(layout.recompute, row)))].value,
    )


def memory_document(memory: MemoryAccount, capacity: float, verdict: int, row: int) -> MemoryDocument:
    """What one GPU holds, by component, against the GiB that software can allocate."""
    used, sigma = _known(np.atleast_1d(memory.used)[row]), _at(memory.sigma, row)
    return MemoryDocument(
        used=used,
        low=None if used is None else max(used - Z80 * sigma, 0.0),
        high=None if used is None else used + Z80 * sigma,
        capacity=capacity,
        verdict=Verdict(VERDICTS[verdict]),
        margin=None if used is None else capacity - used,
        probability=None if used is None or not sigma > 0 else 0.5 * (1.0 + erf((capacity - used) / sigma / sqrt(2.0))),
        parts={} if used is None else {name: _at(getattr(memory, name), row) for name in COMPONENTS},
        phases={} if used is None else memory.phases(row),
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


def cautions(job: Job, ways: Ways, row: int, offer: Offer, price: PriceDocument) -> list[str]:
    """What a careful colleague would add to this plan."""
    found, at = ways.best, int(ways.found[row])
    notes = []
    if found.verdict[at] == TIGHT:
        notes.append(_tight_words(found, at))
    if found.verdict[at] == UNKNOWN:
        notes.append("memory is not known for this model: whether it fits cannot be said")
    if job.workload.method in (Method.LORA, Method.QLORA) and _at(found.layout.tensor * found.layout.pipeline, at) > 1:
        notes.append(
            "adapters over tensor or pipeline parallelism: NeMo and Megatron Bridge do that; "
            "PEFT, torchtune and Unsloth only replicate or shard (sharding: zero3)"
        )
    elif job.workload.method is Method.FULL and _at(found.layout.tensor * found.layout.pipeline, at) > 1:
        notes.append(
            "tensor or pipeline parallelism: Megatron, NeMo, torchtitan and DeepSpeed do that; a script on FSDP or the "
            "Hugging Face Trainer only replicates or shards (tensor_parallel: 1, pipeline_parallel: 1)"
        )
    if str(np.asarray(found.hardware.gpu)[at]).startswith(ARM_HOSTS):
        notes.append("the host's processor is Arm: images and wheels must be built for aarch64")
    if ways.nodes[row] > 1 and _at(found.hardware.nic_kind, at) == NicKind.ETHERNET:
        notes.append("no RDMA between these nodes: multi-node scaling depends on the network actually given")
    if ways.nodes[row] > 1 and offer.market is Market.OWN:
        assumed = f"{_at(found.hardware.nic_gbps, at) * 8.0 * _at(found.hardware.gpus_per_node, at):.0f} Gbit/s a node"
        if _unstated_network(job, offer):
            notes.append(f"own.network_gbps is not stated: {assumed} assumed, as clouds give this GPU")
        elif offer.state is PriceState.UNPRICED:
            notes.append(
                f"no cloud rents this machine: {assumed} assumed, as clusters of this GPU usually have "
                "(own: states what yours has)"
            )
    if offer.market is Market.SPOT:
        hazard = ways.plain.hazards
        machines = 1.0 if job.workload.spot.elastic else float(ways.nodes[row])  # in a gang each one stops the job
        notes.append(
            f"spot: sources disagree on interruptions, from {hazard.low[row]:.2g} an hour of the whole job to "
            f"{hazard.high[row] / machines:.2g} an hour of each machine; "
            "the search for capacity at the start is not counted"
        )
        notes.append(_price_words(ways, row))
        if lone := _lone_price(ways, row):
            notes.append(lone)
        if job.workload.spot.policy is SpotPolicy.FALLBACK and not np.isfinite(ways.plain.fallback_usd_per_hour[row]):
            notes.append("spot.policy fallback: none of the offers looked at is on demand, so the job waits instead")
    if price.age_hours is not None and price.age_hours > OLD_PRICE_DAYS * 24:
        notes.append(f"the price was observed {price.age_hours / 24:.0f} days ago")
    if price.state is PriceState.STALE:
        notes.append("the price is stale" + (f": {offer.note}" if offer.note else ""))
    notes += _commitment_words(ways, row, offer, price)
    if unknown := ways.extras[offer.cloud, bool(ways.near[ways.offer[row]])].unknown:
        notes.append(f"not in the total, price unknown: {', '.join(unknown)}")
    if dearer := _dearer_than_on_demand(ways, row, offer):
        notes.append(dearer)
    limits = job.workload.constraints
    if limits.deadline is None and ways.hours[row] > LONG_DAYS * 24.0:
        notes.append(f"it takes longer than {LONG_DAYS} days: a deadline would ask for more machines at once")
    chance = ways.outcome.meets_deadline[row]
    if limits.deadline is not None and chance < 0.9:
        notes.append(f"meets the deadline with a probability of {chance:.0%}")
    kept = ways.outcome.meets_budget[row]
    if limits.budget is not None and price.usd_per_hour is not None and kept < 0.9:
        notes.append(f"stays within the budget with a probability of {kept:.0%}")
    return notes


def _tight_words(found: Found, at: int) -> str:
    """Whether a job whose memory is tight is expected to fit or not."""
    over = _at(found.memory.used, at) - _at(found.hardware.capacity_gib, at)
    if over <= 0:
        return "memory is tight: it may not fit; a smaller micro-batch or more recomputation gives room"
    return "memory is tight: more is needed than a GPU has, so it is expected to run out unless the account errs high"


def _price_words(ways: Ways, row: int) -> str:
    """How the spot price is taken to move over the run."""
    price = ways.plain.price
    if not price.observations[row]:
        if price.unseen[row]:
            return "spot price: no history of it is kept; how places differ and its age widen the dollars"
        return "spot price: no history of it is kept, so the present one is taken to hold for the whole run"
    return (
        f"spot price over the run: {price.low[row]:.2f} to {price.high[row]:.2f} times the present one, by "
        f"{price.observations[row]} levels seen in {price.days[row]:.0f} days in its zone"
    )


def _lone_price(ways: Ways, row: int) -> str | None:
    """Says so where one place asks far less than all others for the same spot machine: the cheapest of many prices."""
    table, at = ways.table, int(ways.offer[row])
    same = (table.type_index == table.type_index[at]) & (table.codes["market"] == table.codes["market"][at])
    same[at] = False
    elsewhere, here = table.usd_per_hour[same], float(table.usd_per_hour[at])
    if len(elsewhere) < 2 or here > LONE_PRICE * float(np.median(elsewhere)):
        return None
    return (
        f"spot price: ${here:,.2f} an hour in this place only; {len(elsewhere)} others ask "
        f"${elsewhere.min():,.2f} to ${elsewhere.max():,.2f} for the same machine"
    )


def _commitment_words(ways: Ways, row: int, offer: Offer, price: PriceDocument) -> list[str]:
    """What is owed beyond the run itself: the rest of a prepaid block or of a commitment."""
    notes = []
    hours, term = float(ways.outcome.hours_p50[row]), offer.term_hours
    if price.upfront_usd is not None and term is not None:
        blocks = int(np.ceil(hours / term))
        several = "" if blocks == 1 else f"; the run needs {blocks} of them one after the other"
        notes.append(
            f"prepaid: ${price.upfront_usd:,.2f} for {term:g} hours are paid before it starts, of which the run uses "
            f"{hours / (blocks * term):.0%}{several}"
        )
    elif offer.market is Market.BLOCK:
        notes.append("a prepaid block of unknown length: only the hours of the run are in the total")
    if offer.market is Market.RESERVED and price.usd_per_hour is not None:
        owed = "" if term is None else f": ${price.usd_per_hour * term:,.0f} are owed over {term:,.0f} hours"
        notes.append(f"a commitment{owed}; the total counts the hours of this run at its rate")
    elif price.list_usd_per_hour and price.usd_per_hour is not None and offer.market is not Market.BLOCK:
        off = 1.0 - price.usd_per_hour / price.list_usd_per_hour
        notes.append(f"negotiated: {off:.1%} off the list price of ${price.list_usd_per_hour:,.2f} an hour")
    if price.break_even_hours is not None:
        listed = "" if price.list_usd_per_hour is None else f" (${price.list_usd_per_hour:,.2f} an hour)"
        within = "" if term is None else f" of {term:,.0f}"
        notes.append(f"cheaper than on demand{listed} beyond {price.break_even_hours:,.0f} hours of use{within}")
    return notes


def _dearer_than_on_demand(ways: Ways, row: int, offer: Offer) -> str | None:
    """Says so where a spot way costs more in expectation than the same machines on demand."""
    if offer.market is not Market.SPOT:
        return None
    table = ways.table
    on_demand = table.where("market", lambda market: market == Market.ON_DEMAND)[ways.offer]
    same = on_demand & (table.type_index[ways.offer] == table.type_index[ways.offer[row]])
    same &= ways.nodes == ways.nodes[row]
    if not same.any():
        return None
    spot, sure = float(ways.outcome.cost_mean[row]), float(ways.outcome.cost_mean[same].min())
    if spot < sure:
        return None
    return f"spot is dearer in expectation than the same machines on demand: ${spot:,.2f} against ${sure:,.2f}"


def _unstated_network(job: Job, offer: Offer) -> bool:
    return any(own.name == offer.instance_type and own.network_gbps is None for own in job.workload.own)


def _at(value: Any, row: int) -> float:
    array = np.asarray(value)
    return float(array[row] if array.ndim else array)
