"""How alike are the residuals of two configurations of one laboratory? The covariance of `performance.kriging`, learnt.

Learnt by what it is for: predicting measurements left out. The covariance is chosen so that the group-weighted mean
|error| is least when, within each laboratory, single configurations, (model, GPU, method) groups, whole models and
whole GPU types are hidden from the rest. Leaving a block out of a Gaussian process has a closed form (Rasmussen and
Williams 2006, section 5.4.2, for blocks instead of points): with A = K^-1 the residual of block G is
e = A_GG^-1 (A y)_G, so one inverse a laboratory judges every block of it. A coarse prior, the same for every family and
every feature of a sort, holds what the data do not move: with it a covariance learnt without the rows that it is judged
on does nearly as well as one learnt from all (docs/accuracy.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.performance.evidence import FIGURES, NAMES, SWITCHES, Evidence
from estimator.performance.kriging import CLIP, Kinship

Floats = NDArray[np.float64]

PARTS = 2
"""A broad covariance and a fine one: a third does not pay."""

BLOCKS = {(): 0.5, ("model", "gpu", "method"): 1.0, ("model",): 1.0, ("gpu",): 1.0}
"""What is hidden (nothing named: each configuration by itself) and how much its error counts."""

THIN = 250
"""Configurations of one laboratory that are learnt from, evenly spread."""

HOLD = 0.003
"""Cost of a factor of e between a figure and its prior, in units of the mean |log error|."""

SMOOTH = 0.02
"""Log error below which the loss is round instead of pointed."""

STEPS = 40

_SHARES = ("compute", "memory", "launch", "communication", "bubble")
_WIDTH = len(NAMES) + len(SWITCHES) + len(FIGURES)


def _prior() -> Floats:
    """Log distances (parts, features), then log standard deviations and log noise: a coarse start for any family."""
    coarse = [1.0] * (len(NAMES) + len(SWITCHES)) + [1.0 if name in _SHARES else 0.1 for name in FIGURES]
    distances = 0.3 * np.outer((1.0, 0.1), coarse)
    return np.asarray(np.log(np.concatenate([distances.ravel(), (0.15, 0.2), (0.05,)])), float)


@dataclass(frozen=True)
class _Lab:
    """n configurations of one laboratory."""

    live: NDArray[np.int64]  # (f,): features in which any two of them differ
    apart: NDArray[np.float32]  # (f, n, n): by how much
    residual: Floats  # (n,)
    weight: Floats  # (n,)
    noise: Floats  # (n,): variances of the noise relative to that of a sound measurement
    blocks: list[tuple[float, list[NDArray[np.int64]]]]  # how much the error of each partition counts, its blocks


def learn(evidence: Evidence) -> Kinship:
    """The covariance that predicts left-out measurements of the evidence best; the same evidence, the same answer."""
    from scipy.optimize import minimize

    labs = _labs(evidence)
    start = _prior()
    if not labs:
        return _kinship(start)
    found = minimize(  # type: ignore[call-overload]  # stubs know no gradient beside the value
        lambda t: _loss(t, labs),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-7.0, 3.0)] * (len(start) - 1) + [(-4.6, -0.9)],  # noise of 1 to 40%
        options={"maxiter": STEPS},
    )
    return _kinship(np.asarray(found.x, float))


def _kinship(t: Floats) -> Kinship:
    found = [float(f"{figure:.4g}") for figure in np.exp(t)]  # as they are written and read
    distances = np.array(found[: PARTS * _WIDTH], np.float32).reshape(PARTS, _WIDTH)
    discrete = len(NAMES) + len(SWITCHES)
    return Kinship(np.array(found[PARTS * _WIDTH : -1]), distances[:, :discrete], distances[:, discrete:], found[-1])


def _labs(evidence: Evidence) -> list[_Lab]:
    """What is learnt from, by laboratory; one with a single configuration tells nothing."""
    codes = evidence.codes.astype(np.int64)
    found = []
    for lab in np.unique(codes[:, NAMES.index("lab")]):
        mine = np.flatnonzero(codes[:, NAMES.index("lab")] == lab)
        mine = mine[np.unique(np.linspace(0, len(mine) - 1, min(len(mine), THIN)).round().astype(int))]
        if len(mine) < 2:
            continue
        discrete = np.concatenate([codes[mine], evidence.switches[mine]], axis=1)
        figures = evidence.figures[mine].astype(np.float32)
        differ = [(discrete[:, None, j] != discrete[None, :, j]).astype(np.float32) for j in range(discrete.shape[1])]
        apart = np.stack(differ + [np.abs(figures[:, None, j] - figures[None, :, j]) for j in range(figures.shape[1])])
        live = np.flatnonzero(apart.any(axis=(1, 2)))
        groups = _coded(codes[mine], ("model", "gpu", "method"))
        partitions = [(share, _members(_coded(codes[mine], names))) for names, share in BLOCKS.items()]
        weight = evidence.weight[mine] / np.bincount(groups)[groups]
        found.append(
            _Lab(
                live=live,
                apart=apart[live],
                residual=np.clip(evidence.residual[mine].astype(float), -CLIP, CLIP),
                weight=weight.astype(float),
                noise=1.0 / evidence.weight[mine].astype(float),
                blocks=[(share, blocks) for share, blocks in partitions if len(blocks) > 1],
            )
        )
    return found


def _coded(codes: NDArray[np.int64], names: tuple[str, ...]) -> NDArray[np.int64]:
    """A number for each combination of the names, (n,); each row its own where none is named."""
    if not names:
        return np.arange(len(codes))
    columns = codes[:, [NAMES.index(name) for name in names]]
    return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)


def _members(coded: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [np.flatnonzero(coded == one) for one in range(int(coded.max()) + 1)]


def _loss(t: Floats, labs: list[_Lab]) -> tuple[float, Floats]:
    """(loss, its gradient) at the logs `t` of distances, standard deviations and noise.

    With lambda = A_GG^-1 dloss/de, padded to all rows, the loss changes by -u' dK v where u = A lambda, v = A e - A y.
    """
    distances = np.exp(t[: PARTS * _WIDTH]).reshape(PARTS, _WIDTH)
    variance, noise = np.exp(2.0 * t[PARTS * _WIDTH : -1]), float(np.exp(2.0 * t[-1]))
    slope, by_part, by_noise, total = np.zeros(distances.shape), np.zeros(PARTS), 0.0, 0.0
    for lab in labs:
        seen = distances[:, lab.live].astype(np.float32)
        parts = [v * np.exp(-np.tensordot(d, lab.apart, 1).astype(float)) for v, d in zip(variance, seen, strict=True)]
        inverse = np.linalg.inv(sum(parts) + np.diag(noise * lab.noise + 1e-8))
        loss, pressure = _left_out(inverse, lab)
        total += loss
        for p, part in enumerate(parts):
            pressed = pressure * part
            by_part[p] += 2.0 * pressed.sum()
            slope[p, lab.live] -= np.tensordot(lab.apart, pressed.astype(np.float32), ([1, 2], [0, 1]))
        by_noise += 2.0 * noise * float((np.diag(pressure) * lab.noise).sum())
    weight = sum(float(lab.weight.sum()) for lab in labs)
    gradient = np.concatenate([(slope * distances).ravel(), by_part, [by_noise]]) / weight
    moved = t - _prior()
    return total / weight + HOLD * float(moved @ moved), gradient + 2.0 * HOLD * moved


def _left_out(inverse: Floats, lab: _Lab) -> tuple[float, Floats]:
    """(weighted sum of the errors of all left-out blocks, its derivative by each entry of the covariance)."""
    told = inverse @ lab.residual
    total, pressure = 0.0, np.zeros(inverse.shape)
    for share, blocks in lab.blocks:
        pull, error = np.zeros((len(told), len(blocks))), np.zeros((len(told), len(blocks)))
        for g, mine in enumerate(blocks):
            inner = inverse[np.ix_(mine, mine)]
            e = np.linalg.solve(inner, told[mine])
            size = np.sqrt(e**2 + SMOOTH**2)
            total += share * float((lab.weight[mine] * size).sum())
            error[mine, g] = e
            pull[mine, g] = np.linalg.solve(inner, share * lab.weight[mine] * e / size)
        pressure += (inverse @ pull) @ (inverse @ error - told[:, None]).T
    return total, 0.5 * (pressure + pressure.T)
