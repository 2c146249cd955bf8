"""On each machine and number of nodes: which layout is fastest among those that fit, and how long is its step?

The waist of the house: below it nothing knows of money, above it nothing of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.gpus import gpu
from estimator.hardware import Hardware
from estimator.job import Job
from estimator.layout import Layout
from estimator.layouts import REFUSALS, Candidates, Limits, enumerate_layouts
from estimator.memory import TIGHT, MemoryAccount
from estimator.performance import Constants, Execution, StepTime, constants_of, execution_of, step_time
from estimator.performance.roofline import format_code
from estimator.planning.machines import Fleet
from estimator.precision import resolve
from estimator.records import pick
from estimator.request.workload import Workload
from estimator.terms import Method, Precision, Software

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Record = TypeVar("Record", Layout, StepTime, MemoryAccount)

AS_FAST = 1.03
"""Step times this close count as equal when layouts are compared."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best layout of each of m rows of hardware that have one."""

    row: Ints  # (m,) rows of the fleet, ascending
    gpus: Floats  # (m,) cards of the whole job; a share of a card counts as such
    hardware: Hardware  # (m,)
    layout: Layout  # (m,)
    step: StepTime  # (m,) physical, before any correction
    memory: MemoryAccount  # (m,)
    verdict: Ints  # (m,) codes of memory.VERDICTS
    refused: Ints  # (h,) codes of layouts.REFUSALS, over the whole fleet
    evaluated: int  # candidates looked at

    def reasons(self) -> list[str]:
        """Why each row of hardware has no layout ("" where it has one)."""
        return [REFUSALS[code] for code in self.refused]


def search(job: Job, fleet: Fleet) -> Found:
    """Enumerate layouts, leave out what does not fit, time the rest in one pass, keep the best of each row.

    A layout that surely fits is preferred to a faster one that only may, one that the usual software for the method
    can run to one that it cannot (`_beyond_reach`), and the simplest of those within `AS_FAST` of the fastest is taken:
    a step time is never known so well that a few percent would pay for more machinery.
    """
    hardware = fleet.hardware
    candidates = enumerate_layouts(
        job.work,
        hardware,
        global_batch=job.training.global_batch,
        limits=limits_of(job.workload),
        method=job.workload.method,
        precision=job.memory_precision,
        optimizer=job.workload.optimizer,
        attention=job.attention,
    )
    steps = step_time(
        job.work,
        pick(hardware, candidates.row),
        candidates.layout,
        execution=execution_on(job, pick(hardware, candidates.row)),
        constants=constants(job),
    )
    best = _best(candidates, steps, _beyond_reach(job, candidates.layout))
    row = candidates.row[best]
    return Found(
        row=row,
        gpus=fleet.gpus[row],
        hardware=pick(hardware, row),
        layout=pick(candidates.layout, best),
        step=pick(steps, best),
        memory=pick(candidates.memory, best),
        verdict=candidates.verdict[best],
        refused=candidates.refused,
        evaluated=len(candidates.row),
    )


def _beyond_reach(job: Job, layout: Layout) -> Mask:
    """Layouts that ordinary fine-tuning does not run: weights split over GPUs by tensor or pipeline, unless asked for.

    Hugging Face's Trainer, FSDP and ZeRO replicate and shard only.
    """
    asked = job.workload
    split = np.asarray(layout.tensor * layout.pipeline, float) > 1
    free = asked.method is Method.FULL and asked.software is Software.ORDINARY and job.family == "language"
    stated = isinstance(asked.tensor_parallel, int) or isinstance(asked.pipeline_parallel, int)
    return split & (free and not stated)


def _best(candidates: Candidates, steps: StepTime, beyond: Mask) -> Ints:
    """The chosen candidate of each row of hardware, rows ascending.

    Of what surely fits within reach, else what surely fits, else what may fit within reach, else the rest.
    """
    row, layout, total = candidates.row, candidates.layout, np.asarray(steps.total, float)
    grade = 2 * (candidates.verdict == TIGHT) + beyond
    least = np.full(int(row.max(initial=-1)) + 1, 9)
    np.minimum.at(least, row, grade)
    fit = np.flatnonzero(grade == least[row])
    fastest = np.full(len(least), np.inf)
    np.minimum.at(fastest, row[fit], total[fit])
    fit = fit[total[fit] <= fastest[row[fit]] * AS_FAST]
    split = np.asarray(layout.tensor * layout.pipeline * layout.context * layout.expert, float)
    simple = (split, np.asarray(layout.sharding), np.asarray(layout.recompute), np.asarray(layout.grad_accum, float))
    keys = (candidates.memory.used, total, *simple[::-1], row)
    order = fit[np.lexsort(tuple(key[fit] for key in keys))]
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(row[order]) > 0
    return order[first]


def limits_of(workload: Workload) -> Limits:
    """What the request fixes of the layout.

    Accumulation steps count beside a stated global batch; without one they only set the least of it.
    """

    def fixed(value: int | str) -> int | None:
        return value if isinstance(value, int) else None

    return Limits(
        micro_batch=fixed(workload.micro_batch),
        grad_accum=None if workload.global_batch is None else workload.grad_accum,
        tensor=fixed(workload.tensor_parallel),
        pipeline=fixed(workload.pipeline_parallel),
        context=fixed(workload.context_parallel),
        expert=fixed(workload.expert_parallel),
        sharding=workload.sharding,
        recompute=workload.activation_checkpointing,
        offload=bool(workload.cpu_offload),
    )


def execution(job: Job) -> Execution:
    """How the software runs this work, as far as the step time depends on it."""
    asked = job.workload
    return execution_of(
        precision=job.memory_precision,
        method=asked.method,
        optimizer=asked.optimizer,
        attention=job.attention,
        compiled=bool(asked.compiled),
        software=asked.software,
        channels_last=job.channels_last,
        real_data=job.real_data,
        length_assumed=job.length_assumed,
    )


def execution_on(job: Job, hardware: Hardware) -> Execution:
    """The same on rows of hardware: TF32 is fp32 on a GPU that lacks it."""
    run = execution(job)
    if job.workload.precision is not Precision.TF32:
        return run
    cards = np.asarray(hardware.gpu)
    formats = {card: format_code(resolve(Precision.TF32, gpu(card)).name) for card in set(cards.tolist())}
    return replace(run, format=np.array([formats[card] for card in cards.tolist()]))


def constants(job: Job) -> Constants:
    """The fitted constants of this family of models and software."""
    return constants_of(language=job.family == "language", software=job.workload.software)
