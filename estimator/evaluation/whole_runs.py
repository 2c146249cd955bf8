"""How well are whole published runs predicted, by kind of run, and what factor and interval do they ask for?

Groups (one source's runs of one model on one GPU) weigh the same whatever their number; a run is judged with a factor
and an interval that its source took no part in. Where one or two sources state the whole kind (MLPerf) its group is
left out, and where one source states most of it (a table that quotes papers) all that it says of that family of models.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks_db import runs
from estimator.performance.intervals import weighted_quantile
from estimator.rows.cells import lab_of
from estimator.rows.run_kinds import kind_of, overhead
from estimator.rows.run_steps import BASIC, GPUS_WHERE_UNSTATED
from estimator.rows.whole_runs import dollars_an_hour, predict_runs

Floats = NDArray[np.float64]

COVERAGE = 0.82  # of known groups; a kind of n of them takes (n + 1) / n of it, as the next one is a stranger
SHRINK = 2.0  # groups of a kind that weigh as much as the expectation that nothing stands between the steps
FEW_GROUPS = 12  # below it a kind is at least as uncertain as all runs together
FEW_SOURCES = 3  # a kind that fewer sources state is judged by leaving out its groups
MOST = 0.5  # share of a kind's groups above which a source is left out family by family


@dataclass(frozen=True)
class Judged:
    """Published runs with their log(stated / steps alone), one entry a run."""

    kind: NDArray[np.str_]
    apart: NDArray[np.str_]  # what is left out together
    weight: Floats
    residual: Floats
    unseen: Floats  # the same of the bare row, where nothing that the source measured itself is evidence
    dollars: Floats  # the same of stated dollars, at the hourly price that a planner knows; NaN where there is none
    rounding: Floats  # log of how far the stated dollars may lie off for the digits that are printed


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
    unseen_median: float  # the same for a stranger's bare row: nothing that the run's source measured is evidence
    unseen_p90: float
    unseen_coverage: float
    unseen_width: float
    dollar_runs: int  # of which the dollars and their hourly price are stated
    dollar_coverage: float | None  # share of those inside the 80% interval of dollars


def judged() -> Judged:
    """Every usable published run with hours or GPU-hours that our prediction can be held against."""
    table = [row for row in runs.load().rows() if row["quality"] == "ok"]
    answers, strange = predict_runs(table), predict_runs([bare(row) for row in table], known_sources=False)
    held = [i for i, row in enumerate(table) if row["gpu_hours"] and answers[i]["predicted_gpu_hours_p50"]]
    rows = [table[i] for i in held]
    kinds = [kind_of(row) for row in rows]
    labs = [lab_of(row["source"]) or row["source"] for row in rows]
    groups = ["|".join((lab, r["model"], r["gpu"], kind)) for lab, r, kind in zip(labs, rows, kinds, strict=True)]
    count = Counter(groups)
    weight = np.array([1.0 / count[group] for group in groups])
    factors = np.array([overhead(kind).factor for kind in kinds])
    stated = np.array([float(row["gpu_hours"]) for row in rows])
    ours, others = (
        np.array([float(each[i]["predicted_gpu_hours_p50"]) for i in held]) / factors for each in (answers, strange)
    )
    return Judged(
        kind=np.array(kinds),
        apart=_apart(kinds, labs, groups, [row["model"] for row in rows], weight),
        weight=weight,
        residual=np.log(stated / ours),
        unseen=np.log(stated / others),
        dollars=np.array(_dollars(rows, [answers[i] for i in held]), float) + np.log(factors),
        rounding=np.array([_rounding(row["cost_usd"]) for row in rows]),
    )


def bare(row: Mapping[str, str]) -> dict[str, str]:
    """The run in the columns that every table of runs has, without what only the notes of its source filled."""
    return {name: "" if f"{name} was empty" in row["mended"] else row[name] for name in BASIC}


def _apart(
    kinds: Sequence[str], labs: Sequence[str], groups: Sequence[str], models: Sequence[str], weight: Floats
) -> NDArray[np.str_]:
    """What is left out with each run: its source, or less where nothing of its kind would remain; shape (runs,)."""
    kind, lab = np.array(kinds), np.array(labs)
    out = lab.astype(object)
    for one in set(kinds):
        mine = kind == one
        whole = float(weight[mine].sum())
        few = len(set(lab[mine].tolist())) < FEW_SOURCES
        for i in np.flatnonzero(mine).tolist():
            share = float(weight[mine & (lab == lab[i])].sum()) / whole
            if few:
                out[i] = groups[i]
            elif share > MOST:
                out[i] = f"{labs[i]}|{re.split(r'[^a-z]', models[i].casefold(), maxsplit=1)[0]}"
    return out.astype(str)


def _dollars(rows: Sequence[Mapping[str, str]], answers: Sequence[Mapping[str, str]]) -> list[float]:
    """log(stated dollars / ours) at the hourly price that a planner would know; NaN where there is none.

    That is the price which the run states, else the one that the source's other runs on the same machine were billed
    at: never the run's own dollars over its own hours.
    """
    rates: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for row in rows:
        if row["price_basis"] and row["cost_usd"] and row["wall_hours"]:
            bill = float(row["cost_usd"]) / float(row["wall_hours"])
            rates[lab_of(row["source"]), row["price_basis"]].append((row["id"], bill))
    out = []
    for row, answer in zip(rows, answers, strict=True):
        stated = dollars_an_hour({**row, "cloud_instance": ""}, float(row["gpus"] or GPUS_WHERE_UNSTATED))
        others = [bill for name, bill in rates[lab_of(row["source"]), row["price_basis"]] if name != row["id"]]
        rate = stated or (float(np.median(others)) if others and row["price_basis"] else None)
        paid, hours = row["cost_usd"], answer["predicted_hours_p50"]
        out.append(math.log(float(paid) / (rate * float(hours))) if rate and paid and hours else math.nan)
    return out


def _rounding(printed: str) -> float:
    """log of the largest amount that rounds to what is printed, over it; 0 for nothing printed.

    >>> round(_rounding("0.3"), 3), round(_rounding("358.2172"), 6), _rounding("")
    (0.154, 0.0, 0.0)
    """
    if not printed:
        return 0.0
    decimals = len(printed.partition(".")[2])
    return math.log1p(0.5 * 10.0**-decimals / float(printed))


def fitted(data: Judged, used: NDArray[np.bool_]) -> dict[str, tuple[float, float, float]]:
    """(log factor, half-width, half-width for a stranger) by kind from the runs `used`.

    Kinds with few groups are at least as uncertain as all together, and each kind allows for one group more than it
    has; a stranger is no surer than the source itself.
    """
    spread = weighted_quantile(np.abs(data.residual[used]), data.weight[used], COVERAGE)
    found = {}
    for kind in sorted(set(data.kind.tolist())):
        mine = used & (data.kind == kind)
        groups = float(data.weight[mine].sum())
        if groups < 1.0:
            found[kind] = (0.0, spread, spread)
            continue
        centre = weighted_quantile(data.residual[mine], data.weight[mine], 0.5)
        share = groups / (groups + SHRINK)
        middle = share * centre
        level = min(1.0, COVERAGE * (groups + 1.0) / groups)
        width, strange = (
            weighted_quantile(np.abs(residual[mine] - middle), data.weight[mine], level)
            for residual in (data.residual, data.unseen)
        )
        width = max(width, spread) if groups < FEW_GROUPS else width
        found[kind] = (middle, width, max(width, strange))
    return found


def evaluate_runs() -> list[RunScore]:
    """The table: each source (or group) judged by factors and intervals of the others."""
    data = judged()
    error, inside, width, strange, inside_strange, width_strange, paid_inside = np.zeros((7, len(data.residual)))
    for one in sorted(set(data.apart.tolist())):
        out = data.apart == one
        known = fitted(data, ~out)
        for i in np.flatnonzero(out):
            middle, half, wide = known[data.kind[i]]
            error[i], strange[i] = data.residual[i] - middle, data.unseen[i] - middle
            inside[i], width[i] = abs(error[i]) <= half, half
            inside_strange[i], width_strange[i] = abs(strange[i]) <= wide, wide
            paid_inside[i] = abs(data.dollars[i] - middle) <= half + data.rounding[i]
    kinds = [*sorted(set(data.kind.tolist())), "all"]
    known_of, strange_of = (error, inside, width), (strange, inside_strange, width_strange)
    return [_score(data, kind, known_of, strange_of, paid_inside) for kind in kinds]


def _score(
    data: Judged,
    kind: str,
    known: tuple[Floats, Floats, Floats],
    strange: tuple[Floats, Floats, Floats],
    paid_inside: Floats,
) -> RunScore:
    """One line; `known` and `strange` are (error, inside, half-width) of every run."""
    mine = np.ones(len(paid_inside), bool) if kind == "all" else data.kind == kind
    paid = mine & np.isfinite(data.dollars)
    weight = data.weight[mine]

    def figures(error: Floats, inside: Floats, width: Floats) -> tuple[float, float, float, float]:
        off = np.abs(np.expm1(-error[mine]))
        return (
            round(100 * weighted_quantile(off, weight, 0.5), 1),
            round(100 * weighted_quantile(off, weight, 0.9), 1),
            round(100 * float(np.average(inside[mine], weights=weight)), 1),
            round(float(np.exp(np.median(width[mine]))), 2),
        )

    median, p90, coverage, width = figures(*known)
    unseen_median, unseen_p90, unseen_coverage, unseen_width = figures(*strange)
    return RunScore(
        kind=kind,
        runs=int(mine.sum()),
        groups=round(float(weight.sum())),
        median=median,
        p90=p90,
        coverage=coverage,
        width=width,
        unseen_median=unseen_median,
        unseen_p90=unseen_p90,
        unseen_coverage=unseen_coverage,
        unseen_width=unseen_width,
        dollar_runs=int(paid.sum()),
        dollar_coverage=round(100 * float(np.average(paid_inside[paid], weights=data.weight[paid])), 1)
        if paid.any()
        else None,
    )


def kinds_csv() -> str:
    """`data/run_kinds.csv` as the present predictions ask for it."""
    data = judged()
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(["kind", "factor", "half_width", "half_width_unseen", "groups", "source"])
    for kind, (middle, half, wide) in fitted(data, np.ones(len(data.residual), bool)).items():
        groups = round(float(data.weight[data.kind == kind].sum()))
        note = "published runs of benchmarks_db/data/runs, by estimator benchmarks fit --runs"
        writer.writerow([kind, f"{math.exp(middle):.4g}", f"{half:.4g}", f"{wide:.4g}", groups, note])
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
            "unseen_source_median_error_percent": s.unseen_median,
            "unseen_source_p90_error_percent": s.unseen_p90,
            "unseen_source_interval_holds_percent": s.unseen_coverage,
            "unseen_source_interval_factor": s.unseen_width,
            "dollar_runs": s.dollar_runs,
            "dollar_interval_holds_percent": s.dollar_coverage,
        }
        for s in scores
    ]
