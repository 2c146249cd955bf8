"""What do measurements alike say: by how much is the physical prediction off for this configuration?

The log residuals of the physics in one laboratory are a Gaussian process over configurations, and the correction is its
mean given that laboratory's measurements (simple kriging; Rasmussen and Williams, Gaussian Processes for Machine
Learning, 2006, eq. 2.25; Cressie, Statistics for Spatial Data, 1993, section 3.2):

    shift = k_q' pull,   pull = (K + N)^-1 r
    k(a, b) = sum over parts of sd^2 exp(-distance(a, b)),   N = noise^2 / weight

A distance is a weighted count of the names and switches that differ plus weighted differences of figures, so every part
is a product of exponential covariances. Where nothing is alike the covariance is nothing and so is the shift;
measurements that repeat each other count once; residuals are clipped, so no single odd row can bend a prediction.
What another laboratory's software says beyond the physics does not pay (tried).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estimator.performance.constants import PARAMETERS
from estimator.performance.evidence import FIGURES, NAMES, SWITCHES, Evidence, Features

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

CLIP = 1.0
"""Log residuals beyond a factor of e tell of something else than the configuration."""

_FEATURES = NAMES + SWITCHES + FIGURES
_LAB = NAMES.index("lab")
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Kinship:
    """Covariance of the residuals of one family: parts (p) and the noise of one sound measurement, log units."""

    sd: Floats  # (p,): standard deviation of each part
    discrete: Singles  # (p, len(NAMES) + len(SWITCHES)): distance of two different names or switches
    figures: Singles  # (p, len(FIGURES)): distance a unit of difference
    noise: float


@cache
def kinship_of(family: str, path: Path = PARAMETERS) -> Kinship | None:
    """The committed covariance of a family, learnt by the fit (`fitting.kinship`); None before the first fit."""
    found = json.loads(path.read_text(encoding="utf-8")).get("kinship", {}) if path.exists() else {}
    if family not in found:
        return None
    parts = found[family]["parts"]

    def table(names: tuple[str, ...]) -> Singles:
        return np.array([[part["distance"][name] for name in names] for part in parts], np.float32)

    sd = np.array([part["sd"] for part in parts], float)
    return Kinship(sd, table(NAMES + SWITCHES), table(FIGURES), float(found[family]["noise"]))


def described(kinship: Kinship) -> dict[str, object]:
    """The covariance as the parameter file holds it; log units."""
    parts = []
    for sd, discrete, figures in zip(kinship.sd, kinship.discrete, kinship.figures, strict=True):
        weights = np.concatenate([discrete, figures])
        distance = {name: float(f"{weight:.4g}") for name, weight in zip(_FEATURES, weights, strict=True)}
        parts.append({"sd": float(sd), "distance": distance})
    return {"noise": kinship.noise, "parts": parts}


def with_pull(evidence: Evidence, kinship: Kinship) -> Evidence:
    """The evidence, each of its measurements with its pull on what is alike; one solution a laboratory."""
    pull = np.zeros(len(evidence), np.float32)
    residual = np.clip(evidence.residual.astype(float), -CLIP, CLIP)
    for mine in _by_lab(evidence.codes):
        known = evidence.pick(mine)
        covariance = _covariance(known.codes, known.switches, known.figures, known, kinship).astype(float)
        covariance[np.diag_indices(len(mine))] += kinship.noise**2 / known.weight.astype(float)
        pull[mine] = np.linalg.solve(covariance, residual[mine])
    return replace(evidence, pull=pull)


def kriged(features: Features, codes: NDArray[np.int16], evidence: Evidence, kinship: Kinship) -> Floats:
    """Shift of the log seconds of m rows coded by the evidence, (m,); 0 where the laboratory was never measured."""
    shift = np.zeros(len(features))
    labs = evidence.codes[:, _LAB]
    for mine in _by_lab(codes):
        known = evidence.pick(labs == codes[mine[0], _LAB])
        for start in range(0, len(mine), _CHUNK):
            part = mine[start : start + _CHUNK]
            near = _covariance(codes[part], features.switches[part], features.figures[part], known, kinship)
            shift[part] = (near.astype(float) * known.pull).sum(axis=1)  # row by row: its place changes no digit
    return shift


def _by_lab(codes: NDArray[np.int16]) -> Iterator[NDArray[np.int64]]:
    """Rows of each known laboratory."""
    return (np.flatnonzero(codes[:, _LAB] == lab) for lab in np.unique(codes[:, _LAB]) if lab >= 0)


def _covariance(
    codes: NDArray[np.int16], switches: NDArray[np.int8], figures: Singles, known: Evidence, kinship: Kinship
) -> Singles:
    """Covariance of m rows with n measurements, (m, n). Names and switches, which rows share, are compared once for all
    rows that have the same; a name that was never measured (-1) is like nothing."""
    asked = np.concatenate([codes, switches], axis=1)
    theirs = np.concatenate([known.codes, known.switches], axis=1)
    distinct, inverse = np.unique(asked, axis=0, return_inverse=True)
    apart = [np.zeros((len(distinct), len(known)), np.float32) for _ in kinship.sd]
    for j, weights in _told(kinship.discrete):
        differ = distinct[:, j, None] != theirs[None, :, j]
        for distance, weight in zip(apart, weights, strict=True):
            distance += weight * differ
    apart = [distance[inverse.reshape(-1)] for distance in apart]
    for j, weights in _told(kinship.figures):
        difference = np.abs(figures[:, j, None] - known.figures[None, :, j])
        for distance, weight in zip(apart, weights, strict=True):
            distance += weight * difference
    parts = [np.float32(sd**2) * np.exp(-distance) for sd, distance in zip(kinship.sd, apart, strict=True)]
    return np.asarray(sum(parts), np.float32)


def _told(weights: Singles) -> Iterator[tuple[int, Singles]]:
    """Columns that some part looks at, with the weight of each part."""
    return ((int(j), weights[:, j]) for j in np.flatnonzero(weights.any(axis=0)))
