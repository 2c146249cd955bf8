"""How far off is the memory account on rows it was not fitted to, and are its verdicts right?

Errors are group-weighted: a group is one laboratory, model, GPU and kind of adapters, and weighs the same whatever its
number of rows. Three honest splits, constants always fitted on the other rows: `known group` leaves out one fifth of
the configurations at a time (rows that nothing tells apart stay together), `known laboratory` whole groups, `unseen
laboratory` whole laboratories (no correction, no habit that only the laboratory's name gives away).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estimator.evaluation.memory_verdicts import VerdictLine, cards, verdict_lines
from estimator.memory import BOUNDS, DEFAULT, PRIOR, VERDICTS, MemoryConstants, verdict
from estimator.rows.arrays import Prepared, prepare
from estimator.rows.memory import KNOWN_LABORATORY, Question, RowMemory, length_guessed, question, row_memory
from estimator.rows.memory_neighbours import (
    Features,
    corrected_memory,
    correction,
    features_of,
    measured,
    with_activations,
)
from estimator.terms import Verdict

Array = NDArray[np.float64]
STATED = Path(str(files("estimator") / "memory" / "stated.csv"))
FOLDS = 5
ROBUST = 0.15
"""Log residual from which a row counts less than its square (soft-L1)."""
SPREAD = 0.6
"""Log standard deviation of the constants around their priors, against a group's residual of `ROBUST`."""


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """One line of the table: relative error of memory, as fractions."""

    case: str
    groups: int
    rows: int
    median: float
    p90: float
    inside: float  # share whose 80% interval holds what was stated; NaN where no interval is asked


@dataclass(frozen=True, slots=True)
class StatedLine:
    """One publicly stated case: what was stated and what the account says."""

    case: str
    stated: str  # "fits" or "out of memory"
    gib: float  # stated per GPU; NaN where only the outcome is
    predicted: float  # as the program's own meter would print it
    verdict: Verdict
    right: bool  # fits -> yes or tight; out of memory -> no or tight


@dataclass(frozen=True, slots=True)
class MemoryEvaluation:
    """Everything that `benchmarks evaluate` prints about memory."""

    errors: list[ErrorLine]
    stated: list[StatedLine]
    verdicts: list[VerdictLine]
    ran: dict[Verdict, int]  # verdicts on all measured rows that say enough: every one of them ran

    @property
    def wrong(self) -> list[StatedLine]:
        """Stated cases with a wrong verdict."""
        return [line for line in self.stated if not line.right]

    @property
    def false_yes(self) -> list[StatedLine]:
        """Stated out-of-memory cases that the account says fit: must be empty."""
        return [line for line in self.stated if line.stated != "fits" and line.verdict is Verdict.YES]


def evaluate() -> MemoryEvaluation:
    """The cross-validated table and the stated cases; deterministic."""
    prepared, stated = measured()
    features = features_of(prepared)
    language = np.array([row.language for row in prepared.rows], bool)
    length = np.array([not length_guessed(row) for row in prepared.rows], bool)
    everything = np.ones(len(stated), bool)
    splits = {
        "known group": known_group(prepared, stated, features),
        "known laboratory": known_laboratory(prepared, stated, features),
        UNSEEN: unseen_laboratory(prepared, stated, features),
    }
    subsets = {
        "all": everything,
        "all that state their length": length,
        "language models": language,
        "vision and other": ~language,
    }
    plain = row_memory(prepared)
    half = {split: interval(plain, known=split != UNSEEN) for split in splits}
    errors = [
        line(f"{split}, {subset}", logs, features.group, chosen, half[split])
        for split, logs in splits.items()
        for subset, chosen in subsets.items()
    ]
    errors.append(line("same row twice (noise floor)", replicates(prepared, stated), features.group, everything))
    verdicts = [
        one
        for split in ("known laboratory", UNSEEN)
        for one in verdicts_on_cards(split, plain, stated, splits[split], features.group)
    ]
    return MemoryEvaluation([one for one in errors if one.rows], stated_cases(), verdicts, verdicts_of_runs())


