"""A physical step time, corrected by the measurements alike and given an interval: what `predict` and `plan` show.

factor: multiply the physical seconds by it. low, high: multiply the corrected throughput by them (low <= 1 <= high).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layouts import Layout
from estimator.performance import evidence as packed
from estimator.performance.evidence import FIGURES, NAMES, SWITCHES, Features, Labels, features_of
from estimator.performance.intervals import (
    KINDS,
    half_widths,
    kinds,
    model_class,
    novelty,
    series_labs,
    widened,
    widths_of,
)
from estimator.performance.kriging import kinship_of, kriged
from estimator.performance.neighbours import LIKENESS, OWN_WEIGHT, distances
from estimator.performance.neighbours import nearest as nearest_rows
from estimator.performance.roofline import Execution
from estimator.performance.step import StepTime
from estimator.terms import EvidenceKind
from estimator.work import Work

Floats = NDArray[np.float64]

FAR = 4.0
"""Distance beyond which a configuration is no longer shown as evidence."""


SHOWN = replace(
    LIKENESS["language"],
    names={
        "lab": 0.0, "model": 3.0, "kin": 0.7, "gpu": 2.0, "arch": 0.3, "method": 1.5, "format": 0.7, "software": 0.0,
    },
    switches=dict.fromkeys(SWITCHES, 0.1),
    figures=dict.fromkeys(FIGURES, 0.0) | {"tokens": 0.1, "seq": 0.1, "gpus": 0.1, "size": 0.3},
)  # fmt: skip
"""Likeness of the measurements that are shown: what a person calls alike, the same model on the same GPU first."""


@dataclass(frozen=True)
class Correction:
    """What measurements say of m candidates; shape (m,) each."""

    factor: Floats  # on seconds
    low: Floats  # on throughput, <= 1
    high: Floats  # on throughput, >= 1
    kind: NDArray[np.int64]  # codes into `KINDS`


def nearest(family: str, features: Features) -> list[list[tuple[str, float]]]:
    """Ids and distances of the measurements alike to each of m candidates, wherever measured, nearest first."""
    known = packed.load_family(family)
    if known is None:
        return [[] for _ in range(len(features))]
    found = nearest_rows(features, known, SHOWN, lab=0.0)
    return [
        [(str(known.ids[i]), float(d)) for i, d in zip(rows, distances, strict=True) if d < FAR]
        for rows, distances in zip(*found, strict=True)
    ]


@cache
def _series(family: str) -> list[str]:
    """Laboratories of the committed evidence that measured a series."""
    known = packed.load_family(family)
    return [] if known is None else series_labs(known)


def correction(
    family: str,
    labels: Labels,
    work: Work,
    hardware: Hardware,
    layout: Layout,
    run: Execution,
    step: StepTime,
    *,
    loose: NDArray[np.bool_] | float = 0.0,
    own: tuple[Features, Floats] | None = None,
) -> Correction:
    """Correction and 80% interval of m candidates of one family.

    `labels.lab` is "" for a user whose laboratory is not in the data (kind `unseen-lab`: the honest width for somebody
    else's software). `own`: features and log residuals (measured over physical seconds) of the user's measurements.
    """
    return correct(family, features_of(labels, work, hardware, layout, run, step), loose=loose, own=own)


def correct(
    family: str,
    features: Features,
    *,
    loose: NDArray[np.bool_] | float = 0.0,
    own: tuple[Features, Floats] | None = None,
) -> Correction:
    """The same for candidates whose features are at hand."""
    m = len(features)
    known, kinship = packed.load_family(family), kinship_of(family)
    widths = widths_of(family)
    shift, kind = np.zeros(m), np.full(m, KINDS.index(EvidenceKind.UNSEEN_LAB))
    classes = model_class(features, family, _series(family))
    if known is not None:
        codes = known.code(features)
        kind = kinds(codes, known)
        if kinship is not None:
            shift = kriged(features, codes, known, kinship)
        half = widened(novelty(codes, classes, kind, widths), loose)
    else:
        half = half_widths(classes, kind, widths, loose)
    if own is not None and len(own[1]):
        own_kind = np.full(m, KINDS.index(EvidenceKind.OWN))
        shift, kind, half = _own(family, features, own, shift, kind, half, half_widths(classes, own_kind, widths))
    return Correction(np.exp(shift), np.exp(-half), np.exp(half), kind)


def _own(
    family: str,
    features: Features,
    own: tuple[Features, Floats],
    shift: Floats,
    kind: NDArray[np.int64],
    half: Floats,
    narrow: Floats,
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Pull towards the user's own measurements: by 0.85 of their residual for the same case, less for others.

    Where the same model was measured on the same GPU in much the same way the evidence is `own`; the interval goes
    from that of the kind to that of a known group (`narrow`) as far as the measurement carries, and is as wide as
    measurements that contradict each other.
    """
    theirs, residual = own
    carried = carries(family, features, theirs)
    closeness = carried.max(axis=1)
    weights = (carried / np.maximum(closeness, 1e-12)[:, None]) ** 4  # the closest speak, those as close with them
    heard = np.clip(residual, -OWN_CLIP, OWN_CLIP)
    said = weights @ heard / weights.sum(axis=1)
    spread = np.sqrt((weights * (heard - said[:, None]) ** 2).sum(axis=1) / weights.sum(axis=1))
    shift = (1.0 - closeness) * shift + closeness * said
    own_kind = KINDS.index(EvidenceKind.OWN)
    share = np.minimum(closeness / OWN_WEIGHT, 1.0)
    kind = np.where(closeness >= 0.5 * OWN_WEIGHT, own_kind, kind)
    near = np.maximum(np.minimum(half, narrow), NORMAL_80 * spread)
    return shift, kind, share * near + (1.0 - share) * half


NORMAL_80 = 1.2816
"""Half-width of a normal distribution's 80% interval over its standard deviation."""


OWN_CLIP = 2.0
"""A factor of e^2: beyond it one's own measurement is of something else (checked when it comes in)."""

OWN_REACH = 4.0
"""Distance of two configurations (another batch, layout or recomputation) at which half of what is known carries."""

CARRIES: dict[str, dict[str, float]] = {
    "language": {"model": 0.25, "kin": 0.2, "gpu": 0.4, "method": 0.85, "format": 0.85},
    "classic": {"model": 0.6, "kin": 0.8, "gpu": 0.3, "method": 0.85, "format": 0.85, "channels_last": 0.6},
}
"""Share of a residual that carries over where the name or switch differs.

Slopes of residuals on each other within laboratories: language models 0.83 for the same model on the same GPU (0.36
where one recomputes and the other does not), 0.70 in another format or method, 0.37 on another GPU, 0.17 for a model
of its kin, 0 for any other; other models 0.5 in the other memory format, 0.54 for the pair, 0.45 for another model on
the GPU, 0.23 where both differ.
"""


def carries(family: str, features: Features, theirs: Features) -> Floats:
    """Share of the residual of each own measurement (n) that carries over to each candidate, shape (m, n)."""
    n = len(theirs)
    folded = packed.evidence_of(theirs, np.zeros(n), np.ones(n), [""] * n)
    mine = replace(  # each measurement by itself: what contradicts another must show
        folded,
        codes=folded.code(theirs),
        switches=theirs.switches,
        figures=theirs.figures,
        residual=np.zeros(n, np.float32),
    )
    codes = mine.code(features)
    likeness = LIKENESS[family]
    column = SWITCHES.index("recompute")  # selective recomputation is half way from none to full
    steps = np.abs(features.switches[:, column, None].astype(float) - mine.switches[None, :, column])
    # whether a length was said or assumed widens the interval; how far it differs is among the figures
    switches = likeness.switches | {"recompute": 0.0, "assumed": 0.0, "channels_last": 0.0}
    unnamed = replace(likeness, names=dict.fromkeys(NAMES, 0.0), switches=switches)
    apart = distances(features, codes, mine, unnamed) + 0.5 * likeness.switches["recompute"] * steps
    kept = OWN_WEIGHT / (1.0 + (apart / OWN_REACH) ** 2)
    shares = CARRIES[family]
    for name, share in shares.items():
        if name in NAMES:
            j = NAMES.index(name)
            differ = codes[:, j, None] != mine.codes[None, :, j]
        else:
            j = SWITCHES.index(name)
            differ = features.switches[:, j, None] != mine.switches[None, :, j]
        kept *= np.where(differ, share, 1.0)
    return np.asarray(kept, float)


def summary() -> Mapping[str, int]:
    """Distinct measured configurations by family."""
    return {family: len(known) for family, known in packed.load().items()}
