"""How did spot prices move? The stored steps of each machine in each zone, as plain arrays for whoever models them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pricing.store import Store

Floats = NDArray[np.float64]
Place = tuple[str, str, str, str]  # cloud, region, zone (name, else id, "" where the price is regional), instance type

DAYS = 90.0
KEYS = """SELECT k.id, s.cloud, s.region, k.zone, k.zone_id, k.instance_type, s.fetched_at
          FROM scopes s JOIN price_keys k ON k.scope_id = s.id
          WHERE s.market = 'spot' AND s.fetched_at IS NOT NULL"""
BEFORE = """SELECT k.id, p.seen_at, p.usd_per_hour
            FROM scopes s JOIN price_keys k ON k.scope_id = s.id JOIN prices p ON p.id = (
                SELECT q.id FROM prices q WHERE q.key_id = k.id AND q.seen_at < :start
                ORDER BY q.seen_at DESC, q.id DESC LIMIT 1)
            WHERE s.market = 'spot' AND p.usd_per_hour IS NOT NULL"""
STEPS = """SELECT p.key_id, p.seen_at, p.usd_per_hour
           FROM scopes s JOIN price_keys k ON k.scope_id = s.id JOIN prices p ON p.key_id = k.id
           WHERE s.market = 'spot' AND p.seen_at >= :start AND p.seen_at <= :now
           ORDER BY p.key_id, p.seen_at, p.id"""


@dataclass(frozen=True, slots=True)
class Steps:
    """One price through time: it was `usd_per_hour[i]` from `since[i]` on; the last one held until `until`.

    Seconds since 1970; USD an hour of one instance, nan while it was not offered. Shapes (k,), k >= 1.
    """

    since: Floats
    usd_per_hour: Floats
    until: float

    @property
    def hours(self) -> float:
        """How long it was watched."""
        return (self.until - float(self.since[0])) / 3600.0


SpotHistory = Mapping[Place, Steps]


def spot_history(store: Store, *, now: datetime, days: float = DAYS) -> dict[Place, Steps]:
    """What the store saw of spot prices in the last `days`, by place; fetches that found no change add no step.

    A price that held when the window begins is a step at its beginning, unless nobody has looked since.
    """
    start = (now - timedelta(days=days)).timestamp()
    with store.reading() as ask:
        rows, keys = [*ask(BEFORE, start=start), *ask(STEPS, start=start, now=now.timestamp())], ask(KEYS)
    if not rows:
        return {}
    table = np.array(rows, dtype=np.float64)  # what was not offered (NULL) becomes nan
    table = table[np.argsort(table[:, 0], kind="stable")]  # of each key the step before comes first
    table[:, 1] = np.maximum(table[:, 1], start)
    first = np.flatnonzero(np.diff(table[:, 0], prepend=np.nan) != 0)
    of_key = {int(table[at, 0]): (at, end) for at, end in zip(first, [*first[1:], len(table)], strict=True)}
    found: dict[Place, Steps] = {}
    for key, cloud, region, zone, zone_id, name, fetched in keys:
        if key in of_key and fetched >= start:
            at, end = of_key[key]
            since, usd = table[at:end, 1], table[at:end, 2]
            until = max(min(now.timestamp(), float(fetched)), float(since[-1]))
            found[cloud, region, zone or zone_id or "", name] = Steps(since, usd, until)
    return found
