"""How long does the whole run take on the clock, part by part, before chance comes in?

Every part has a sourced default with a low and a high (`data/run_defaults.csv`) and can be turned off in the request.
Low and high are the range of the sources; they widen the interval of a plan and are never averaged away.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.objectives import objectives
from estimator.job import Job
from estimator.memory.recipe import recipe
from estimator.request.run import Run

Floats = NDArray[np.float64]

SECONDS_PER_HOUR = 3600.0
BYTES_PER_TOKEN = 4.0  # pre-tokenised data as 32-bit ids


@dataclass(frozen=True, slots=True)
class Range:
    """A sourced figure with the range of its sources."""

    low: float
    typical: float
    high: float
    source: str = ""

    def scaled(self, factor: float) -> Range:
        """The same in another unit."""
        return Range(self.low * factor, self.typical * factor, self.high * factor, self.source)

    @classmethod
    def stated(cls, value: float) -> Range:
        """What the user said: no doubt is added to it."""
        return cls(value, value, value, "the request")


NONE = Range(0.0, 0.0, 0.0)


@cache
def defaults() -> dict[tuple[str, str], Range]:
    """The sourced defaults by (part, cloud); cloud "" is any."""
    with (files("estimator") / "data" / "run_defaults.csv").open(encoding="utf-8") as lines:
        return {
            (row["part"], row["cloud"]): Range(
                float(row["low"]), float(row["typical"]), float(row["high"]), row["source"]
            )
            for row in csv.DictReader(lines)
        }


def default(part: str, cloud: str = "") -> Range:
    """One sourced default."""
    return defaults()[part, cloud]


def start_up_parts(cloud: str, run: Run, *, compiled: bool = False) -> dict[str, Range]:
    """Hours between asking a cloud for machines and the first step, by part; an own machine only warms up.

    The search for capacity is not in it: no source measures it. Hours that the request states for the whole stand as
    `start_up`.

    >>> from estimator.request.run import Run
    >>> {name: round(part.typical * 3600) for name, part in start_up_parts("aws", Run()).items()}
    {'provisioning': 140, 'image_pull': 360, 'warm_up': 108}
    """
    if not run.start_up:
        return {}
    if run.start_up_hours is not None:
        return {"start_up": Range.stated(run.start_up_hours)}
    rented = cloud != "own"
    known = cloud if ("vm_ready", cloud) in defaults() else ""
    warm_up = default("process_start")
    if compiled:
        more = default("compile")
        warm_up = Range(
            warm_up.low + more.low, warm_up.typical + more.typical, warm_up.high + more.high, warm_up.source
        )
    usual = {
        "provisioning": default("vm_ready", known) if rented else NONE,
        "image_pull": default("image_pull") if rented else NONE,
        "warm_up": warm_up,
    }
    parts = {}
    for name, seconds in usual.items():
        stated = getattr(run, f"{name}_hours")
        parts[name] = seconds.scaled(1.0 / SECONDS_PER_HOUR) if stated is None else Range.stated(stated)
    return {name: part for name, part in parts.items() if part.high > 0}


def start_up(cloud: str, run: Run, *, compiled: bool = False) -> Range:
    """Hours from asking for machines to the first step.

    >>> from estimator.request.run import Run
    >>> start_up("own", Run()).typical
    0.03
    """
    parts = start_up_parts(cloud, run, compiled=compiled).values()
    return Range(sum(p.low for p in parts), sum(p.typical for p in parts), sum(p.high for p in parts))


def data_gb(job: Job) -> float | None:
    """Size of the data set, GB: stated, or from tokens (4 bytes each) or the stored bytes of a sample; else unknown."""
    run = job.workload.run
    if run.data_gb is not None:
        return run.data_gb
    training = job.training
    if training.samples_per_epoch is None:
        return None
    if training.unit == "tokens" and training.tokens_per_sample:
        return training.samples_per_epoch * training.tokens_per_sample * BYTES_PER_TOKEN / 1e9
    stored = float(np.asarray(job.work.input_bytes, float))
    return training.samples_per_epoch * stored / 1e9 if stored > 0 else None


def staging(job: Job) -> Range:
    """Hours to bring the data to the machines, each node its own copy; none where the size is unknown."""
    run, size = job.workload.run, data_gb(job)
    if not run.staging or not size:
        return NONE
    rate = Range.stated(run.staging_gbps) if run.staging_gbps is not None else default("staging_gbps")
    hours = size / SECONDS_PER_HOUR
    return Range(hours / rate.high, hours / rate.typical, hours / rate.low, rate.source)


def evaluation_share(job: Job) -> Range:
    """Hours of evaluation per hour of training.

    Stated as interval and size, a sample of evaluation costs its forward pass: 1 / (1 + backward ratio) of training, of
    one view where training passes several through the model.
    """
    run = job.workload.run
    if not run.evaluation:
        return NONE
    if run.evaluate is not None:
        forward = 1.0 / (1.0 + float(np.asarray(job.work.backward_ratio, float)))
        if job.workload.objective is not None:
            forward /= objectives()[job.workload.objective].forward_area
        if run.evaluate.every_steps is not None:
            trained = float(run.evaluate.every_steps * job.training.global_batch)
        else:
            trained = (run.evaluate.every_epochs or 1.0) * (job.training.samples_per_epoch or 1.0)
        return Range.stated(run.evaluate.samples * forward / trained)
    share = Range.stated(run.evaluation_share) if run.evaluation_share is not None else default("evaluation_share")
    low, typical, high = (s / (1.0 - s) for s in (share.low, share.typical, share.high))
    return Range(low, typical, high, share.source)


def checkpoint_gb(job: Job) -> float:
    """Size of one checkpoint, GB: what the memory model counts of a trained parameter, less its gradient.

    With mixed precision and AdamW that is 2 (weight) + 4 (master copy) + 8 (moments) = 14 bytes; BLOOM wrote 2.3 TB for
    176B = 13.0 (run_facts `startup`). LoRA and QLoRA save their adapters alone, 4 + 8 bytes each.
    """
    kept = recipe(method=job.workload.method, precision=job.memory_precision, optimizer=job.workload.optimizer)
    weight = kept.adapter if np.any(kept.adapter) else kept.weight
    each = float(np.asarray(weight + kept.master + kept.optimizer, float))
    return float(np.asarray(job.work.trainable_params, float)) * each / 1e9


def checkpoint_hours(job: Job, gpus: Floats) -> Floats:
    """Hours that writing one checkpoint holds the job up, by number of GPUs."""
    run = job.workload.run
    if not run.checkpoints:
        return np.zeros_like(gpus)
    rate = run.checkpoint_gbps if run.checkpoint_gbps is not None else default("checkpoint_gbps_per_gpu").typical * gpus
    blocking = default("checkpoint_async_share").typical if run.checkpoint_async else 1.0
    return np.broadcast_to(np.asarray(checkpoint_gb(job) / rate * blocking / SECONDS_PER_HOUR, float), gpus.shape)


def training_hours(job: Job, step_seconds: Floats) -> Floats:
    """Hours of optimizer steps: steps x step time x the share of the epochs run x trials one after the other."""
    run = job.workload.run
    return job.steps * step_seconds / SECONDS_PER_HOUR * run.finish_early * run.trials
