"""What was measured, as the correction needs it: likeness features and the residual of the fitted model, packed.

A plan needs no measurement file: the features and residuals of all measurements (replicates folded) are one small
committed archive, written by the fit, loaded in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.gpus import gpus
from estimator.hardware import Hardware
from estimator.layouts import Layout
from estimator.performance.roofline import Execution
from estimator.performance.step import StepTime
from estimator.terms import Sharding
from estimator.work import Work

PACK = Path(__file__).parent / "evidence.npz"

NAMES = ("lab", "model", "kin", "gpu", "arch", "method", "format", "software")
"""Features that are names; two rows differ in them or not."""

SWITCHES = ("moe", "recompute", "sharded", "plain", "fused", "eager", "channels_last", "tuned", "assumed")
"""Features that are small codes."""

FIGURES = (
    "tokens", "seq", "gpus", "size", "tensor", "pipeline", "expert", "accumulation", "half",
    "compute", "memory", "launch", "communication", "bubble",
)  # fmt: skip
"""Features that are figures: log2 of counts, and the share of each term in the step."""


@dataclass(frozen=True)
class Labels:
    """Names of m rows; each a sequence of length m or one text for all."""

    lab: Sequence[str] | str
    model: Sequence[str] | str
    gpu: Sequence[str] | str
    method: Sequence[str] | str
    format: Sequence[str] | str
    software: Sequence[str] | str

    def spread(self, m: int) -> dict[str, NDArray[np.str_]]:
        """Every name of `NAMES` as an array of shape (m,); kin and chip generation follow from model and GPU."""
        given = {f.name: np.broadcast_to(np.asarray(getattr(self, f.name), np.str_), (m,)) for f in fields(self)}
        given["kin"] = _mapped(given["model"], kin)
        given["arch"] = _mapped(given["gpu"], _arch)
        return {name: given[name] for name in NAMES}


def kin(model: str) -> str:
    """Family of a model by the letters its name begins with, marks of training recipes left out.

    >>> kin("llama3-8b"), kin("regnety_032"), kin("tf_efficientnet_b0")
    ('llama', 'regnety', 'efficientnet')
    """
    found = re.match(r"[a-z]+", re.sub(r"^(tf|gluon|ig|swsl|ssl|adv|ens|legacy)[-_]", "", model.lower()))
    return found[0] if found else model


def _arch(name: str) -> str:
    return gpus()[name].arch if name in gpus() else ""


def _mapped(names: NDArray[np.str_], of: Callable[[str], str]) -> NDArray[np.str_]:
    words, inverse = np.unique(names, return_inverse=True)
    return np.array([of(str(word)) for word in words], np.str_)[inverse]


@dataclass(frozen=True)
class Features:
    """Likeness features of m rows."""

    labels: dict[str, NDArray[np.str_]]  # by NAMES, shape (m,)
    switches: NDArray[np.int8]  # (m, len(SWITCHES))
    figures: NDArray[np.float32]  # (m, len(FIGURES))

    def __len__(self) -> int:
        return len(self.figures)

    def pick(self, index: NDArray[np.int64] | slice) -> Features:
        """The rows `index`."""
        return Features({k: v[index] for k, v in self.labels.items()}, self.switches[index], self.figures[index])


def features_of(
    labels: Labels, work: Work, hardware: Hardware, layout: Layout, run: Execution, step: StepTime
) -> Features:
    """Features of the m rows whose arrays are given (scalars are spread)."""
    m = len(np.atleast_1d(step.total))

    def column(value: object) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(value, float), (m,))

    def log(value: object) -> NDArray[np.float64]:
        return np.log2(np.maximum(column(value), 1e-3))

    total = column(step.total)
    figures = np.stack(
        [
            log(layout.micro_batch * np.asarray(work.tokens) / layout.context),
            log(work.tokens),
            log(hardware.gpus),
            log(work.params),
            log(layout.tensor),
            log(layout.pipeline),
            log(layout.expert),
            log(layout.grad_accum),
            log(hardware.half_tflops),
            column(step.compute) / total,
            column(step.memory) / total,
            column(step.launch) / total,
            column(step.communication) / total,
            column(step.pipeline) / total,
        ],
        axis=1,
    ).astype(np.float32)
    switches = np.stack(
        [
            column(work.experts) > 0,
            column(layout.recompute),
            column(layout.sharding) == Sharding.ZERO3,
            column(run.plain),
            column(run.fused),
            column(run.eager_attention),
            column(run.channels_last),
            column(run.tuned),
            column(run.length_assumed),
        ],
        axis=1,
    ).astype(np.int8)
    return Features(labels.spread(m), switches, figures)


@dataclass(frozen=True)
class Evidence:
    """n distinct measured configurations of one family under the fitted model."""

    vocabulary: dict[str, NDArray[np.str_]]  # by NAMES, sorted
    codes: NDArray[np.int16]  # (n, len(NAMES)) into the vocabularies
    switches: NDArray[np.int8]  # (n, len(SWITCHES))
    figures: NDArray[np.float32]  # (n, len(FIGURES))
    residual: NDArray[np.float32]  # log(measured / predicted) seconds
    weight: NDArray[np.float32]  # 1, less for suspect rows
    ids: NDArray[np.str_]  # row ids of the measurements (first of the replicates)
    replicates: NDArray[np.int16]
    pull: NDArray[np.float32]  # on what is alike (`kriging.with_pull`); 0 before it is worked out

    def __len__(self) -> int:
        return len(self.residual)

    def code(self, features: Features) -> NDArray[np.int16]:
        """Codes of rows under this evidence's vocabularies, (m, len(NAMES)); -1 for a name never measured."""
        columns = []
        for name in NAMES:
            words, inverse = np.unique(features.labels[name], return_inverse=True)
            vocabulary = self.vocabulary[name]
            at = np.searchsorted(vocabulary, words)
            at = np.minimum(at, max(len(vocabulary) - 1, 0))
            known = vocabulary[at] == words if len(vocabulary) else np.zeros(len(words), bool)
            columns.append(np.where(known, at, -1)[inverse].astype(np.int16))
        return np.stack(columns, axis=1)

    def pick(self, index: NDArray[np.bool_] | NDArray[np.int64]) -> Evidence:
        """The configurations `index`."""
        kept = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "vocabulary"}
        return Evidence(vocabulary=self.vocabulary, **kept)


