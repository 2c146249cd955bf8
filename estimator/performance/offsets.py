"""How much slower or faster is a laboratory's code of a model family, or a GPU at a format, than the physics says?

Shrunken second-stage offsets on the residuals of the fitted model, by backfitting: of each level the robust mean
residual of its members, shrunk by noise^2 / sd^2 members' worth. They come after the fit, so they cannot steal from its
constants, and are zero for every name that was never measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.performance.evidence import NAMES, Evidence

Floats = NDArray[np.float64]
Codes = NDArray[np.int16]

NOISE = 0.2
ROBUST = 0.3
ROUNDS = 6

LEVELS: dict[str, tuple[tuple[tuple[str, ...], float], ...]] = {
    "classic": ((("lab", "kin", "software"), 0.25), (("gpu", "format"), 0.10)),
    "language": (),
}
"""Levels by family with the standard deviation of their offsets (log units)."""


@dataclass(frozen=True)
class Offsets:
    """Offsets of one family; `shift` adds them up for rows coded under the evidence they came from."""

    levels: tuple[tuple[tuple[int, ...], NDArray[np.int64], Floats], ...]  # columns of the codes, keys, offsets
    span: tuple[int, ...]

    def shift(self, codes: Codes) -> Floats:
        """Sum of the offsets of m coded rows, (m,); 0 where a level was never measured."""
        total = np.zeros(len(codes))
        for columns, keys, values in self.levels:
            asked = _key(codes, columns, self.span)
            at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
            total += np.where((keys[at] == asked) & (asked >= 0), values[at], 0.0)
        return total


def _key(codes: Codes, columns: tuple[int, ...], span: tuple[int, ...]) -> NDArray[np.int64]:
    """One number a combination of names, -1 where one of them is unknown."""
    key = np.zeros(len(codes), np.int64)
    for column in columns:
        key = key * span[column] + codes[:, column]
    return np.where((codes[:, list(columns)] < 0).any(axis=1), -1, key)


def offsets_of(evidence: Evidence, family: str) -> Offsets:
    """Offsets from the residuals of the evidence; each (lab, model, GPU) group weighs as 1 / rows^0.5 a row."""
    span = tuple(len(evidence.vocabulary[name]) + 1 for name in NAMES)
    if len(evidence) == 0:
        return Offsets((), span)
    group = _key(evidence.codes, (NAMES.index("lab"), NAMES.index("model"), NAMES.index("gpu")), span)
    _, inverse, counts = np.unique(group, return_inverse=True, return_counts=True)
    weights = evidence.weight.astype(float) / np.sqrt(counts[inverse])
    levels = []
    for names, sd in LEVELS[family]:
        columns = tuple(NAMES.index(name) for name in names)
        keys, at = np.unique(_key(evidence.codes, columns, span), return_inverse=True)
        levels.append((columns, keys, at, sd, np.zeros(len(keys))))
    left = evidence.residual.astype(float)
    for _ in range(ROUNDS if levels else 0):
        for _columns, keys, at, sd, values in levels:
            partial = left + values[at]
            w = weights / np.sqrt(1.0 + (partial / ROBUST) ** 2)
            new = np.bincount(at, w * partial, len(keys)) / (np.bincount(at, w, len(keys)) + (NOISE / sd) ** 2)
            left = partial - new[at]
            values[:] = new
    return Offsets(tuple((columns, keys, values) for columns, keys, _at, _sd, values in levels), span)
