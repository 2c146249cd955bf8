"""How did a number come about? The derivation of one estimate, in lines that a person can check with a calculator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from estimator.documents import ClosestDocument, EstimateEntry, MeasurementUsed, MemoryDocument, Spread
from estimator.job import Job
from estimator.runtime import start_up_parts

PHYSICS = {
    "compute": "matrix work, attention and convolutions at the rate this card sustains",
    "memory": "elementwise traffic, weights and optimizer states at its memory bandwidth",
    "launch": "host time that the device's work does not hide",
    "communication": "traffic between GPUs that compute waits for",
    "pipeline": "idle pipeline stages",
    "input": "reading and decoding samples beyond what the rest hides",
}


Entry = TypeVar("Entry", bound=EstimateEntry)


def explained(job: Job, entry: Entry, cloud: str | None) -> Entry:
    """`entry` with its derivation, when the request asks for it."""
    if not job.workload.options.explain:
        return entry
    return entry.model_copy(update={"explanation": derivation(job, entry, cloud)})


def derivation(job: Job, entry: EstimateEntry, cloud: str | None) -> list[str]:
    """The derivation of `entry` with its numbers: steps, work, layout, step time, memory, hours, dollars, evidence."""
    return [
        *_data(job),
        *_work(job),
        *_layout(job, entry),
        *_step(job, entry),
        *_memory(entry),
        *_hours(job, entry, cloud),
        *_cost(job, entry),
        *_risk(entry),
        *_energy(entry),
        *_evidence(entry),
    ]


def _data(job: Job) -> list[str]:
    training = job.training
    sample = f"sequence of {training.seq_len} tokens" if training.unit == "tokens" else "sample"
    lines = [
        f"steps = {training.samples:,.0f} x one {sample} / global batch {training.global_batch} "
        f"= {job.steps:,} optimizer steps"
    ]
    if training.padding_share > 0.005:
        lines.append(f"  {training.padding_share:.0%} of the positions are padding: work without tokens")
    return lines


def _work(job: Job) -> list[str]:
    work = job.work
    parts = {
        "dense layers": work.matmul_flops,
        "routed experts": work.expert_flops,
        "attention": work.attention_flops,
        "grouped convolutions": work.grouped_flops,
    }
    shown = " + ".join(f"{_number(v) / 1e12:.4g} ({name})" for name, v in parts.items() if _number(v) > 0)
    forward = sum(_number(v) for v in parts.values())
    return [
        f"forward pass of one sample = {shown} = {forward / 1e12:.4g} TFLOP; "
        f"backward = {_number(work.backward_ratio):.3g} x forward",
        f"parameters: {_number(work.params) / 1e6:,.1f} M, "
        f"of which trained {_number(work.trainable_params) / 1e6:,.1f} M",
    ]


def _layout(job: Job, entry: EstimateEntry) -> list[str]:
    layout = entry.layout
    chunks = f" (interleaved, {layout.virtual_stages} chunks a GPU)" if layout.virtual_stages > 1 else ""
    return [
        f"layout: {entry.gpus:g} x {entry.gpu} = data {layout.data} x tensor {layout.tensor} x pipeline "
        f"{layout.pipeline}{chunks} x context {layout.context}; expert {layout.expert}, sharding {layout.sharding}, "
        f"activation checkpointing {layout.activation_checkpointing}",
        f"  global batch {job.training.global_batch} = micro-batch {layout.micro_batch:g} x accumulation "
        f"{layout.grad_accum} x data {layout.data}",
        f"  launch: torchrun --nnodes {entry.nodes} --nproc-per-node {max(1, round(entry.gpus / entry.nodes))} "
        "with your training script and this layout",
    ]


def _step(job: Job, entry: EstimateEntry) -> list[str]:
    lines = [f"step = {entry.step_ms:,.1f} ms, bound by {entry.bound_by}"]
    for term, milliseconds in entry.breakdown_ms.items():
        if milliseconds > 0:
            share = milliseconds / entry.step_ms
            lines.append(f"  {term:<16}{milliseconds:>12,.1f} ms {share:>4.0%}  {PHYSICS.get(term, '')}".rstrip())
    if entry.evidence.correction != 1.0:
        lines.append(f"  measurements near it changed the throughput by a factor {entry.evidence.correction:.3f}")
    rate = f"throughput = {_plainly(entry.throughput.value)} {entry.throughput.unit} of the whole job"
    padding = job.training.padding_share
    if 0.005 < padding < 1.0 and entry.throughput.unit == "tokens/s":
        rate += (
            f" without padding ({_plainly(entry.throughput.value / (1.0 - padding))} with it, as many trainers count)"
        )
    if entry.mfu is not None and entry.hfu is not None:
        rate += f"; MFU {entry.mfu:.1%} (model FLOPs), HFU {entry.hfu:.1%} (with recomputation) of the dense peak"
    return [*lines, rate]


def _memory(entry: EstimateEntry) -> list[str]:
    return memory_lines(entry.memory_gib)


def closest_lines(closest: ClosestDocument) -> list[str]:
    """Where a job that fits nowhere lacks least memory, and what would lie in a GPU there."""
    machines = f"{closest.gpus:g} x {closest.gpu}" + (f" on {closest.nodes} nodes" if closest.nodes > 1 else "")
    layout = closest.layout
    cut = [f"{name} {n}" for name, n in (("tensor", layout.tensor), ("pipeline", layout.pipeline)) if n > 1]
    sharding = [] if layout.sharding == "none" and cut else [f"sharding {layout.sharding}"]
    how = ", ".join([*cut, *sharding, f"activation checkpointing {layout.activation_checkpointing}"])
    return [f"closest to fitting: {machines} ({how})", *memory_lines(closest.memory_gib)]


def memory_lines(memory: MemoryDocument) -> list[str]:
    """What a GPU holds against what it can: verdict, margin and probability, parts, and the peak of each phase."""
    capacity = "unknown" if memory.capacity is None else f"{memory.capacity:.1f}"
    if memory.used is None or math.isnan(memory.used):
        return [f"memory: how much it takes is unknown, {capacity} GiB a GPU are usable"]
    range_ = "" if memory.low is None or memory.high is None else f" ({memory.low:.1f} to {memory.high:.1f})"
    found = f"memory = {memory.used:.1f}{range_} GiB a GPU of {capacity} usable: fits {memory.verdict}"
    if memory.margin is not None:
        left = f"{memory.margin:.1f} GiB to spare" if memory.margin >= 0 else f"{-memory.margin:.1f} GiB too much"
        found += f", {left}"
    if memory.probability is not None:
        found += f", fits with a probability of {min(max(memory.probability, 0.01), 0.99):.0%}"
        found += " or more" * (memory.probability > 0.99) + " or less" * (memory.probability < 0.01)
    peaks = ", ".join(f"{phase} {gib:.1f}" for phase, gib in memory.phases.items())
    return [
        found,
        *(f"  {name:<16}{gib:>12.2f} GiB" for name, gib in memory.parts.items() if gib >= 0.005),
        *([f"  peak of each phase, GiB: {peaks}"] if peaks else []),
    ]


def _hours(job: Job, entry: EstimateEntry, cloud: str | None) -> list[str]:
    parts: Mapping[str, float] = entry.hours_parts
    starting = start_up_parts(cloud or "", job.workload.run, compiled=bool(job.workload.compiled))
    lines = [
        f"hours = {entry.hours.p50:.3f} (one run in ten below {entry.hours.p10:.3f}, one in ten above "
        f"{entry.hours.p90:.3f}); {_plainly(entry.gpu_hours)} GPU-hours"
    ]
    for name, part in parts.items():
        how = ""
        if name == "training":
            run = job.workload.run
            how = f"{entry.steps:,} steps x {entry.step_ms / 1e3:.4g} s"
            how += f" x {run.trials} trials" if run.trials > 1 else ""
            how += f" x {run.finish_early:g} of the epochs" if run.finish_early < 1 else ""
        elif name in starting:
            how = starting[name].source
        elif name == "spread":
            how = "the median of the whole above the sum of typical parts"
        if part >= 0.0005 or name == "training":
            lines.append(f"  {name.replace('_', ' '):<16}{part:>12.3f} h   {how}".rstrip())
    return lines


def _cost(job: Job, entry: EstimateEntry) -> list[str]:
    price, cost = entry.price, entry.cost_usd
    if cost is None or price.usd_per_hour_instance is None:
        return ["dollars: no price is known for this hardware"]
    age = "" if price.age_hours is None else f", {price.age_hours / 24:.0f} days old"
    terms = []
    if price.list_usd_per_hour is not None and price.usd_per_hour is not None and price.list_usd_per_hour > 0:
        off = 1.0 - price.usd_per_hour / price.list_usd_per_hour
        terms.append(f"  list price: ${price.list_usd_per_hour:,.4f}/h of the whole job; {off:.1%} off")
    if price.break_even_hours is not None:
        within = "" if price.term_hours is None else f" of {price.term_hours:,.0f}"
        terms.append(f"  break-even against on demand: {price.break_even_hours:,.0f} hours of use{within}")
    if price.upfront_usd is not None:
        terms.append(f"  prepaid: ${price.upfront_usd:,.2f} for {price.term_hours or 0:,.0f} hours")
    if price.path is not None:
        path = price.path
        terms.append(
            f"  an hour over the run, by {path.observations} levels of {path.days:.0f} days: mean ${path.mean:.4f}, "
            f"p50 ${path.p50:.4f}, p90 ${path.p90:.4f} an instance"
        )
    if price.spread is not None:
        spread = price.spread
        terms.append(
            f"  an hour may cost ${spread.p10:.4f} to ${spread.p90:.4f} an instance by now (80%), by how the "
            f"{spread.places} places that rent it differ and the {spread.age_days:.0f} days since it was seen"
        )
    machines = entry.cost_parts.get("machines", 0.0)
    if entry.hours_parts.get("interruptions", 0.0) > 0 and price.path is None and price.usd_per_hour:
        billed = machines / price.usd_per_hour
        if billed < 0.999 * entry.hours.p50:
            terms.append(f"  billed: {billed:.3f} h; waiting for spot machines costs nothing")
    if entry.converted is not None and entry.converted.cost is not None:
        money = entry.converted
        said = f"at {money.per_usd:g} for a dollar, as the request says"
        terms.append(f"  in {money.currency} {said}: {entry.converted.cost.p50:,.2f}")
    if not job.workload.bill.data_in:
        terms.append("  egress: none counted, as bill.data_in does not say where the data lies")
    return [
        f"dollars = {cost.p50:,.2f} (80% between {cost.p10:,.2f} and {cost.p90:,.2f}); machines at "
        f"{entry.nodes} x ${price.usd_per_hour_instance:.4f}/h",
        *(
            f"  {name.replace('_', ' '):<20}{part:>12,.2f} USD"
            for name, part in entry.cost_parts.items()
            if part >= 0.005
        ),
        f"  price: {price.source}, {price.state}{age}",
        *terms,
    ]


def _risk(entry: EstimateEntry) -> list[str]:
    risk = entry.risk
    hazard = risk.hazard_per_hour
    lines = []
    if risk.expected_interruptions > 0:
        lines.append(f"interruptions = {risk.expected_interruptions:.3g} on average over the run (mean)")
        lines.append(
            f"  rate of the whole job: {hazard.low:.3g} to {hazard.high:.3g} an hour by what the sources say, "
            f"{hazard.typical:.3g} typically"
        )
        if risk.checkpoint_interval_hours is not None:
            lines.append(f"  a checkpoint every {risk.checkpoint_interval_hours * 60:.3g} min")
        if risk.reclaimed_per_month:
            lines.append(f"  the cloud says: {risk.reclaimed_per_month} of machines reclaimed in a month")
        if risk.evicted_per_hour:
            lines.append(f"  the cloud says: {risk.evicted_per_hour} chance of an eviction within an hour")
    spent = "" if risk.expected_cost_usd is None else f" and ${risk.expected_cost_usd:,.2f}"
    lines.append(f"expected (mean) = {risk.expected_hours:.3f} h{spent}")
    for what, chance in (("deadline", risk.probability_deadline), ("budget", risk.probability_budget)):
        if chance is not None:
            lines.append(f"  probability to keep the {what}: {chance:.0%}")
    return lines


def _energy(entry: EstimateEntry) -> list[str]:
    energy = entry.energy
    if energy is None:
        return []
    lines = [f"energy = {_spread(energy.kwh)} kWh"]
    if energy.kg_co2e is not None:
        lines.append(f"emissions = {_spread(energy.kg_co2e)} kg CO2e")
    return [*lines, *(f"  {source}" for source in energy.sources)]


def _spread(spread: Spread) -> str:
    return f"{_plainly(spread.typical)} ({_plainly(spread.low)} to {_plainly(spread.high)})"


def _evidence(entry: EstimateEntry) -> list[str]:
    evidence = entry.evidence
    lines = [f"evidence: {evidence.kind}" + (f"; {evidence.summary}" if evidence.summary else "")]
    return [*lines, *(f"  {_measured(row)}" for row in evidence.measurements)]


def _measured(row: MeasurementUsed) -> str:
    cards = f"{row.gpus:g} x {row.gpu}" if row.gpus else row.gpu
    each = " a GPU" if row.scope == "per_gpu" and row.gpus != 1 else ""
    rate = f"{_plainly(row.throughput)} {row.unit or ''}".strip() + each if row.throughput else ""
    said = [row.model, cards, row.precision, rate, row.date, row.source]
    return f"{', '.join(part for part in said if part)} (distance {row.distance:.2g})"


def _plainly(value: float) -> str:
    """Four figures without an exponent.

    >>> _plainly(199734.2), _plainly(0.52341)
    ('199,734', '0.5234')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _number(value: object) -> float:
    return float(np.asarray(value, float))