UNSEEN = "unseen laboratory"


def interval(found: RowMemory, *, known: bool) -> Array:
    """Half of each row's 80% interval as a fraction of what is predicted, its laboratory `known` or not."""
    return np.asarray(found.half / found.stated * (KNOWN_LABORATORY if known else 1.0), float)


def verdicts_on_cards(
    split: str, found: RowMemory, stated: Array, logs: Array, group: NDArray[np.str_]
) -> list[VerdictLine]:
    """What is said of the rows on all cards near their size, what no meter of theirs counts included."""
    unseen = found.account.used - found.stated
    said = stated * np.exp(logs) + unseen
    return verdict_lines(split, said, found.account.sigma / found.account.used * said, stated + unseen, group, cards())


def line(
    case: str, logs: Array, group: NDArray[np.str_], chosen: NDArray[np.bool_], half: Array | None = None
) -> ErrorLine:
    """Group-weighted median and 90th percentile of |exp(log ratio) - 1| over the chosen rows that have one.

    `half`: half-width of each row's 80% interval as a fraction of its prediction.
    """
    use = chosen & np.isfinite(logs)
    if not use.any():
        return ErrorLine(case, 0, 0, math.nan, math.nan, math.nan)
    _, code = np.unique(group[use], return_inverse=True)
    weight = 1.0 / np.bincount(code)[code]
    error = np.abs(np.expm1(logs[use]))
    order = np.argsort(error)
    share = np.cumsum(weight[order]) / weight.sum()
    median, p90 = (float(error[order][np.searchsorted(share, q)]) for q in (0.5, 0.9))
    inside = math.nan
    if half is not None:
        inside = float(np.average(np.abs(np.expm1(-logs[use])) <= half[use], weights=weight))
    return ErrorLine(case, len(np.unique(code)), int(use.sum()), median, p90, inside)


def known_group(prepared: Prepared, stated: Array, features: Features) -> Array:
    """Log(predicted / stated) of each row; its group is measured, its own configuration is not."""
    return _folded(prepared, stated, features, twins_of(prepared))


def known_laboratory(prepared: Prepared, stated: Array, features: Features) -> Array:
    """Log(predicted / stated) of each row, its group left out of constants and correction."""
    return _folded(prepared, stated, features, np.unique(features.group, return_inverse=True)[1])


def _folded(prepared: Prepared, stated: Array, features: Features, code: NDArray[np.int64]) -> Array:
    """Log(predicted / stated) with rows of one code always left out together."""
    plain = question(prepared)
    fold = (np.random.default_rng(0).permutation(code.max() + 1) % FOLDS)[code]
    asked = with_activations(plain, prepared, plain, prepared, stated, held_out=(code, code))
    logs = np.full(len(stated), np.nan)
    for held in range(FOLDS):
        out = fold == held
        residual = np.log(asked.account(fit(asked, stated, features.group, ~out)).used / stated)
        shift = correction(features, features, residual, held_out=(code, code))
        logs[out] = (residual - shift)[out]
    return logs


def unseen_laboratory(prepared: Prepared, stated: Array, features: Features) -> Array:
    """Log(predicted / stated) of each row, its whole laboratory left out."""
    asked, blind = question(prepared), question(prepared, known_lab=False)
    labs = np.unique(features.lab)
    fold_of_lab = dict(zip(labs, np.random.default_rng(0).permutation(len(labs)) % FOLDS, strict=True))
    fold = np.array([fold_of_lab[lab] for lab in features.lab])
    logs = np.full(len(stated), np.nan)
    for held in range(FOLDS):
        constants = fit(asked, stated, features.group, fold != held)
        logs = np.where(fold == held, np.log(blind.account(constants).used / stated), logs)
    return logs


def twins_of(prepared: Prepared) -> NDArray[np.int64]:
    """A code for each row, the same where nothing that a prediction reads tells two rows apart."""
    keys = [repr(replace(row, unit="", per_gpu=False)) for row in prepared.rows]
    return np.unique(keys, return_inverse=True)[1]


