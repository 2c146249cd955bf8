"""How well does the whole chain predict what it was not shown? The bench of measurements and its left-out residuals.

A `Bench` holds the measured steps of one family; `train` fits constants (and the work of profiled models) on some of
its rows; `left_out` predicts the others with evidence from the training rows only. Both the fit (for the intervals) and
`estimator benchmarks evaluate` stand on it, so an interval and an accuracy table never see a row they judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks_db import measurements
from estimator.architectures import profiled
from estimator.fitting.calibration import FREE, PRIORS, Sample, fit, group_weights
from estimator.fitting.kinship import learn
from estimator.performance.constants import Constants
from estimator.performance.evidence import Evidence, Features, Labels, evidence_of, features_of
from estimator.performance.kriging import Kinship, kriged, with_pull
from estimator.performance.step import StepTime, step_time
from estimator.records import pick
from estimator.rows.arrays import labels_of, prepare
from estimator.rows.cells import Row
from estimator.terms import EvidenceKind
from estimator.work import Work

Floats = NDArray[np.float64]
Index = NDArray[np.int64]

CAP = 20
"""Rows a (lab, model, GPU, method) group that the bench keeps, evenly spread: a sweep of a thousand tells no more."""

SUSPECT = 0.3
"""Weight of a row whose own source shows that something is off or unstated."""

ONE_CARD = 0.15
"""Weight of the timm rows in the constants: one card with hundreds of models would own them."""

NOTEBOOKS = 0.3
"""Weight of notebooks' and blogs' rows in the constants of language models: lengths and warm-up are rarely stated."""

TUNED = 0.1
"""Weight of vendor-tuned rows (MLPerf) in the constants of the classic family: an upper envelope of other software."""

GUESSED = ("size", "drawn")
"""Bases of a model's work that its measurements must correct before it may speak in the fit of the constants."""

SPLITS = ("group", "lab", "unseen-model", "unseen-gpu", "unseen-lab")
"""What is left out: other layouts of a known group; groups; models; GPU types; laboratories."""

FAMILY = "unseen-family"
"""All models of a family left out (ResNets, EfficientNets): harder than one model; no interval is taken from it."""

FOLDS = {"group": 5, "lab": 10, "unseen-model": 10, "unseen-gpu": 10, "unseen-lab": 12, FAMILY: 10}

THIRDS = 3
"""Parts of the folds: the likeness of residuals that judges one is learnt from the others, in seconds."""


@dataclass(frozen=True)
class Bench:
    """n measured steps of one family."""

    family: str
    sample: Sample
    rows: list[Row]
    ids: list[str]
    quality: NDArray[np.str_]  # ok | suspect
    labels: Labels
    throughput: Floats  # as measured, in the row's unit
    model_codes: Index
    model_names: list[str]

    def __len__(self) -> int:
        return len(self.rows)

    def names(self, what: str) -> NDArray[np.str_]:
        """A label of each row, shape (n,)."""
        return np.asarray(getattr(self.labels, what), np.str_)

    @property
    def groups(self) -> NDArray[np.str_]:
        """(lab, model, GPU, method) of each row as one text, shape (n,)."""
        return group_names(self.labels)

    @cached_property
    def even(self) -> Floats:
        """Weight of each row by which errors and intervals are judged, shape (n,): every group counts 1.

        Suspect rows as well: what a source leaves unsaid deserves less say in the constants, not in the error.
        """
        return group_weights(self.groups.tolist())


@dataclass(frozen=True)
class Trained:
    """What training rows taught: constants, factors on the work of each model (classic only), likeness of residuals."""

    constants: Constants
    factors: Floats | None  # (models, axes)
    kinship: Kinship | None = None


def group_names(labels: Labels) -> NDArray[np.str_]:
    """(lab, model, GPU, method) of each row as one text."""
    parts = [np.asarray(getattr(labels, name), np.str_) for name in ("lab", "model", "gpu", "method")]
    return np.array(["|".join(four) for four in zip(*parts, strict=True)], np.str_)


