"""How far is a measurement from what is asked? The distance that chooses the measurements shown beside an answer, and
that says how far an own measurement carries. (The correction learns its own: `kriging`.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.performance.evidence import FIGURES, NAMES, SWITCHES, Evidence, Features

Floats = NDArray[np.float64]

OWN_WEIGHT = 0.85
"""Share of the residual of an own measurement of the same model on the same GPU that carries over."""

_CHUNK = 256

SHOWN = 7
"""Measurements that are shown at most."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Weights of the distance, one set a family (tuned on left-out groups, models, GPUs and labs)."""

    names: dict[str, float]
    switches: dict[str, float]
    figures: dict[str, float]


LIKENESS: dict[str, Likeness] = {
    "language": Likeness(
        names={
            "lab": 3.0, "model": 0.3, "kin": 1.0, "gpu": 0.6, "arch": 0.2, "method": 0.8, "format": 2.1,
            "software": 1.3,
        },
        switches={
            "moe": 3.0, "recompute": 4.0, "sharded": 0.1, "plain": 0.9, "fused": 1.7, "eager": 4.0,
            "channels_last": 0.0, "tuned": 0.0, "assumed": 3.0,
        },
        figures={
            "tokens": 0.55, "seq": 0.25, "gpus": 0.15, "size": 0.05, "tensor": 0.05, "pipeline": 0.05, "expert": 0.55,
            "accumulation": 0.03, "half": 0.3, "compute": 3.6, "memory": 10.0, "launch": 0.8, "communication": 1.5,
            "bubble": 3.4,
        },
    ),
    "classic": Likeness(
        names={
            "lab": 3.0, "model": 1.0, "kin": 1.2, "gpu": 1.5, "arch": 0.5, "method": 0.7, "format": 1.2,
            "software": 0.3,
        },
        switches={
            "moe": 0.0, "recompute": 0.0, "sharded": 0.0, "plain": 0.3, "fused": 1.0, "eager": 0.0,
            "channels_last": 1.0, "tuned": 0.0, "assumed": 0.0,
        },
        figures={
            "tokens": 0.2, "seq": 0.0, "gpus": 0.35, "size": 0.2, "tensor": 0.0, "pipeline": 0.0, "expert": 0.0,
            "accumulation": 0.1, "half": 0.2, "compute": 0.5, "memory": 0.5, "launch": 0.5, "communication": 0.5,
            "bubble": 0.0,
        },
    ),
}  # fmt: skip


def distances(
    features: Features, codes: NDArray[np.int16], evidence: Evidence, likeness: Likeness, *, lab: float | None = None
) -> NDArray[np.float32]:
    """Distance of m rows to n configurations, (m, n): weighted count of different names and switches plus weighted
    differences of figures. `lab` overrides the weight of another laboratory (0: wherever it was measured)."""
    total = np.zeros((len(features), len(evidence)), np.float32)
    for j, name in enumerate(NAMES):
        weight = lab if lab is not None and name == "lab" else likeness.names[name]
        if weight:
            total += np.float32(weight) * (codes[:, j, None] != evidence.codes[None, :, j])
    for j, name in enumerate(SWITCHES):
        weight = likeness.switches[name]
        if weight:
            total += np.float32(weight) * (features.switches[:, j, None] != evidence.switches[None, :, j])
    for j, name in enumerate(FIGURES):
        weight = likeness.figures[name]
        if weight:
            total += np.float32(weight) * np.abs(features.figures[:, j, None] - evidence.figures[None, :, j])
    return total


def nearest(
    features: Features, evidence: Evidence, likeness: Likeness, *, lab: float | None = None
) -> tuple[NDArray[np.int64], Floats]:
    """(rows of the evidence, their distances), each (m, k), nearest first; `lab` as in `distances`."""
    m, k = len(features), min(SHOWN, len(evidence))
    found, near = np.zeros((m, k), np.int64), np.zeros((m, k))
    codes = evidence.code(features)
    for start in range(0, m if k else 0, _CHUNK):
        part = slice(start, min(start + _CHUNK, m))
        d = distances(features.pick(part), codes[part], evidence, likeness, lab=lab)
        chosen = np.argpartition(d, k - 1, axis=1)[:, :k]
        apart = np.take_along_axis(d, chosen, axis=1)
        order = np.lexsort((chosen, apart), axis=1)
        found[part], near[part] = (np.take_along_axis(of, order, axis=1) for of in (chosen, apart))
    return found, near
