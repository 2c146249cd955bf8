"""What would make a workload possible that fits nowhere?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from benchmarks_db.errors import WorkloadError
from estimator.hardware import Hardware
from estimator.job import Job, work_for
from estimator.planning import memory_repair
from estimator.planning.memory_repair import Request
from estimator.planning.search import limits_of
from estimator.terms import Method
from estimator.work import Work

NOTHING = "no single change makes it fit here; combine a smaller model or method with more and larger GPUs"


def way_out(job: Job, kinds: Hardware, hardware: Hardware, reasons: Collection[str]) -> list[str]:
    """What to change where `hardware` was refused for `reasons`; `kinds` are the machines with these GPUs, one node."""
    if set(reasons) == {"gpu-count"}:
        sizes = sorted({float(size) for size in np.atleast_1d(np.asarray(kinds.gpus_per_node, float))})
        if not sizes:
            return ["no offer has these GPUs"]
        held = " or ".join(f"{size:g}" for size in sizes)
        return [f"gpus: a machine with them holds {held}; ask for a multiple, or leave the number out"]
    if set(reasons) <= {"batch", "gpu-count"}:
        return _batch_hints(job, hardware)
    return repairs(job, hardware)


def _batch_hints(job: Job, hardware: Hardware) -> list[str]:
    """Batches near the one asked for that every GPU gets an equal share of."""
    batch, fixed = job.training.global_batch, job.workload
    step = float(np.min(np.asarray(hardware.gpus, float)))
    step *= (fixed.micro_batch if isinstance(fixed.micro_batch, int) else 1) * (fixed.grad_accum or 1)
    near = sorted({max(1.0, np.floor(batch / step)) * step, np.ceil(batch / step) * step})
    words = " or ".join(f"{size:g}" for size in near)
    return [f"global_batch: {batch:g} does not divide over the GPUs; {words} would"]


def repairs(job: Job, hardware: Hardware) -> list[str]:
    """The smallest changes that make the job fit on some of `hardware`, those that cost least time first, in words."""
    asked = job.workload
    seq_len = job.training.seq_len if job.language else None

    def changed(method: Method, scale: float) -> Work | None:
        if not job.language and (scale != 1.0 or method is not asked.method):
            return None
        shorter = None if seq_len is None else max(1, round(seq_len * scale))
        training = replace(job.training, seq_len=shorter)
        try:
            return work_for(asked.model_copy(update={"method": method}), job.facts, training, job.attention)
        except WorkloadError:  # the model cannot be trained so
            return None

    request = Request(
        global_batch=job.training.global_batch,
        limits=limits_of(asked),
        method=asked.method,
        precision=job.memory_precision,
        optimizer=asked.optimizer,
        attention=job.attention,
        seq_len=seq_len,
    )
    found = memory_repair.repairs(changed, hardware, request)
    return [str(repair) for repair in found] or [NOTHING]