def bench(family: str, *, cap: int = CAP) -> Bench:
    """The usable measurements of a family: a throughput, a readable model and GPU, not marked unusable.

    Rows with states or weights outside the GPU (`offload`) stay out: the columns that a prediction may read do not
    tell them from others.
    """
    table = measurements.load().rows()
    cells = [r for r in table if r["throughput"] and r["quality"] != "unusable" and not r["offload"]]
    prepared = prepare(cells, profiles=False)
    mine = np.array([i for i, name in enumerate(prepared.families) if name == family], np.int64)
    labels = labels_of(prepared)
    names = group_names(labels)
    taken: dict[str, list[int]] = {}
    for i in mine:
        taken.setdefault(str(names[i]), []).append(int(i))
    chosen: list[int] = []
    for members in taken.values():
        spread = np.unique(np.linspace(0, len(members) - 1, min(len(members), cap)).round().astype(int))
        chosen.extend(members[j] for j in spread)
    index = np.array(sorted(chosen), np.int64)
    throughput = np.array([float(cells[i]["throughput"]) for i in prepared.index])
    seconds = prepared.seconds(throughput)
    index = index[np.isfinite(seconds[index]) & (seconds[index] > 0)]
    kept = Labels(**{name: np.asarray(getattr(labels, name))[index].tolist() for name in Labels.__dataclass_fields__})
    quality = np.array([cells[prepared.index[i]]["quality"] for i in index], np.str_)
    weights = group_weights(group_names(kept).tolist()) * np.where(quality == "ok", 1.0, SUSPECT)
    sample = Sample(
        pick(prepared.work, index),
        pick(prepared.hardware, index),
        pick(prepared.layout, index),
        pick(prepared.execution, index),
        seconds[index],
        weights,
    )
    rows = [prepared.rows[i] for i in index]
    keys = [profiled.key(row.model, row.method) for row in rows]
    models = sorted(set(keys))
    return Bench(
        family=family,
        sample=sample,
        rows=rows,
        ids=[cells[prepared.index[i]]["id"] for i in index],
        quality=quality,
        labels=kept,
        throughput=throughput[index],
        model_codes=np.array([models.index(key) for key in keys], np.int64),
        model_names=models,
    )


def train(data: Bench, index: Index, *, start: Trained | None = None) -> Trained:
    """Constants from the rows `index`; for the classic family the work of its models in turns with them."""
    prior, free = PRIORS[data.family], FREE[data.family]
    part = data.sample.pick(index)
    warm = start.constants if start else None
    if data.family != "classic":
        notebook = np.array([data.ids[i].startswith("small-") for i in index], bool)
        part = replace(part, weights=part.weights * np.where(notebook, NOTEBOOKS, 1.0))
        return Trained(fit(part, free, prior, start=warm), None)
    bases = model_bases(data)
    guessed = np.isin(bases, GUESSED)
    sigma = np.array([profiled.SIGMA[basis] for basis in bases], float)
    codes = data.model_codes[index]
    gpus = data.names("gpu")[index]
    on = {code: set(gpus[codes == code].tolist()) for code in np.unique(codes)}
    few = np.array([len(on.get(code, ())) < 2 for code in range(len(bases))])
    sigma[few & ~guessed] = 1e-3  # one GPU type tells a model's work from its card's habits no better
    factors = start.factors if start else None
    constants = warm or prior
    groups = np.unique(data.groups[index], return_inverse=True)[1]
    counts = np.bincount(groups)[groups]
    weights = counts.astype(float) ** -0.7 * np.where(data.quality[index] == "ok", 1.0, SUSPECT)
    one_card = np.array(["pytorch-image-models" in data.rows[i].lab for i in index])
    tuned = np.array([data.rows[i].tuned for i in index])
    share = np.where(one_card, ONE_CARD, 1.0) * np.where(tuned, TUNED, 1.0)
    fitted_on = replace(part, weights=part.weights * share)

    def inferred(constants: Constants, factors: Floats | None, rounds: int) -> Floats:
        def seconds(work: Work) -> Floats:
            return step_time(work, part.hardware, part.layout, execution=part.execution, constants=constants).total

        return profiled.infer(part.work, codes, seconds, part.seconds, weights, sigma, start=factors, rounds=rounds)

    for turn in range(1 if start else 2):
        factors = inferred(constants, factors, 4 if start else 20)  # first: an unknown work would bend the constants
        only_sized = np.where(guessed[:, None], factors, 1.0)
        work = profiled.apply(part.work, only_sized[codes])
        constants = fit(replace(fitted_on, work=work), free, prior, start=constants if turn or start else None)
    factors = inferred(constants, factors, 5)
    seen = np.zeros(len(sigma), bool)
    seen[codes] = True
    return Trained(constants, np.where(seen[:, None], factors, 1.0))


def model_bases(data: Bench) -> NDArray[np.str_]:
    """What the work of each of the bench's models rests on (`profiled.basis`), in the order of `model_names`."""
    facts = dict(zip(data.model_codes.tolist(), [row.model for row in data.rows], strict=True))
    return np.array([profiled.basis(facts[code]) for code in range(len(data.model_names))], np.str_)


def predict(data: Bench, index: Index, trained: Trained) -> tuple[StepTime, Features]:
    """Physical step times of the rows `index` under what was learnt, and their likeness features."""
    part = data.sample.pick(index)
    work = part.work
    if trained.factors is not None:
        work = profiled.apply(work, trained.factors[data.model_codes[index]])
    step = step_time(work, part.hardware, part.layout, execution=part.execution, constants=trained.constants)
    labels = Labels(**{n: np.asarray(getattr(data.labels, n))[index].tolist() for n in Labels.__dataclass_fields__})
    return step, features_of(labels, work, part.hardware, part.layout, part.execution, step)


