"""In which market is a machine bought, how far can its price be relied on, and what is an offer?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from benchmarks_db.errors import WorkloadError


class Market(StrEnum):
    """How the machine is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    BLOCK = "block"  # prepaid capacity
    OWN = "own"


BOUGHT = (Market.ON_DEMAND, Market.SPOT, Market.RESERVED, Market.BLOCK)  # from a cloud


class PriceState(StrEnum):
    """How far a price can be relied on; `unpriced` has no price and is listed, never ranked."""

    LIVE = "live"
    STALE = "stale"
    SNAPSHOT = "snapshot"
    OWN = "own"
    UNPRICED = "unpriced"


@dataclass(frozen=True, slots=True)
class Freshness:
    """Age in hours up to which a fetched price counts as live, by market; beyond it is stale."""

    on_demand_hours: float = 7 * 24.0
    spot_hours: float = 1.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Freshness:
        """The limits of `ESTIMATOR_FRESH_SPOT_HOURS` and `ESTIMATOR_FRESH_ON_DEMAND_HOURS`, else 1 and 168."""
        found = cls()
        for name, variable in (
            ("spot_hours", "ESTIMATOR_FRESH_SPOT_HOURS"),
            ("on_demand_hours", "ESTIMATOR_FRESH_ON_DEMAND_HOURS"),
        ):
            if text := environ.get(variable, "").strip():
                try:
                    hours = float(text)
                except ValueError:
                    hours = math.nan
                if not hours > 0:
                    raise WorkloadError("must be hours above 0", field=variable, value=text)
                found = replace(found, **{name: hours})
        return found

    def limit_hours(self, market: str) -> float:
        """The limit for a market; reserved and block prices age like on-demand ones."""
        return self.spot_hours if market == Market.SPOT else self.on_demand_hours


@dataclass(frozen=True, slots=True)
class Offer:
    """An instance type in a region or zone, in a market, at a price (USD per hour for one whole instance).

    `price_usd_per_hour` is None when nobody knows it (`state` is then `unpriced`); 0 is legal on own machines only.
    `region` is None where no region is known to sell the type. `observed_at` is when a source last stated the price.
    `ranked` is False for what is listed and must not be planned with; `note` says why, or why the price is stale.
    `list_price_usd_per_hour` is what the cloud asks of everybody, where this customer pays otherwise. `term_hours` is
    how long a commitment runs (`reserved`) or the fixed time that is paid up front (`block`); used for more than
    `break_even_hours` of it, the offer is cheaper than the same machine on demand.
    """

    cloud: str
    region: str | None
    zone: str | None
    zone_id: str | None
    instance_type: str
    market: Market
    gpu: str | None
    gpus_per_node: float | None
    price_usd_per_hour: float | None
    source: str
    observed_at: datetime | None
    state: PriceState
    ranked: bool = True
    note: str = ""
    list_price_usd_per_hour: float | None = None
    term_hours: float | None = None
    break_even_hours: float | None = None

    @property
    def upfront_usd(self) -> float | None:
        """What one instance of a prepaid block costs before it starts; None for what is paid as it is used."""
        if self.market is not Market.BLOCK or self.price_usd_per_hour is None or self.term_hours is None:
            return None
        return self.price_usd_per_hour * self.term_hours

    def document(self) -> dict[str, object]:
        """The offer as CONTRACT.md prints it (JSON types only, UTC times ending in Z)."""
        return {
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "zone_id": self.zone_id,
            "instance_type": self.instance_type,
            "market": self.market.value,
            "gpu": self.gpu,
            "gpus_per_node": self.gpus_per_node,
            "price_usd_per_hour": self.price_usd_per_hour,
            "source": self.source,
            "observed_at": iso(self.observed_at),
            "state": self.state.value,
            "ranked": self.ranked,
            "note": self.note or None,
            "list_price_usd_per_hour": self.list_price_usd_per_hour,
            "term_hours": self.term_hours,
            "break_even_hours": self.break_even_hours,
            "upfront_usd": self.upfront_usd,
        }


def iso(moment: datetime | None) -> str | None:
    """UTC text to the second.

    >>> iso(datetime(2026, 7, 16, tzinfo=UTC))
    '2026-07-16T00:00:00Z'
    """
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
