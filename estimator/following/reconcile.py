"""What did runs really take against their plans, and what multiplier does a user's own history ask for?"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from benchmarks_db.errors import WorkloadError

# The history of a new user is nothing: a spread between projects of a factor 1.5 around 1 stands for it.
PRIOR_SIGMA = math.log(1.5)
RUN_SIGMA = math.log(1.3)  # what runs of one user differ by from each other
Z90 = 1.2815515655446004

COLUMNS = ("name", "recorded_at", "planned_hours", "actual_hours", "planned_usd", "actual_usd")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what its plan said (p50) and what happened; None = not known."""

    name: str
    recorded_at: str
    planned_hours: float | None
    actual_hours: float | None
    planned_usd: float | None
    actual_usd: float | None


class Multiplier(BaseModel):
    """Actual over planned for the next run, with an 80% interval; from `runs` runs."""

    model_config = ConfigDict(frozen=True)
    p10: float
    p50: float
    p90: float
    runs: int


class ReconcileDocument(BaseModel):
    """One run against its plan, and the user's multipliers with it."""

    model_config = ConfigDict(frozen=True)
    version: Literal["1"] = "1"
    currency: Literal["USD"] = "USD"
    planned_hours: float | None
    actual_hours: float | None
    hours_ratio: float | None
    hours_within: bool | None = Field(description="inside the plan's 80% interval")
    planned_usd: float | None
    actual_usd: float | None
    usd_ratio: float | None
    usd_within: bool | None
    hours_multiplier: Multiplier
    usd_multiplier: Multiplier


def multiplier(ratios: Sequence[float]) -> Multiplier:
    """Shrunken geometric mean of actual over planned, and where the next run will fall.

    Normal in logs: prior N(0, `PRIOR_SIGMA`^2) for the user, `RUN_SIGMA` between runs. No history: 1 and the prior.

    >>> multiplier([]).p50, round(multiplier([1.5, 1.5, 1.5]).p50, 2)
    (1.0, 1.43)
    """
    logs = [math.log(ratio) for ratio in ratios if ratio > 0]
    precision = 1.0 / PRIOR_SIGMA**2 + len(logs) / RUN_SIGMA**2
    mean = sum(logs) / RUN_SIGMA**2 / precision
    sigma = math.sqrt(1.0 / precision + RUN_SIGMA**2)
    return Multiplier(
        p10=math.exp(mean - Z90 * sigma), p50=math.exp(mean), p90=math.exp(mean + Z90 * sigma), runs=len(logs)
    )


def reconciled(
    outcome: Outcome,
    history: Iterable[Outcome],
    *,
    hours_interval: tuple[float, float] | None = None,
    usd_interval: tuple[float, float] | None = None,
) -> ReconcileDocument:
    """`outcome` beside its plan, and the multipliers of the whole history with it."""
    runs = [*history, outcome]
    return ReconcileDocument(
        planned_hours=outcome.planned_hours,
        actual_hours=outcome.actual_hours,
        hours_ratio=_ratio(outcome.actual_hours, outcome.planned_hours),
        hours_within=_within(outcome.actual_hours, hours_interval),
        planned_usd=outcome.planned_usd,
        actual_usd=outcome.actual_usd,
        usd_ratio=_ratio(outcome.actual_usd, outcome.planned_usd),
        usd_within=_within(outcome.actual_usd, usd_interval),
        hours_multiplier=multiplier([r for run in runs if (r := _ratio(run.actual_hours, run.planned_hours))]),
        usd_multiplier=multiplier([r for run in runs if (r := _ratio(run.actual_usd, run.planned_usd))]),
    )


def focus_cost(text: str, *, wanted: Mapping[str, str], name: str = "the export") -> tuple[float, float | None]:
    """(dollars, instance hours or None) of the rows of a FOCUS cost export that match `wanted`.

    A key is a FOCUS column (wildcards allowed) or `tag.NAME`. Dollars are EffectiveCost, else BilledCost; hours are the
    ConsumedQuantity of usage rows counted in hours. Rows in another currency than USD are refused.
    """
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline=""))
    columns = reader.fieldnames or []
    money = next((column for column in ("EffectiveCost", "BilledCost") if column in columns), None)
    if money is None:
        raise WorkloadError(f"{name} has neither EffectiveCost nor BilledCost: not a FOCUS export", field="--focus")
    for key in wanted:
        if not key.startswith("tag.") and key not in columns:
            raise WorkloadError(f"{name} has no column {key!r}", field="--match", value=key, nearest=tuple(columns[:5]))
    dollars, hours, matched = 0.0, 0.0, 0
    for number, row in enumerate(reader, start=2):
        if not all(_matches(row, key, pattern) for key, pattern in wanted.items()):
            continue
        currency = (row.get("BillingCurrency") or "USD").upper()
        if currency != "USD":
            raise WorkloadError(f"{name} line {number} is in {currency}; only US dollars are known", field="--focus")
        matched += 1
        dollars += _figure(row.get(money), name, number, money)
        if (row.get("ConsumedUnit") or "").strip().casefold() in ("hour", "hours", "hrs", "h"):
            hours += _figure(row.get("ConsumedQuantity"), name, number, "ConsumedQuantity")
    if not matched:
        raise WorkloadError(f"no row of {name} matches", field="--match", value=", ".join(wanted) or None)
    return dollars, hours or None


def _matches(row: Mapping[str, str], key: str, pattern: str) -> bool:
    if not key.startswith("tag."):
        return fnmatchcase((row.get(key) or "").casefold(), pattern.casefold())
    try:
        tags = json.loads(row.get("Tags") or "{}")
    except json.JSONDecodeError:
        return False
    value = tags.get(key.removeprefix("tag.")) if isinstance(tags, dict) else None
    return value is not None and fnmatchcase(str(value).casefold(), pattern.casefold())


def _figure(text: str | None, name: str, line: int, column: str) -> float:
    try:
        number = float(text or 0.0)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise WorkloadError(f"{name} line {line}: {column} is not a number", field="--focus", value=text)
    return number


def _ratio(actual: float | None, planned: float | None) -> float | None:
    return None if not actual or not planned or actual <= 0 or planned <= 0 else actual / planned


def _within(actual: float | None, interval: tuple[float, float] | None) -> bool | None:
    return None if actual is None or interval is None else interval[0] <= actual <= interval[1]
