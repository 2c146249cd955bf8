"""Which layout is best on each machine, how long is its step, and was that asked before?

A step knows nothing of tokens, prices, places, limits or dates: what people change most leaves it alone. `StepTimes`
remembers searches by all that a step does depend on, machine by machine, so that the next plan of the same model
searches only machines that are new. Whoever answers many requests holds one; a plan alone needs none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.job import Job
from estimator.layout import Layout
from estimator.memory import MemoryAccount
from estimator.performance import StepTime
from estimator.performance.correction import Correction
from estimator.planning.evidence import Evidenced, Measured, evidence_of
from estimator.planning.machines import Fleet, Kinds, kinds_of, reads_input
from estimator.planning.search import Found, execution, limits_of, search
from estimator.records import pick
from estimator.work import Work
from pricing.offers import InstanceTable

Ints = NDArray[np.int64]
Record = TypeVar("Record", Layout, StepTime, MemoryAccount, Correction)

MOST_KINDS = 64  # selections of instance types remembered
MOST_MACHINES = 40_000  # remembered in all; one takes some 600 bytes
FIGURES = tuple(field.name for field in fields(Hardware) if field.name != "gpu")


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one job: machines by their figures, and what came of them."""

    place: dict[tuple[str, bytes], int]  # of each machine
    refused: Ints  # (machines,) codes of layouts.REFUSALS
    at: Ints  # (machines,) row of the arrays below; -1 where nothing fits
    layout: Layout
    step: StepTime
    memory: MemoryAccount
    verdict: Ints
    correction: Correction
    own: int


class StepTimes:
    """Searches that are remembered, the latest ones; safe to ask from several threads."""

    def __init__(self, most: int = MOST_MACHINES) -> None:
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._kinds: OrderedDict[Hashable, tuple[InstanceTable, Kinds]] = OrderedDict()

    def kinds(self, types: InstanceTable, wanted: NDArray[np.bool_], job: Job) -> Kinds:
        """The distinct hardware among the `wanted` instance types: the same for jobs of one precision and input."""
        asked = (job.workload.precision, reads_input(job), wanted.tobytes())
        with self._lock:
            before = self._kinds.get(asked)
            if before is not None:
                self._kinds.move_to_end(asked)
        if before is not None and before[0] is types:
            return before[1]
        found = kinds_of(types, wanted, job)
        with self._lock:
            self._kinds[asked] = types, found
            while len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
        return found

    def of(self, job: Job, fleet: Fleet, measured: Measured = ()) -> tuple[Found, Evidenced]:
        """The best layout on each row of the fleet with its step time, and what measurements make of it."""
        asked, machines = _asked(job, measured), _machines(fleet.hardware)
        with self._lock:
            known = self._known.get(asked)
        place = {} if known is None else known.place
        new = np.array([row for row, name in enumerate(machines) if name not in place], dtype=np.int64)
        evaluated = 0
        if known is None or len(new):
            found = search(job, Fleet(fleet.kind[new], pick(fleet.hardware, new), fleet.gpus[new]))
            evaluated = found.evaluated
            fresh = _known_of([machines[row] for row in new], found, evidence_of(job, found, measured))
            known = fresh if known is None else _joined(known, fresh)
        self._keep(asked, known)
        return _looked_up(known, np.array([known.place[name] for name in machines], dtype=np.int64), fleet, evaluated)

    def _keep(self, asked: Hashable, known: _Known) -> None:
        """Another thread may have learned of other machines meanwhile: those are then searched once more."""
        with self._lock:
            self._known[asked] = known
            self._known.move_to_end(asked)
            while len(self._known) > 1 and sum(len(one.at) for one in self._known.values()) > self._most:
                self._known.popitem(last=False)


def _asked(job: Job, measured: Measured) -> Hashable:
    """Everything of a request that a step or its correction depends on, beside the machines."""
    asked = job.workload
    return (
        tuple(float(np.asarray(getattr(job.work, field.name), float)) for field in fields(Work)),
        (job.facts.name, job.family, job.loose, job.training.global_batch, limits_of(asked), execution(job)),
        (asked.method, asked.precision, job.memory_precision, asked.optimizer, asked.software, job.attention),
        tuple(tuple(row.items()) for row in measured),
    )


def _machines(hardware: Hardware) -> list[tuple[str, bytes]]:
    """Each row by its name and figures."""
    figures = np.stack(np.broadcast_arrays(*(np.asarray(getattr(hardware, name), float) for name in FIGURES)), axis=1)
    return [(name, row.tobytes()) for name, row in zip(np.asarray(hardware.gpu).tolist(), figures, strict=True)]


def _known_of(machines: list[tuple[str, bytes]], found: Found, evidence: Evidenced) -> _Known:
    at = np.full(len(machines), -1)
    at[found.row] = np.arange(len(found.row))
    place = {name: row for row, name in enumerate(machines)}
    parts = (found.layout, found.step, found.memory, found.verdict, evidence.correction, evidence.own)
    return _Known(place, found.refused, at, *parts)


def _joined(one: _Known, other: _Known) -> _Known:
    count = len(one.at)
    return _Known(
        place=one.place | {name: row + count for name, row in other.place.items()},
        refused=np.concatenate([one.refused, other.refused]),
        at=np.concatenate([one.at, np.where(other.at < 0, -1, other.at + len(one.verdict))]),
        layout=_both(one.layout, other.layout),
        step=_both(one.step, other.step),
        memory=_both(one.memory, other.memory),
        verdict=np.concatenate([one.verdict, other.verdict]),
        correction=_both(one.correction, other.correction),
        own=one.own,
    )


def _both(one: Record, other: Record) -> Record:
    """The rows of two records of arrays."""
    both = {f.name: np.concatenate([getattr(one, f.name), getattr(other, f.name)]) for f in fields(one)}
    return replace(one, **both)


def _looked_up(known: _Known, place: Ints, fleet: Fleet, evaluated: int) -> tuple[Found, Evidenced]:
    """The rows of a fleet, whose machines are known."""
    at = known.at[place]
    row = np.flatnonzero(at >= 0)
    best = at[row]
    correction, step = pick(known.correction, best), pick(known.step, best)
    found = Found(
        row=row,
        gpus=fleet.gpus[row],
        hardware=pick(fleet.hardware, row),
        layout=pick(known.layout, best),
        step=step,
        memory=pick(known.memory, best),
        verdict=known.verdict[best],
        refused=known.refused[place],
        evaluated=evaluated,
    )
    return found, Evidenced(step.total * correction.factor, correction.low, correction.high, correction, known.own)
