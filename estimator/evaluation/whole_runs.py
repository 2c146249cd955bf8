"""How well are whole published runs predicted, by kind of run, and what factor and interval do they ask for?

Groups (one source's runs of one model on one GPU) weigh the same whatever their number; a run is judged with a factor
and an interval that its source took no part in, or its group where one or two sources state the whole kind (MLPerf).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks_db import runs
from estimator.performance.intervals import weighted_quantile
from estimator.rows.cells import lab_of
from estimator.rows.whole_runs import kind_of, overhead, predict_runs

Floats = NDArray[np.float64]

COVERAGE = 0.84  # aimed at, so that a new source finds 80%
SHRINK = 5.0  # groups of all kinds that stand behind a kind of its own
FEW_GROUPS = 12  # below it a kind is at least as uncertain as all runs together
FEW_SOURCES = 3  # a kind that fewer sources state is judged by leaving out its groups


@dataclass(frozen=True)
class Judged:
    """Published runs with their log(stated / steps alone), one entry a run."""

    kind: NDArray[np.str_]
    apart: NDArray[np.str_]  # what is left out together
    weight: Floats
    residual: Floats
    dollars: Floats  # the same of stated dollars, at the hourly price that the run states; NaN where it states none


@dataclass(frozen=True, slots=True)
class RunScore:
    """One line of the table: errors in % of the stated hours, on sources left out."""

    kind: str
    runs: int
    groups: int
    median: float
    p90: float
    coverage: float  # share of runs inside the 80% interval
    width: float  # factor either way of that interval
    dollar_runs: int  # of which the dollars and their hourly price are stated
    dollar_coverage: float | None  # share of those inside the 80% interval of dollars


def judged() -> Judged:
    """Every usable published run with hours or GPU-hours that our prediction can be held against."""
    table = [row for row in runs.load().rows() if row["quality"] == "ok"]
    kinds, labs, groups, residuals, dollars = [], [], [], [], []
    for row, answer in zip(table, predict_runs(table), strict=True):
        stated, ours = row["gpu_hours"] or "", answer["predicted_gpu_hours_p50"]
        if not ours or not stated:
            continue
        kind = kind_of(row)
        kinds.append(kind)
        lab = lab_of(row["source"]) or row["source"]
        labs.append(lab)
        groups.append("|".join((lab, row["model"], row["gpu"], kind)))
        residuals.append(math.log(float(stated) / float(ours)) + math.log(overhead(kind).factor))
        paid, planned = row.get("cost_usd") or "", answer["predicted_cost_usd_p50"]
        known = bool(paid and planned and row.get("price_basis"))
        dollars.append(math.log(float(paid) / float(planned) * overhead(kind).factor) if known else math.nan)
    count = {group: groups.count(group) for group in set(groups)}
    sources = {kind: len({lab for lab, k in zip(labs, kinds, strict=True) if k == kind}) for kind in set(kinds)}
    apart = [g if sources[k] < FEW_SOURCES else lab for g, k, lab in zip(groups, kinds, labs, strict=True)]
    weight = np.array([1.0 / count[group] for group in groups])
    return Judged(np.array(kinds), np.array(apart), weight, np.array(residuals, float), np.array(dollars, float))


def fitted(data: Judged, used: NDArray[np.bool_]) -> dict[str, tuple[float, float]]:
    """(log factor, half-width) by kind from the runs `used`; kinds with few groups lean on all."""
    everywhere = weighted_quantile(data.residual[used], data.weight[used], 0.5)
    spread = weighted_quantile(np.abs(data.residual[used] - everywhere), data.weight[used], COVERAGE)
    found = {}
    for kind in sorted(set(data.kind.tolist())):
        mine = used & (data.kind == kind)
        groups = float(data.weight[mine].sum())
        if groups < 1.0:
            found[kind] = (everywhere, spread)
            continue
        centre = weighted_quantile(data.residual[mine], data.weight[mine], 0.5)
        share = groups / (groups + SHRINK)
        middle = share * centre + (1.0 - share) * everywhere
        width = weighted_quantile(np.abs(data.residual[mine] - middle), data.weight[mine], COVERAGE)
        found[kind] = (middle, max(width, spread) if groups < FEW_GROUPS else width)
    return found


def evaluate_runs() -> list[RunScore]:
    """The table: each source (or group) judged by factors and intervals of the others."""
    data = judged()
    error, inside, width, paid_inside = (np.zeros(len(data.residual)) for _ in range(4))
    for one in sorted(set(data.apart.tolist())):
        out = data.apart == one
        known = fitted(data, ~out)
        for i in np.flatnonzero(out):
            middle, half = known[data.kind[i]]
            error[i] = data.residual[i] - middle
            inside[i], width[i] = abs(error[i]) <= half, half
            paid_inside[i] = abs(data.dollars[i] - middle) <= half
    return [_score(data, kind, error, inside, width, paid_inside) for kind in [*sorted(set(data.kind.tolist())), "all"]]


def _score(data: Judged, kind: str, error: Floats, inside: Floats, width: Floats, paid_inside: Floats) -> RunScore:
    mine = np.ones(len(error), bool) if kind == "all" else data.kind == kind
    paid = mine & np.isfinite(data.dollars)
    weight, off = data.weight[mine], np.abs(np.expm1(-error[mine]))
    return RunScore(
        kind=kind,
        runs=int(mine.sum()),
        groups=round(float(weight.sum())),
        median=round(100 * weighted_quantile(off, weight, 0.5), 1),
        p90=round(100 * weighted_quantile(off, weight, 0.9), 1),
        coverage=round(100 * float(np.average(inside[mine], weights=weight)), 1),
        width=round(float(np.exp(np.median(width[mine]))), 2),
        dollar_runs=int(paid.sum()),
        dollar_coverage=round(100 * float(paid_inside[paid].mean()), 1) if paid.any() else None,
    )


def kinds_csv() -> str:
    """`data/run_kinds.csv` as the present predictions ask for it."""
    data = judged()
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(["kind", "factor", "half_width", "groups", "source"])
    for kind, (middle, half) in fitted(data, np.ones(len(data.residual), bool)).items():
        groups = round(float(data.weight[data.kind == kind].sum()))
        note = "published runs of benchmarks_db/data/runs, by estimator benchmarks fit --runs"
        writer.writerow([kind, f"{math.exp(middle):.4g}", f"{half:.4g}", groups, note])
    return sheet.getvalue()


def write_kinds(path: Path | None = None) -> Path:
    """Write the table into the package, or to `path`."""
    target = path or Path(str(files("estimator") / "data" / "run_kinds.csv"))
    target.write_text(kinds_csv(), encoding="utf-8")
    return target


def as_rows(scores: Sequence[RunScore]) -> list[dict[str, object]]:
    """The table as plain rows, units in the names."""
    return [
        {
            "kind": s.kind,
            "runs": s.runs,
            "groups": s.groups,
            "median_error_percent": s.median,
            "p90_error_percent": s.p90,
            "interval_holds_percent": s.coverage,
            "interval_factor": s.width,
            "dollar_runs": s.dollar_runs,
            "dollar_interval_holds_percent": s.dollar_coverage,
        }
        for s in scores
    ]
