"""What would make a workload possible that fits nowhere?"""

from __future__ import annotations

from dataclasses import replace

from benchmarks_db.errors import WorkloadError
from estimator import memory_repair
from estimator.hardware import Hardware
from estimator.job import Job, work_for
from estimator.memory_repair import Request
from estimator.search import limits_of
from estimator.terms import Method
from estimator.work import Work

NOTHING = "no single change makes it fit here; combine a smaller model or method with more and larger GPUs"


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
