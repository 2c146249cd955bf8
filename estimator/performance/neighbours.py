"""What do the nearest measurements say: by how much is the physical prediction off in this neighbourhood?

The correction is the shrunken, likeness-weighted mean of the log residuals of the k nearest measured configurations:

    shift = sum(w r) / (sum(w) + shrink),  w = exp(-sharpness x distance)

so it fades to nothing where nothing is alike, and no single odd row can bend a prediction (residuals are clipped).
A measurement of the user's own is a neighbour at 0.85 of its residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.performance.evidence import FIGURES, NAMES, SWITCHES, Evidence, Features

Floats = NDArray[np.float64]

OWN_WEIGHT = 0.85
"""Share of the residual of an own measurement of the same model on the same GPU that carries over."""

CLIP = 1.0
"""Log residuals beyond a factor of e tell of something else than the configuration."""

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Likeness:
    """Weights of the distance and of the mean, one set a family (tuned on left-out groups, models, GPUs and labs)."""

    names: dict[str, float]
    switches: dict[str, float]
    figures: dict[str, float]
    nearest: int
    sharpness: float
    shrink: float


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
        nearest=7,
        sharpness=2.0,
        shrink=0.005,
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
        nearest=4,
        sharpness=0.5,
        shrink=0.2,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What the nearest configurations say of m rows."""

    shift: Floats  # (m,): add to log seconds
    nearest: NDArray[np.int64]  # (m, k): rows of the evidence, nearest first
    distance: Floats  # (m, k)


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


def neighbourhood(
    features: Features,
    evidence: Evidence,
    likeness: Likeness,
    *,
    forbidden: NDArray[np.bool_] | None = None,
    lab: float | None = None,
) -> Neighbourhood:
    """Correction and nearest configurations of m rows; `forbidden` (m, n) hides configurations (cross-validation)."""
    m, k = len(features), min(likeness.nearest, len(evidence))
    if k == 0 or m == 0:
        return Neighbourhood(np.zeros(m), np.zeros((m, 0), np.int64), np.zeros((m, 0)))
    codes = evidence.code(features)
    clipped = np.clip(evidence.residual.astype(float), -CLIP, CLIP)
    shift, nearest, near = np.zeros(m), np.zeros((m, k), np.int64), np.zeros((m, k))
    for start in range(0, m, _CHUNK):
        part = slice(start, min(start + _CHUNK, m))
        d = distances(features.pick(part), codes[part], evidence, likeness, lab=lab)
        if forbidden is not None:
            d[forbidden[part]] = np.inf
        chosen = np.argpartition(d, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(d, chosen, axis=1)
        order = np.lexsort((chosen, found), axis=1)
        chosen, found = np.take_along_axis(chosen, order, axis=1), np.take_along_axis(found, order, axis=1)
        weights = np.exp(-likeness.sharpness * found.astype(float)) * evidence.weight[chosen]
        shift[part] = (weights * clipped[chosen]).sum(axis=1) / (weights.sum(axis=1) + likeness.shrink)
        nearest[part], near[part] = chosen, found
    return Neighbourhood(shift, nearest, near)
