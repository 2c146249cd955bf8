"""Which figures of a plan can stand in a cell, under which name, and how is each written?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from estimator.documents import EstimateEntry, PlanEntry

Value: TypeAlias = str | float | int | datetime | None

CELL_VALUES = (
    "cost_usd", "cost_usd_p10", "cost_usd_p50", "cost_usd_p90", "hours", "hours_p10", "hours_p50", "hours_p90",
    "gpu_hours", "throughput", "memory_gib", "fits", "cloud", "region", "instance_type", "market", "gpu", "gpus",
    "nodes", "usd_per_hour", "price_age_hours", "price_date", "price_source", "price_state", "evidence", "bound_by",
    "mfu",
)  # fmt: skip
"""What `value` of a cell may be; `cost_usd` and `hours` are the medians."""

SHEET_VALUES: Mapping[str, str] = {
    "cost_usd_p50": "cost_usd", "cost_usd_p10": "cost_usd_p10", "cost_usd_p90": "cost_usd_p90", "hours_p50": "hours",
    "gpu_hours": "gpu_hours", "fits": "fits", "memory_gib": "memory_gib", "plan_cloud": "cloud",
    "plan_region": "region", "plan_instance": "instance_type", "plan_market": "market", "usd_per_hour": "usd_per_hour",
    "price_date": "price_date", "price_source": "price_source", "evidence": "evidence",
}  # fmt: skip
"""Result columns of a filled sheet, in order, with the value each holds; `error` stands behind them."""


def values_of(entry: EstimateEntry) -> dict[str, Value]:
    """The figures of a plan (or of an estimate, which has no place) by the names of `CELL_VALUES`."""
    cost, price = entry.cost_usd, entry.price
    placed = entry if isinstance(entry, PlanEntry) else None
    return {
        "cost_usd": cost.p50 if cost else None,
        "cost_usd_p10": cost.p10 if cost else None,
        "cost_usd_p50": cost.p50 if cost else None,
        "cost_usd_p90": cost.p90 if cost else None,
        "hours": entry.hours.p50,
        "hours_p10": entry.hours.p10,
        "hours_p50": entry.hours.p50,
        "hours_p90": entry.hours.p90,
        "gpu_hours": entry.gpu_hours,
        "throughput": entry.throughput.value,
        "memory_gib": entry.memory_gib.used,
        "fits": entry.memory_gib.verdict.value,
        "cloud": placed.cloud if placed else None,
        "region": placed.region if placed else None,
        "instance_type": placed.instance_type if placed else None,
        "market": placed.market.value if placed else None,
        "gpu": entry.gpu,
        "gpus": entry.gpus,
        "nodes": entry.nodes,
        "usd_per_hour": price.usd_per_hour,
        "price_age_hours": price.age_hours,
        "price_date": price.observed_at,
        "price_source": price.source,
        "price_state": price.state.value,
        "evidence": entry.evidence.kind.value,
        "bound_by": entry.bound_by.value,
        "mfu": entry.mfu,
    }


def written(value: Value) -> str:
    """A value as a bare cell: dot decimal, no separators, no exponent, ISO dates; unknown is empty.

    >>> written(1e-05), written(8.0), written(None)
    ('0.00001', '8', '')
    """
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else format(Decimal(repr(value)), "f")
    return str(value)
