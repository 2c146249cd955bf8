"""Fetched sets made up for tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from pricing.offers import Market
from pricing.sources.base import Observation, PriceSet, Rejection

NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)


def hours(count: float) -> datetime:
    """So many hours after NOW."""
    return NOW + timedelta(hours=count)


def price_set(
    prices: Mapping[str, float | str | Decimal],
    *,
    market: Market = Market.ON_DEMAND,
    at: datetime = NOW,
    cloud: str = "aws",
    region: str = "us-east-1",
    source: str = "aws:test",
    rejected: tuple[Rejection, ...] = (),
    silent_zones: tuple[str, ...] = (),
) -> PriceSet:
    """A set of prices by `type` or `type@zone`."""
    seen = []
    for name, usd in prices.items():
        kind, _, zone = name.partition("@")
        price = usd if isinstance(usd, Decimal) else Decimal(str(usd))
        seen.append(Observation(cloud, region, kind, market, price, zone=zone or None))
    return PriceSet(cloud, region, market, source, at, tuple(seen), rejected, silent_zones)


def observation(name: str, usd: object, *, market: Market = Market.ON_DEMAND, **more: object) -> Observation:
    """One observation in us-east-1 of aws, its price as it is."""
    return Observation("aws", "us-east-1", name, market, usd, **more)  # type: ignore[arg-type]


def rejection(reason: str, name: str | None = None, zone: str | None = None) -> Rejection:
    """One row that a source could not read."""
    return Rejection("aws", "us-east-1", Market.ON_DEMAND, reason, name, zone)
