"""What does the number rest on: the measurements near it, the factor they ask for, and the interval they allow?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks_db import measurements
from benchmarks_db.gpus import gpu as gpu_facts
from estimator.documents import Evidence, MeasurementUsed
from estimator.hardware import Hardware
from estimator.job import Job
from estimator.performance.correction import Correction, correction, nearest
from estimator.performance.evidence import Labels, features_of
from estimator.performance.intervals import KINDS
from estimator.planning.search import Found, execution_on
from estimator.precision import resolve
from estimator.records import pick
from estimator.rows.own import own_measurements
from estimator.terms import EvidenceKind, Method

__all__ = ["KINDS", "Evidenced", "Measured", "evidence_document", "evidence_of", "measurements_near"]

Floats = NDArray[np.float64]
Measured = Sequence[Mapping[str, str]]
"""Rows of the user's own measurements, with the columns that `predict` reads and the throughput."""

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Evidenced:
    """Step times of m rows of the search after correction, with what they rest on; arrays of shape (m,)."""

    step_seconds: Floats
    low: Floats  # throughput bounds as factors, low <= 1 <= high: an 80% interval
    high: Floats
    correction: Correction
    own: int  # measurements of the user's that were considered

    @property
    def kind(self) -> NDArray[np.int64]:
        """Index into KINDS."""
        return self.correction.kind


def evidence_of(job: Job, found: Found, measured: Measured = ()) -> Evidenced:
    """Correct the physical step times by the measurements near them, the user's own first."""
    own = own_measurements(measured).get(job.family) if measured else None
    right = correction(
        job.family,
        _labels(job, found.hardware),
        job.work,
        found.hardware,
        found.layout,
        execution_on(job, found.hardware),
        found.step,
        loose=float(job.loose),
        own=own,
    )
    total = np.asarray(found.step.total, float) * right.factor
    return Evidenced(total, right.low, right.high, right, 0 if own is None else len(own[1]))


def _labels(job: Job, hardware: Hardware) -> Labels:
    """What the rows are called in the measurements."""
    cards: list[str] = np.asarray(hardware.gpu).tolist()
    formats = {card: resolve(job.workload.precision, gpu_facts(card)).name for card in set(cards)}
    return Labels(
        lab="own",  # no laboratory in the data: the width is that of somebody else's software
        model=job.facts.name,
        gpu=cards,
        method={Method.LORA: "lora", Method.QLORA: "qlora"}.get(job.workload.method, "full"),
        format=[formats[card] for card in cards],
        software="",
    )


def measurements_near(job: Job, found: Found, rows: Sequence[int]) -> list[list[MeasurementUsed]]:
    """The measurements nearest to some rows of the search, nearest first; none where nothing is alike."""
    some = np.array(rows, dtype=np.int64)
    hardware = pick(found.hardware, some)
    features = features_of(
        _labels(job, hardware),
        job.work,
        hardware,
        pick(found.layout, some),
        execution_on(job, hardware),
        pick(found.step, some),
    )
    return [[_measurement(*one) for one in near[:SHOWN]] for near in nearest(job.family, features)]


def evidence_document(job: Job, evidence: Evidenced, row: int, near: list[MeasurementUsed]) -> Evidence:
    """What one row rests on; `near` are the measurements nearest to it."""
    right = evidence.correction
    kind = KINDS[int(right.kind[row])]
    return Evidence(
        kind=kind,
        measurements=near,
        summary=_summary(kind, near, evidence.own, job.length_assumed),
        correction=1.0 / float(right.factor[row]),
    )


_WORDS = {
    EvidenceKind.OWN: "your own measurement of this model on this GPU",
    EvidenceKind.GROUP: "the same model on the same GPU, measured in the same laboratory",
    EvidenceKind.LAB: "a laboratory that is in the data",
    EvidenceKind.UNSEEN_MODEL: "physics, and other models on this GPU",
    EvidenceKind.UNSEEN_GPU: "physics, and this model on other GPUs",
    EvidenceKind.UNSEEN_LAB: "physics fitted on other laboratories, whose software may differ from yours",
}


def _summary(kind: EvidenceKind, near: Sequence[MeasurementUsed], own: int, length_assumed: bool) -> str:
    words = _WORDS[kind]
    if length_assumed:
        words += "; nobody said how long the samples are, which widens the interval (seq_len)"
    if near:
        words += f"; nearest of {len(near)} alike: {near[0].model} on {near[0].gpu}"
    else:
        words += "; nothing measured is alike (datasheet only)"
    return words + (f"; {own} own measurements considered" if own else "")


@cache
def _places() -> dict[str, int]:
    return {name: row for row, name in enumerate(measurements.load().text("id"))}


def _measurement(name: str, distance: float) -> MeasurementUsed:
    """The shipped measurement of an id."""
    table, row = measurements.load(), _places()[name]

    def text(column: str) -> str | None:
        codes, words = table.codes(column)
        return str(words[codes[row]]) or None

    def figure(column: str) -> float | None:
        value = float(table.number(column)[row])
        return None if np.isnan(value) else value

    return MeasurementUsed(
        source=text("source") or "",
        model=text("model") or "",
        gpu=text("gpu") or "",
        gpus=figure("gpus"),
        precision=text("precision"),
        date=text("date"),
        throughput=figure("throughput"),
        unit=text("unit"),
        scope=text("scope"),
        distance=distance,
    )
