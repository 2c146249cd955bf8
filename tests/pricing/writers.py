"""Processes that refresh a price database over and over, to be watched and killed by tests."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection

from pricing.offers import Market, OfferTable
from pricing.store import Store
from tests.pricing.sets import price_set

REGIONS = ("us-east-1", "eu-west-1", "ap-south-1")
TYPES = 40
STEP = 0.001  # USD: all prices of one fetch carry its number in their decimals


def numbered(number: int) -> dict[str, float]:
    """Prices of fetch `number` (below 1000)."""
    return {f"t{n}": round(10 + n + STEP * number, 3) for n in range(TYPES)}


def number_of(name: str, usd: float) -> int:
    """The fetch that a price came from."""
    return round((usd - 10 - int(name[1:])) / STEP)


def refresh_for_ever(url: str, first: int, told: Connection) -> None:
    """Switch every region to fetch after fetch, until killed; tells when the first one is in."""
    store = Store(url)
    for number in itertools.count(first):
        for region in REGIONS:
            fetched = price_set(numbered(number % 1000), region=region, market=Market.SPOT, at=datetime.now(UTC))
            store.switch(fetched)
        store.repack()
        if number == first:
            told.send(number)


def refresh_for(url: str, first: int, seconds: float) -> None:
    """The same for so many seconds."""
    store = Store(url)
    end = time.monotonic() + seconds
    number = first
    while time.monotonic() < end or number < first + 3:
        for region in REGIONS:
            store.switch(price_set(numbered(number % 1000), region=region, market=Market.SPOT, at=datetime.now(UTC)))
        store.repack()
        number += 1
    store.close()


def fetches_by_region(table: OfferTable) -> dict[str, set[int]]:
    """Which fetches the current prices of each region come from; raises when a region is not whole."""
    found: dict[str, set[int]] = {}
    count: dict[str, int] = {}
    for offer in table.offers():
        assert offer.price_usd_per_hour is not None
        region = offer.region or ""
        count[region] = count.get(region, 0) + 1
        found.setdefault(region, set()).add(number_of(offer.instance_type, offer.price_usd_per_hour))
    assert all(n == TYPES for n in count.values()), count
    return found
