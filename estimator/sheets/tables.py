"""What do plans, estimates and offers look like as CSV tables with stable columns and a unit in every header?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from estimator.documents import EstimateDocument, PlanDocument
from estimator.flat import ESTIMATE_CSV, PLAN_CSV, flat_entry
from estimator.sheets.safety import csv_lines
from estimator.sheets.values import written
from pricing.offers import Offer

OFFER_COLUMNS = (
    "cloud", "region", "zone", "zone_id", "instance_type", "market", "gpu", "gpus_per_node", "price_usd_per_hour",
    "source", "observed_at", "state",
)  # fmt: skip


def plan_csv(document: PlanDocument, *, bom: bool = False) -> str:
    """The plans, one a line; the header alone where there is none."""
    return "".join(table(PLAN_CSV, (flat_entry(e.model_dump(mode="json")) for e in document.plans), bom=bom))


def estimate_csv(document: EstimateDocument, *, bom: bool = False) -> str:
    """The estimates in the order asked; hardware that was refused is a line with its name and the reason."""
    rows = [flat_entry(e.model_dump(mode="json")) for e in document.estimates]
    refused = [{"gpu": gpu, "error": reason} for gpu, reason in document.rejected.items()]
    return "".join(table((*ESTIMATE_CSV, "error"), [*rows, *refused], bom=bom))


def offer_lines(offers: Iterable[Offer], *, bom: bool = False) -> Iterator[str]:
    """Offers, line by line."""
    return table(OFFER_COLUMNS, (offer.document() for offer in offers), bom=bom)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, bom: bool = False) -> Iterator[str]:
    """CSV lines of rows under fixed columns."""
    yield from csv_lines([columns], bom=bom)
    yield from csv_lines([cell(row.get(name)) for name in columns] for row in rows)


def cell(value: object) -> str:
    """A value as a cell of a table: dates keep their time, lists become `a; b`, unknown is empty."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    return written(value) if isinstance(value, float | int | None) else str(value)
