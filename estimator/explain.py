"""How did a number come about? The derivation of one estimate, in lines that a person can check with a calculator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from estimator.documents import EstimateEntry, MeasurementUsed
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
        *_step(entry),
        *_memory(entry),
        *_hours(entry, cloud),
        *_cost(entry),
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
    return [
        f"layout: {entry.gpus:g} x {entry.gpu} = data {layout.data} x tensor {layout.tensor} x pipeline "
        f"{layout.pipeline} x context {layout.context}; expert {layout.expert}, sharding {layout.sharding}, "
        f"activation checkpointing {layout.activation_checkpointing}",
        f"  global batch {job.training.global_batch} = micro-batch {layout.micro_batch:g} x accumulation "
        f"{layout.grad_accum} x data {layout.data}",
    ]


def _step(entry: EstimateEntry) -> list[str]:
    lines = [f"step = {entry.step_ms:,.1f} ms, bound by {entry.bound_by}"]
    for term, milliseconds in entry.breakdown_ms.items():
        if milliseconds > 0:
            share = milliseconds / entry.step_ms
            lines.append(f"  {term:<16}{milliseconds:>12,.1f} ms {share:>4.0%}  {PHYSICS.get(term, '')}".rstrip())
    if entry.evidence.correction != 1.0:
        lines.append(f"  measurements near it changed the throughput by a factor {entry.evidence.correction:.3f}")
    rate = f"throughput = {entry.throughput.value:,.4g} {entry.throughput.unit} of the whole job"
    if entry.mfu is not None and entry.hfu is not None:
        rate += f"; MFU {entry.mfu:.1%} (model FLOPs), HFU {entry.hfu:.1%} (with recomputation) of the dense peak"
    return [*lines, rate]


def _memory(entry: EstimateEntry) -> list[str]:
    memory = entry.memory_gib
    capacity = "unknown" if memory.capacity is None else f"{memory.capacity:.1f}"
    return [
        f"memory = {memory.used:.1f} GiB a GPU of {capacity} usable: fits {memory.verdict}",
        *(f"  {name:<16}{gib:>12.2f} GiB" for name, gib in memory.parts.items() if gib >= 0.005),
    ]


def _hours(entry: EstimateEntry, cloud: str | None) -> list[str]:
    parts: Mapping[str, float] = entry.hours_parts
    lines = [
        f"hours = {entry.hours.p50:.3f} (one run in ten below {entry.hours.p10:.3f}, one in ten above "
        f"{entry.hours.p90:.3f}); {entry.gpu_hours:,.4g} GPU-hours"
    ]
    for name, part in parts.items():
        how = ""
        if name == "training":
            how = f"{entry.steps:,} steps x {entry.step_ms / 1e3:.4g} s"
        elif name == "start_up" and cloud is not None:
            how = ", ".join(f"{what} {figure.typical:.0f} s" for what, figure in start_up_parts(cloud).items())
        if part:
            lines.append(f"  {name.replace('_', ' '):<16}{part:>12.3f} h   {how}".rstrip())
    return lines


def _cost(entry: EstimateEntry) -> list[str]:
    price = entry.price
    if entry.cost_usd is None or price.usd_per_hour_instance is None:
        return ["dollars: no price is known for this hardware"]
    age = "" if price.age_hours is None else f", {price.age_hours / 24:.0f} days old"
    return [
        f"dollars = {entry.hours.p50:.3f} h x {entry.nodes} x ${price.usd_per_hour_instance:.4f}/h = "
        f"${entry.cost_usd.p50:,.2f} (80% between {entry.cost_usd.p10:,.2f} and {entry.cost_usd.p90:,.2f})",
        f"  price: {price.source}, {price.state}{age}",
    ]


def _evidence(entry: EstimateEntry) -> list[str]:
    evidence = entry.evidence
    lines = [f"evidence: {evidence.kind}" + (f"; {evidence.summary}" if evidence.summary else "")]
    return [*lines, *(f"  {_measured(row)}" for row in evidence.measurements)]


def _measured(row: MeasurementUsed) -> str:
    cards = f"{row.gpus:g} x {row.gpu}" if row.gpus else row.gpu
    rate = f"{row.throughput:,.4g} {row.unit or ''}".strip() if row.throughput else ""
    said = [row.model, cards, row.precision, rate, row.date, row.source]
    return f"{', '.join(part for part in said if part)} (distance {row.distance:.2g})"


def _number(value: object) -> float:
    return float(np.asarray(value, float))
