"""How did a number come about? The derivation of one estimate, in lines that a person can check with a calculator."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from estimator.documents import EstimateEntry
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
    """The derivation of `entry` with its numbers: data to steps, work to step time, memory, hours, dollars."""
    lines = [*_data(job), *_work(job), *_step(job, entry), *_memory(entry), *_hours(entry, cloud), *_cost(entry)]
    if entry.evidence.summary:
        lines.append(f"evidence ({entry.evidence.kind}): {entry.evidence.summary}")
    return lines


def _data(job: Job) -> list[str]:
    training = job.training
    sample = f"sequence of {training.seq_len} tokens" if training.unit == "tokens" else "sample"
    lines = [
        f"steps = {training.samples:,.0f} x one {sample} / global batch {training.global_batch} "
        f"= {job.steps:,} optimizer steps"
    ]
    if training.padding_share > 0.005:
        lines.append(f"{training.padding_share:.0%} of the positions are padding: work without tokens")
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


def _step(job: Job, entry: EstimateEntry) -> list[str]:
    layout = entry.layout
    lines = [
        f"layout on {entry.gpus:g} x {entry.gpu}: micro-batch {layout.micro_batch:g} x {layout.grad_accum} "
        f"accumulations x {layout.data} data-parallel = {job.training.global_batch}; "
        f"tensor {layout.tensor}, pipeline {layout.pipeline}, "
        f"context {layout.context}, expert {layout.expert}, sharding {layout.sharding}, "
        f"recomputation {layout.activation_checkpointing}"
    ]
    for term, milliseconds in entry.breakdown_ms.items():
        if milliseconds > 0:
            share = milliseconds / entry.step_ms
            lines.append(f"  {term}: {milliseconds:,.1f} ms ({share:.0%}) {PHYSICS[term]}")
    lines.append(f"one step = {entry.step_ms:,.1f} ms, bound by {entry.bound_by}")
    if entry.evidence.correction != 1.0:
        lines.append(
            f"of which measurements near it changed the throughput by a factor {entry.evidence.correction:.3f}"
        )
    if entry.mfu is not None and entry.hfu is not None:
        lines.append(f"MFU {entry.mfu:.1%} (model FLOPs), HFU {entry.hfu:.1%} (with recomputation) of the dense peak")
    return lines


def _memory(entry: EstimateEntry) -> list[str]:
    memory = entry.memory_gib
    parts = " + ".join(f"{name} {gib:.2f}" for name, gib in memory.parts.items() if gib >= 0.005)
    capacity = "unknown" if memory.capacity is None else f"{memory.capacity:.1f}"
    return [f"memory per GPU = {parts} = {memory.used:.1f} GiB of {capacity} usable: fits {memory.verdict}"]


def _hours(entry: EstimateEntry, cloud: str | None) -> list[str]:
    training = entry.hours_parts["training"]
    lines = [f"training = {entry.steps:,} steps x {entry.step_ms / 1e3:.4g} s = {training:.3f} h"]
    if cloud is not None:
        parts = ", ".join(f"{name} {part.typical:.0f} s" for name, part in start_up_parts(cloud).items())
        lines.append(f"start-up = {parts} = {entry.hours_parts['start_up']:.3f} h")
    lines.append(
        f"hours = {entry.hours.p50:.3f}; one run in ten below {entry.hours.p10:.3f}, "
        f"one in ten above {entry.hours.p90:.3f}"
    )
    return lines


def _cost(entry: EstimateEntry) -> list[str]:
    price = entry.price
    if entry.cost_usd is None or price.usd_per_hour_instance is None:
        return ["no price is known for this hardware"]
    age = "" if price.age_hours is None else f", {price.age_hours / 24:.0f} days old"
    return [
        f"dollars = {entry.hours.p50:.3f} h x {entry.nodes} x ${price.usd_per_hour_instance:.4f}/h = "
        f"${entry.cost_usd.p50:,.2f} (price: {price.source}, {price.state}{age})"
    ]


def _number(value: object) -> float:
    return float(np.asarray(value, float))
