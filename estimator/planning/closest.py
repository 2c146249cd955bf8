"""Where memory stands in the way: which machine came nearest, and what would lie in its GPUs?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from estimator.documents import ClosestDocument
from estimator.hardware import Hardware
from estimator.job import Job
from estimator.layouts import enumerate_layouts
from estimator.memory import NO
from estimator.planning.present import layout_document, memory_document
from estimator.planning.search import limits_of
from estimator.records import pick

MORE = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0)
"""How many times their memory the GPUs are taken to have, one after the other, until a layout fits."""


def closest(job: Job, hardware: Hardware) -> ClosestDocument | None:
    """The layout that lacks least memory on any row of `hardware`; None where memory is not what is missing.

    The search is asked again as if each GPU held more, a little first: what it finds then is what it would run there,
    so the account is that of a sensible layout and not of an unreadable one.
    """
    real = np.asarray(hardware.capacity_gib, float)
    for factor in MORE:
        candidates = enumerate_layouts(
            job.work,
            replace(hardware, capacity_gib=real * factor),
            global_batch=job.training.global_batch,
            limits=limits_of(job.workload),
            method=job.workload.method,
            precision=job.memory_precision,
            optimizer=job.workload.optimizer,
            attention=job.attention,
        )
        if len(candidates.row):
            break
    else:
        return None
    capacity = np.broadcast_to(real, candidates.refused.shape)[candidates.row]
    used = np.asarray(candidates.memory.used, float)
    if not np.isfinite(used).any():
        return None
    best = int(np.nanargmin(np.where(np.isfinite(used), used / capacity, np.nan)))
    machine = pick(hardware, candidates.row[best : best + 1])
    gpus = float(np.floor(float(np.asarray(machine.gpus)[0]) + 1e-9)) or 1.0
    return ClosestDocument(
        gpu=str(np.asarray(machine.gpu)[0]),
        gpus=gpus,
        nodes=int(np.asarray(machine.nodes)[0]),
        layout=layout_document(candidates.layout, best),
        memory_gib=memory_document(candidates.memory, float(capacity[best]), NO, best),
    )