def evidence(data: Bench, index: Index, trained: Trained) -> Evidence:
    """The evidence that the rows `index` give under what was learnt."""
    step, features = predict(data, index, trained)
    residual = np.log(data.sample.seconds[index] / step.total)
    weight = np.where(data.quality[index] == "ok", 1.0, SUSPECT)
    return evidence_of(features, residual, weight, [data.ids[i] for i in index])


def corrected(features: Features, known: Evidence, kinship: Kinship) -> Floats:
    """Log shift of the seconds of m rows by what the evidence says of them, (m,)."""
    return kriged(features, known.code(features), with_pull(known, kinship), kinship)


def folds(data: Bench, split: str, *, seed: int = 0) -> NDArray[np.int64]:
    """Fold of each row: rows of one left-out thing share a fold, and so do replicates of one configuration."""
    by = {"unseen-gpu": "gpu", "unseen-lab": "lab", "unseen-model": "model", FAMILY: "kin"}
    if split in by:
        things = data.labels.spread(len(data))[by[split]]
    elif split == "lab":
        things = data.groups
    else:
        layout, work, hardware = data.sample.layout, data.sample.work, data.sample.hardware
        parts = (data.groups, work.tokens, layout.micro_batch, layout.grad_accum, hardware.gpus, layout.tensor)
        columns = [np.asarray(part).astype(np.str_) for part in parts]
        things = np.array(["|".join(cells) for cells in zip(*columns, strict=True)], np.str_)
    names, inverse = np.unique(things, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    if split in ("unseen-gpu", "unseen-lab"):
        # the largest in folds of their own, so that no fold takes half of what is known away
        order = np.argsort(np.argsort(-np.bincount(inverse, data.sample.weights), kind="stable"), kind="stable")
    return np.asarray(order[inverse] % FOLDS[split], np.int64)


def left_out(data: Bench, split: str, *, whole: Trained | None = None, refit: bool = True) -> tuple[Floats, Floats]:
    """(residual of the physics, residual after correction) of every row when its fold was left out; log(measured /
    predicted), NaN for a row whose fold holds all there is. `whole` (trained on everything) is the warm start; without
    `refit` it is used as it is (other layouts of a group change the constants by nothing that matters). The likeness of
    residuals is learnt from the other two thirds of the folds: none is judged by what it taught.
    """
    fold = folds(data, split)
    physics, final = np.full(len(data), np.nan), np.full(len(data), np.nan)
    others = [np.flatnonzero(fold % THIRDS != third) for third in range(THIRDS)]
    likeness = [learn(evidence(data, rows, whole or train(data, rows))) for rows in others]
    for one in np.unique(fold):
        test, rest = np.flatnonzero(fold == one), np.flatnonzero(fold != one)
        if len(rest) == 0:
            continue
        trained = train(data, rest, start=whole) if refit or whole is None else whole
        known = evidence(data, rest, trained)
        step, features = predict(data, test, trained)
        physics[test] = np.log(data.sample.seconds[test] / step.total)
        final[test] = physics[test] - corrected(features, known, likeness[one % THIRDS])
    if data.family == "classic":
        # a model of which nothing but its measurements is known cannot be predicted where they are all left out
        sized = model_bases(data)[data.model_codes] == "size"
        for one in np.unique(fold):
            known_models = np.unique(data.model_codes[fold != one])
            lost = (fold == one) & sized & ~np.isin(data.model_codes, known_models)
            physics[lost] = final[lost] = np.nan
    if split == "group":
        # only rows whose group has another configuration left say anything of this kind
        groups = data.groups
        for name in np.unique(groups):
            members = np.flatnonzero(groups == name)
            if len(np.unique(fold[members])) < 2:
                physics[members] = final[members] = np.nan
    return physics, final


def all_left_out(data: Bench, whole: Trained, splits: Iterable[str] = SPLITS) -> dict[str, tuple[Floats, Floats]]:
    """Left-out residuals of every kind of evidence (name -> physics, corrected)."""
    return {split: left_out(data, split, whole=whole, refit=split != EvidenceKind.GROUP.value) for split in splits}


@cache
def judged(family: str) -> tuple[Bench, Trained, dict[str, tuple[Floats, Floats]]]:
    """(bench, what all its rows taught, left-out residuals of every split): once a process, for fit and table alike."""
    data = bench(family)
    whole = taught(data)
    return data, whole, all_left_out(data, whole)


def taught(data: Bench) -> Trained:
    """What all rows of the bench teach."""
    every = np.arange(len(data))
    trained = train(data, every)
    return replace(trained, kinship=learn(evidence(data, every, trained)))