def replicates(prepared: Prepared, stated: Array) -> Array:
    """Log(median of rows that nothing tells apart / row), NaN for rows without a twin: no model can do better."""
    code = twins_of(prepared)
    logs = np.full(len(stated), np.nan)
    for twins in (np.nonzero(code == one)[0] for one in np.nonzero(np.bincount(code) > 1)[0]):
        logs[twins] = np.median(np.log(stated[twins])) - np.log(stated[twins])
    return logs


def fit(asked: Question, stated: Array, group: NDArray[np.str_], use: NDArray[np.bool_]) -> MemoryConstants:
    """Constants fitted on the rows of `use` (groups weigh the same, soft-L1 on log ratios, drawn to `PRIOR`).

    Rows whose length is a guess (they state none, and their program is not known by a stated one) tell nothing about
    constants and are left out.
    """
    from scipy.optimize import least_squares

    names = tuple(BOUNDS)
    start = np.log([getattr(PRIOR, name) for name in names])
    low, high = (np.log([BOUNDS[name][end] for name in names]) for end in (0, 1))
    _, code = np.unique(group[use], return_inverse=True)
    weight = np.sqrt(1.0 / np.bincount(code)[code])
    guessed = np.asarray(asked.stack.host_checkpoints)[use] > 0  # unsloth's notebooks print no length
    weight = np.where(guessed, 0.0, weight)
    target = np.log(stated[use])

    def residuals(at: Array) -> Array:
        constants = replace(DEFAULT, **dict(zip(names, np.exp(at).tolist(), strict=True)))
        off = np.nan_to_num(np.log(asked.account(constants).used[use]) - target) / ROBUST
        robust = np.sign(off) * np.sqrt(2.0 * (np.sqrt(1.0 + off**2) - 1.0))
        return np.concatenate([weight * robust, (at - start) / SPREAD])

    found = least_squares(residuals, start, bounds=(low, high), diff_step=[1e-3] * len(names), max_nfev=20)
    return replace(DEFAULT, **dict(zip(names, np.exp(found.x).tolist(), strict=True)))


def refit() -> MemoryConstants:
    """The constants fitted on all measured rows: what `memory.constants.DEFAULT` holds, rounded."""
    prepared, stated = measured()
    everything = np.ones(len(stated), bool)
    plain = question(prepared)
    asked = with_activations(plain, prepared, plain, prepared, stated)
    return fit(asked, stated, features_of(prepared).group, everything)


def verdicts_of_runs() -> dict[Verdict, int]:
    """How often each verdict falls on the measured throughput rows: whatever was timed had fitted."""
    from benchmarks_db.measurements import load

    memory = corrected_memory(prepare(load().rows()))
    codes = verdict(memory.account.used, memory.capacity, memory.account.sigma)
    return {name: int((codes == code).sum()) for code, name in enumerate(VERDICTS)}


@cache
def _stated_rows() -> list[dict[str, str]]:
    with STATED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def stated_cases() -> list[StatedLine]:
    """The publicly stated cases of memory that say enough to be checked."""
    rows = _stated_rows()
    prepared = prepare(rows)
    offload = np.array([float(bool(rows[i]["offload"])) for i in prepared.index])
    memory = row_memory(prepared, offload=offload)
    codes = verdict(memory.account.used, memory.capacity, memory.account.sigma)
    lines = []
    for k, i in enumerate(prepared.index):
        fits, said = rows[i]["fits"] == "yes", VERDICTS[codes[k]]
        wrong = Verdict.NO if fits else Verdict.YES
        lines.append(
            StatedLine(
                case=rows[i]["case"],
                stated="fits" if fits else "out of memory",
                gib=float(rows[i]["gib"] or "nan"),
                predicted=float(memory.stated[k]),
                verdict=said,
                right=said not in (wrong, Verdict.UNKNOWN),
            )
        )
    return lines
