"""What does the number rest on: the measurements near it, the factor they ask for, and the interval they allow?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.job import Job
from estimator.search import Found
from estimator.terms import EvidenceKind

Floats = NDArray[np.float64]

KINDS = tuple(EvidenceKind)


@dataclass(frozen=True, slots=True)
class Evidenced:
    """Step times of m rows of the search after correction, with what they rest on; arrays of shape (m,)."""

    step_seconds: Floats
    low: Floats  # throughput bounds as factors, low <= 1 <= high: an 80% interval
    high: Floats
    factor: Floats  # on the physical throughput
    kind: NDArray[np.int64]  # index into KINDS


def evidence_of(job: Job, found: Found) -> Evidenced:
    """Correct the physical step times by the measurements near them."""
    n = len(found.row)
    ones = np.ones(n)
    return Evidenced(
        np.asarray(found.step.total) * ones,
        ones / 1.5,
        ones * 1.5,
        ones,
        np.full(n, KINDS.index(EvidenceKind.UNSEEN_LAB)),
    )