def evidence_of(
    features: Features, residual: NDArray[np.float64], weight: NDArray[np.float64], ids: Sequence[str]
) -> Evidence:
    """Evidence from n measured rows, replicates (equal features to one decimal) folded to their median residual."""
    vocabulary: dict[str, NDArray[np.str_]] = {}
    columns = []
    for name in NAMES:
        words, inverse = np.unique(features.labels[name], return_inverse=True)
        vocabulary[name] = words
        columns.append(inverse.astype(np.int16))
    codes = np.stack(columns, axis=1)
    keys: dict[bytes, list[int]] = {}
    rounded = np.round(features.figures, 1) + 0.0  # no negative zeros
    for i in range(len(features)):
        key = codes[i].tobytes() + features.switches[i].tobytes() + rounded[i].tobytes()
        keys.setdefault(key, []).append(i)
    first = np.array([rows[0] for rows in keys.values()], np.int64)
    return Evidence(
        vocabulary=vocabulary,
        codes=codes[first],
        switches=features.switches[first],
        figures=features.figures[first].astype(np.float16).astype(np.float32),  # as they are kept
        residual=np.array([np.median(residual[rows]) for rows in keys.values()], np.float32),
        weight=np.array([np.max(weight[rows]) for rows in keys.values()], np.float32),
        ids=np.array([ids[rows[0]] for rows in keys.values()], np.str_),
        replicates=np.array([len(rows) for rows in keys.values()], np.int16),
        pull=np.zeros(len(first), np.float32),
    )


def save(families: dict[str, Evidence], path: Path = PACK) -> None:
    """Write the pack; same evidence, same bytes."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for family in sorted(families):
        one = families[family]
        for name in NAMES:
            arrays[f"{family}/vocabulary/{name}"] = one.vocabulary[name]
        for field in ("codes", "switches", "residual", "weight", "ids", "replicates", "pull"):
            arrays[f"{family}/{field}"] = getattr(one, field)
        arrays[f"{family}/figures"] = one.figures.astype(np.float16)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def load(path: Path = PACK) -> dict[str, Evidence]:
    """The committed evidence by family; empty before the first fit."""
    if not path.exists():
        return {}
    with np.load(path) as archive:
        families = sorted({name.split("/")[0] for name in archive.files})
    found = {family: load_family(family, path) for family in families}
    return {family: one for family, one in found.items() if one is not None}


@cache
def load_family(family: str, path: Path = PACK) -> Evidence | None:
    """The committed evidence of one family, milliseconds; None before the first fit."""
    if not path.exists():
        return None
    with np.load(path) as archive:
        kept = [f"{family}/pull", *(f"{family}/vocabulary/{name}" for name in NAMES)]
        if any(name not in archive.files for name in kept):
            return None  # written by another version of this file: as good as no fit
        names = ("codes", "switches", "residual", "weight", "ids", "pull")
        parts = {name: archive[f"{family}/{name}"] for name in names}
        return Evidence(
            vocabulary={name: archive[f"{family}/vocabulary/{name}"] for name in NAMES},
            figures=archive[f"{family}/figures"].astype(np.float32),
            replicates=archive[f"{family}/replicates"],
            **parts,
        )
