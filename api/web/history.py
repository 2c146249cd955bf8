"""How did the price of an offer move? The observed steps of the last months, where the server has fetched prices."""

from __future__ import annotations

from datetime import datetime

from api.web.drawings import Steps, steps
from benchmarks_db.errors import EstimatorError
from estimator.documents import PlanEntry
from pricing.store import Store

DAYS = 90.0


def of(store: Store | None, entry: PlanEntry, now: datetime) -> Steps | None:
    """The steps of the chosen offer; None where there are fewer than two observations, or no store."""
    if store is None or entry.region is None:
        return None
    from pricing.store_queries import price_history

    try:
        series = price_history(
            store,
            now=now,
            days=DAYS,
            instance_type=entry.instance_type,
            market=entry.market.value,
            clouds=[entry.cloud],
            where=lambda _cloud, region: region == entry.region,
        )
    except EstimatorError:  # a store that cannot be read is told by /readyz, not here
        return None
    same = [one for one in series if (one.zone, one.zone_id) == (entry.zone, entry.zone_id)] or series
    if not same or len(same[0].steps) < 2:
        return None
    return steps([(moment.timestamp(), usd) for moment, usd in same[0].steps], now.timestamp())
