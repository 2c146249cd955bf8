"""How often are spot machines taken back? Published statistics as bounds, each in its cloud's own measure.

AWS Spot Advisor states, per region and instance type, a bucket: the share of instances that were reclaimed in the
trailing month (under 5 %, 5 to 10, 10 to 15, 15 to 20, above 20 %). A share of a month says nothing of when within
it; whoever needs a rate must make its own assumption and say so. Azure states a band of percent *per hour* over the
trailing 28 days, to those who may ask (`pricing.sources.azure_evictions`); none is shipped. For GCP no public
statistic exists: unknown stays None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pricing.offers import Floats, OfferTable

DATA = Path(__file__).parent / "data"
Key = tuple[str, str, str]  # cloud, region, instance type


@dataclass(frozen=True, slots=True)
class InterruptionFact:
    """How often spot machines of a type were taken back in a region, as the cloud publishes it.

    `low_pct` and `high_pct` bound percent of instances per `period`: "month" is the share reclaimed in the trailing
    month (AWS Spot Advisor), never a rate per hour; "hour" is such a rate (Azure). `high_pct` None means "above
    `low_pct`". `savings_pct` is against the on-demand price of its day.
    """

    cloud: str
    region: str
    instance_type: str
    low_pct: float
    high_pct: float | None
    savings_pct: float | None
    observed_at: datetime
    source: str

    @property
    def period(self) -> str:
        """What the percents are of: "hour" or "month", as the cloud defines its figures."""
        return "hour" if self.cloud == "azure" else "month"

    @property
    def label(self) -> str:
        """The bucket as the cloud words it: `<5%`, `10-15%`, `>20%`."""
        if self.high_pct is None:
            return f">{self.low_pct:g}%"
        return f"<{self.high_pct:g}%" if self.low_pct == 0 else f"{self.low_pct:g}-{self.high_pct:g}%"


@lru_cache(maxsize=1)
def shipped_interruptions() -> Mapping[Key, InterruptionFact]:
    """The shipped statistics by (cloud, region, instance type)."""
    import csv

    found = {}
    with (DATA / "spot_advisor_aws.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["cloud"], row["region"], row["instance_type"]] = InterruptionFact(
                cloud=row["cloud"],
                region=row["region"],
                instance_type=row["instance_type"],
                low_pct=float(row["reclaimed_low_pct"]),
                high_pct=float(row["reclaimed_high_pct"]) if row["reclaimed_high_pct"] else None,
                savings_pct=float(row["savings_pct"]) if row["savings_pct"] else None,
                observed_at=datetime.fromisoformat(row["observed_at"]),
                source=row["source"],
            )
    return MappingProxyType(found)


def interruption(
    cloud: str, region: str, instance_type: str, *, fetched: Mapping[Key, InterruptionFact] | None = None
) -> InterruptionFact | None:
    """What is published about a spot machine, None where nothing is; fetched facts win over shipped ones.

    >>> interruption("aws", "af-south-1", "g4dn.12xlarge").label
    '<5%'
    """
    key = (cloud, region, instance_type)
    return (fetched or {}).get(key) or shipped_interruptions().get(key)


def reclaimed_shares(table: OfferTable, *, fetched: Iterable[InterruptionFact] = ()) -> tuple[Floats, Floats]:
    """Bounds of the monthly reclaimed share (fractions 0..1) for each offer: (low, high), arrays of length N.

    nan in both where nothing is published or the offer is not spot; high is nan alone where the bucket is open.
    Facts that came with the table's prices win over shipped ones, `fetched` over both.
    """
    facts = {**shipped_interruptions(), **table.reclaims, **{(f.cloud, f.region, f.instance_type): f for f in fetched}}
    return _bounds(table, facts, "month")


def eviction_rates(table: OfferTable) -> tuple[Floats, Floats]:
    """Bounds of the share of spot machines taken back per hour (fractions 0..1), where a cloud states that: Azure.

    (low, high), arrays of length N; nan as in `reclaimed_shares`.
    """
    return _bounds(table, table.reclaims, "hour")


def _bounds(table: OfferTable, facts: Mapping[Key, InterruptionFact], period: str) -> tuple[Floats, Floats]:
    low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
    spot = np.flatnonzero(table.where("market", lambda market: market == "spot"))
    cloud, region, name = (table.column(column)[spot] for column in ("cloud", "region", "instance_type"))
    for row, key in zip(spot, zip(cloud, region, name, strict=True), strict=True):
        fact = facts.get(key)
        if fact and fact.period == period:
            low[row] = fact.low_pct / 100
            high[row] = np.nan if fact.high_pct is None else fact.high_pct / 100
    return low, high
