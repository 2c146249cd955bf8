"""How long does each whole run of a table take, and what does it cost? `estimator predict RUNS.csv --runs`.

Only what a planner knows beforehand is read (`READS`): never the row's own hours, dollars or utilisation. A run is its
training steps (data over predicted throughput) times a factor for what stands between them, by kind of run; factor and
interval come from published runs (`data/run_kinds.csv`, written by `estimator benchmarks fit --runs`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from benchmarks_db.errors import EstimatorError
from estimator.performance.intervals import KINDS
from estimator.rows.arrays import prepare
from estimator.rows.cells import figure, gpus_of, refuse_unreadable
from estimator.rows.headers import as_asked
from estimator.rows.predict import predicted
from estimator.rows.run_amounts import amount_of, folded
from estimator.rows.run_assumptions import assumptions
from estimator.rows.run_kinds import kind_of, overhead
from estimator.rows.run_steps import GPUS_WHERE_UNSTATED, READS, anonymous, filled, loader_rate, step_row
from estimator.terms import EvidenceKind

ADDED = (
    "predicted_hours_p10", "predicted_hours_p50", "predicted_hours_p90", "predicted_gpu_hours_p50",
    "predicted_cost_usd_p10", "predicted_cost_usd_p50", "predicted_cost_usd_p90", "assumed", "error",
)  # fmt: skip

AMOUNTS = ("active_params_m", "tokens_b", "samples_m", "epochs")
NEAR = (EvidenceKind.OWN, EvidenceKind.GROUP)


def predict_runs(rows: Sequence[Mapping[str, str]], *, known_sources: bool = True) -> list[dict[str, str]]:
    """Predict each run; a row that cannot be predicted gets an `error`, the others go on.

    Without `known_sources` nothing that the same source measured counts as evidence: how it would be for a stranger.
    """
    out = [{**{str(k): str(v or "") for k, v in row.items()}, **dict.fromkeys(ADDED, "")} for row in rows]
    asked = [{name: cell.strip() for name, cell in row.items()} for row in as_asked(rows, READS)]
    amounts: list[tuple[float, str]] = []
    steps: list[Mapping[str, str]] = []
    for row, answer in zip(asked, out, strict=True):
        try:
            refuse_unreadable(row, AMOUNTS)
            amount, unit = amount_of(row)
            row["tokens_b"] = row["tokens_b"] or (f"{amount * 1e-9:.15g}" if unit == "tokens/s" else "")
            row["gpus"] = _number(gpus_of(row))
        except EstimatorError as untold:
            answer["error"] = str(untold)
            amount, unit = math.nan, "samples/s"
        amounts.append((amount, unit))
        steps.append(step_row(row, unit) if known_sources else anonymous(step_row(row, unit)))
    steps = filled(steps)
    prepared = prepare(steps)
    for answer, error in zip(out, prepared.errors, strict=True):
        answer["error"] = answer["error"] or error
    if not len(prepared.index):
        return out
    rate, _half, evidence, _bound = predicted(prepared)
    decode = np.asarray(prepared.work.decode_ms, float)
    for j, i in enumerate(prepared.index):
        row, answer, (amount, _unit) = asked[i], out[i], amounts[i]
        if answer["error"]:
            continue
        if not (np.isfinite(rate[j]) and rate[j] > 0):
            answer["error"] = "the prediction is not a finite number: check batch, sequence length and GPU count"
            continue
        over = overhead(kind_of(row))
        seconds = amount / min(float(rate[j]), loader_rate(prepared.rows[j], float(decode[j])))
        batch_told = bool(row["micro_batch"]) or not kind_of(row).startswith("fine-tuning")
        near = KINDS[int(evidence[j])] in NEAR and batch_told
        half = over.half_width if near else over.half_width_unseen
        answer |= _answer(row, seconds / 3600.0 * over.factor, math.exp(half))
        answer["assumed"] = assumptions(row, steps[i], prepared, j)
    return out


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.15g}"


def dollars_an_hour(row: Mapping[str, str], gpus: float) -> float | None:
    """Of the whole job: stated in `price_basis`, else on-demand of `cloud_instance` in the shipped snapshot."""
    basis = row["price_basis"]
    per_gpu = re.search(r"\$\s*(\d[\d,]*\.?\d*)\s*(?:per|/|an?)\s*gpu[\s-]*(?:h\b|hour|hr)", basis, re.IGNORECASE)
    if per_gpu:
        return float(per_gpu[1].replace(",", "")) * gpus
    hourly = re.search(r"\$\s*(\d[\d,]*\.?\d*)\s*(?:per|/|an)\s*(?:h\b|hour|hr)", basis, re.IGNORECASE)
    if hourly:
        return float(hourly[1].replace(",", ""))
    return _instance_price(row["cloud_instance"], gpus) if row["cloud_instance"] else None


def _answer(row: Mapping[str, str], middle: float, spread: float) -> dict[str, str]:
    stated = figure(row, "gpus")
    gpus = stated if stated > 0 else GPUS_WHERE_UNSTATED
    answer = {"predicted_gpu_hours_p50": f"{middle * gpus:.6g}"}
    if stated > 0:
        hours = {"p10": middle / spread, "p50": middle, "p90": middle * spread}
        answer |= {f"predicted_hours_{name}": f"{value:.6g}" for name, value in hours.items()}
    rate = dollars_an_hour(row, gpus)
    if rate is not None:
        cost = {"p10": middle / spread * rate, "p50": middle * rate, "p90": middle * spread * rate}
        answer |= {f"predicted_cost_usd_{name}": f"{value:.6g}" for name, value in cost.items()}
    return answer


@cache
def _on_demand() -> dict[str, tuple[float, float]]:
    """Lowest on-demand price of one instance in the shipped snapshot, and its GPUs, by folded instance type.

    A price that is too old to be ranked counts only where the type has no other: old runs name retired machines.
    """
    from pricing.snapshot import snapshot_table

    table = snapshot_table()
    asked = table.where("market", lambda market: market == "on-demand") & ~np.isnan(table.usd_per_hour)
    best: dict[str, tuple[bool, float, float]] = {}
    chosen = table.select(asked)
    columns = (chosen.instance_type, ~chosen.ranked, chosen.usd_per_hour, chosen.gpus_per_node)
    for name, old, price, gpus in zip(*columns, strict=True):
        offer = (bool(old), float(price), float(gpus))
        key = folded(name)
        best[key] = min(best.get(key, offer), offer)
    return {key: (price, gpus) for key, (_, price, gpus) in best.items()}


def _instance_price(text: str, gpus: float) -> float | None:
    """Dollars an hour of enough instances for `gpus`; the text may say how many (`8 x p3.16xlarge`)."""
    for part in re.split(r"[\s(),;]+|\bx\b", text):
        found = _on_demand().get(folded(part)) if part else None
        if found and found[1] > 0:
            return found[0] * max(1.0, math.ceil(gpus / found[1] - 1e-9))
    return None
