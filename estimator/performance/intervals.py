"""How sure is a prediction: which kind of evidence stands behind it, and how wide is the 80% interval of that kind?

Split-conformal: the 80% quantile of |log residual| of measurements left out in the way the kind says (their group,
model, GPU type or laboratory removed before fitting and correcting), by class of model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.models import models
from estimator.performance.constants import PARAMETERS
from estimator.performance.evidence import FIGURES, NAMES, SWITCHES, Evidence, Features
from estimator.terms import EvidenceKind

Floats = NDArray[np.float64]

KINDS = tuple(EvidenceKind)
"""Meaning of the codes of evidence, nearest first."""

LOOSE = 1.15
"""A GPU or model named loosely (`A100`, a size without a shape) widens the interval by this factor in log units."""

_LAB, _MODEL, _GPU = NAMES.index("lab"), NAMES.index("model"), NAMES.index("gpu")


@dataclass(frozen=True, slots=True)
class Widths:
    """Half-widths of the interval in log units by class of model and kind of evidence."""

    table: dict[str, dict[str, float]]  # class -> kind -> half-width
    centre: dict[str, dict[str, float]]  # class -> kind -> median residual, for the record


def kinds(coded: NDArray[np.int16], evidence: Evidence) -> NDArray[np.int64]:
    """Kind of evidence of m rows (coded by `evidence`), codes into `KINDS`, shape (m,): the widest of those that apply.

    Group: the same lab measured the same model on the same GPU. Lab: the lab is known, this pair is not. Unseen model,
    GPU or lab: never measured at all (a kind of kinds: a known lab's unseen model on an unseen GPU is `unseen-gpu`).
    """
    codes = coded.astype(np.int64)
    lab, model, gpu = codes[:, _LAB], codes[:, _MODEL], codes[:, _GPU]
    span_model, span_gpu = len(evidence.vocabulary["model"]) + 1, len(evidence.vocabulary["gpu"]) + 1
    known = evidence.codes.astype(np.int64)
    group = np.unique((known[:, _LAB] * span_model + known[:, _MODEL]) * span_gpu + known[:, _GPU])
    asked = (lab * span_model + model) * span_gpu + gpu
    found = np.where(np.isin(asked, group), KINDS.index(EvidenceKind.GROUP), KINDS.index(EvidenceKind.LAB))
    found = np.where(model < 0, KINDS.index(EvidenceKind.UNSEEN_MODEL), found)
    found = np.where(gpu < 0, KINDS.index(EvidenceKind.UNSEEN_GPU), found)
    return np.where(lab < 0, KINDS.index(EvidenceKind.UNSEEN_LAB), found)


def novelty(codes: NDArray[np.int16], classes: NDArray[np.str_], kind: NDArray[np.int64], widths: Widths) -> Floats:
    """Half-width in log units, shape (m,), where more than one thing is new: a GPU or model nobody measured (by the
    codes of the evidence) widens an interval of `unseen-lab` (and such a model one of `unseen-gpu`) by what it adds
    alone, in quadrature.
    """
    half = half_widths(classes, kind, widths)
    known = half_widths(classes, np.full(len(kind), KINDS.index(EvidenceKind.LAB)), widths)
    square = half**2
    for column, name in ((_GPU, EvidenceKind.UNSEEN_GPU), (_MODEL, EvidenceKind.UNSEEN_MODEL)):
        code = KINDS.index(name)
        alone = half_widths(classes, np.full(len(kind), code), widths)
        also = (codes[:, column] < 0) & (kind > code)
        square = square + np.where(also, np.maximum(alone**2 - known**2, 0.0), 0.0)
    return np.asarray(np.sqrt(square))


SERIES = 50
"""Models that one laboratory measured on one GPU from which on they are a series: one script, one host, many models."""


def series_labs(known: Evidence) -> list[str]:
    """Laboratories that measured such a series on some GPU."""
    span = len(known.vocabulary["gpu"]) + 1
    of = known.codes.astype(np.int64)
    pairs = of[:, _LAB] * span + of[:, _GPU]
    distinct = np.unique(np.stack([pairs, of[:, _MODEL]], axis=1), axis=0)
    found, counts = np.unique(distinct[:, 0], return_counts=True)
    return [str(known.vocabulary["lab"][lab]) for lab in np.unique(found[counts >= SERIES] // span)]


DESK_CARDS = ("RTX", "GTX", "Titan", "RX")
"""Beginnings of the names of GeForce, Radeon and workstation cards, which notebooks and blogs measure."""


def model_class(features: Features, family: str, series: Sequence[str]) -> NDArray[np.str_]:
    """Class of model whose errors are alike, shape (m,); `series` names the laboratories of `series_labs`.

    `tuned`: whatever vendors tuned. Language models: `unstated` (fine-tuning on samples whose length nobody stated),
    `peft`, `desk` (all weights trained on a GeForce or workstation card), `moe`, `small` (below 1B) or `dense`. Others:
    `counted` (a vision model whose operators or multiply-adds are known), `shape` (BERT, T5: closed form) or `profiled`
    (known by its measurements); `series` where one laboratory measured dozens of counted models in one go (timm).
    """
    tuned = features.switches[:, SWITCHES.index("tuned")] > 0
    if family != "language":
        words, inverse = np.unique(features.labels["model"], return_inverse=True)
        table = models()
        kinds = [table[str(word)].kind if str(word) in table else "vision" for word in words]
        names = {"profiled": "profiled", "encoder": "shape", "encoder-decoder": "shape"}
        plain = np.array([names.get(kind, "counted") for kind in kinds], np.str_)[inverse]
        alike = np.where((plain == "counted") & np.isin(features.labels["lab"], series), "series", plain)
        return np.where(tuned, "tuned", alike)
    peft = np.isin(features.labels["method"], ("lora", "qlora"))
    moe = features.switches[:, 0] > 0
    small = features.figures[:, FIGURES.index("size")] < np.log2(0.95e9)
    assumed = features.switches[:, SWITCHES.index("assumed")] > 0
    cards, inverse = np.unique(features.labels["gpu"], return_inverse=True)
    desk = np.array([str(card).startswith(DESK_CARDS) for card in cards], bool)[inverse]
    classes = {"tuned": tuned, "unstated": assumed, "peft": peft, "desk": desk, "moe": moe, "small": small}
    return np.select(list(classes.values()), list(classes), "dense")


def half_widths(
    classes: NDArray[np.str_], kind: NDArray[np.int64], widths: Widths, loose: NDArray[np.bool_] | float = 0.0
) -> Floats:
    """Half-width of the 80% interval in log units, shape (m,)."""
    found = np.empty(len(kind))
    for name in np.unique(classes):
        row = widths.table.get(str(name), {})
        figures = np.array([row.get(k.value, 0.5) for k in KINDS])
        mine = classes == name
        found[mine] = figures[kind[mine]]
    return widened(found, loose)


def widened(half: Floats, loose: NDArray[np.bool_] | float) -> Floats:
    """Half-widths, `LOOSE` times wider where GPU or model are named loosely."""
    return np.asarray(half * np.where(np.asarray(loose) > 0, LOOSE, 1.0), float)


def weighted_quantile(values: Floats, weights: Floats, q: float) -> float:
    """Smallest value with at least the share `q` of the weight at or below it; NaN when there is none.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), 0.5)
    2.0
    """
    if len(values) == 0:
        return float("nan")
    order = np.argsort(values, kind="stable")
    heap = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(heap, q * heap[-1] - 1e-12)), len(values) - 1)])


def conformal(
    residuals: dict[str, Floats],
    classes: NDArray[np.str_],
    weights: Floats,
    groups: NDArray[np.str_],
    *,
    quantile: float = 0.80,
) -> Widths:
    """Half-widths from left-out residuals by kind (name -> residuals of all n rows, NaN where not left out).

    A class with few groups left out is drawn to all classes: the weight of `PRIOR_GROUPS` groups of the whole family.
    Nothing that is new makes a prediction surer: widths grow from `group` to `lab` (a dip is levelled between the two,
    weighted by groups), and the other kinds are as wide as `lab` at least; which of a new model and a new GPU is the
    worse differs between families. A series is one laboratory on one GPU: without them its models are as other counted
    ones. A kind that left nothing out takes the next nearer one. An own measurement is taken as `group`.
    """
    table: dict[str, dict[str, float]] = {}
    centre: dict[str, dict[str, float]] = {}
    for name in sorted(set(classes.tolist())):
        row: dict[str, float] = {}
        mid: dict[str, float] = {}
        before = 0.0  # groups behind the width of the kind before
        for kind in KINDS[1:]:
            r = residuals[kind.value]
            there = np.isfinite(r)
            apart = kind not in (EvidenceKind.UNSEEN_GPU, EvidenceKind.UNSEEN_LAB)
            alike = (name,) if apart or name not in ("series", "counted") else ("series", "counted")
            mine = there & np.isin(classes, alike)
            count = float(len(np.unique(groups[mine])))
            mid[kind.value] = round(weighted_quantile(r[mine], weights[mine], 0.5), 4) if count else 0.0
            nearer = row.get("lab", row.get("group", 0.5))
            width = nearer
            if there.any():
                every = weighted_quantile(np.abs(r[there]), weights[there], quantile)
                own = weighted_quantile(np.abs(r[mine]), weights[mine], quantile) if count else every
                share = count / (count + PRIOR_GROUPS)
                width = share * own + (1.0 - share) * every
            if kind is EvidenceKind.LAB and width < nearer and before + count > 0.0:
                width = row["group"] = (nearer * before + width * count) / (before + count)
            row[kind.value] = max(width, nearer) if kind is not EvidenceKind.GROUP else width
            before = count
        row = {kind: round(width, 4) for kind, width in row.items()}
        row[EvidenceKind.OWN.value] = row[EvidenceKind.GROUP.value]
        table[name], centre[name] = row, mid
    return Widths(table, centre)


PRIOR_GROUPS = 6.0
"""Groups' worth of the whole family's quantile in the quantile of a class."""


@cache
def widths_of(family: str) -> Widths:
    """The committed widths of a family; empty before the first fit (a factor of e^0.5 either way)."""
    if not PARAMETERS.exists():
        return Widths({}, {})
    entry = json.loads(PARAMETERS.read_text()).get("intervals", {}).get(family, {})
    return Widths(entry.get("half_width", {}), entry.get("median_residual", {}))
