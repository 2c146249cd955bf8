"""Was the same asked a moment ago? Plans kept while nothing that they rest on has changed; ages are counted anew.

A plan rests on the request, the offers, how spot prices moved, and a team's measurements. Where all four are the same
the plan is the same but for the age of its prices, which is counted at each answer.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from threading import Lock
from typing import Any

from api import metrics
from api.market import Prices
from estimator.documents import PlanDocument
from estimator.planning.planner import plan
from estimator.planning.step_times import StepTimes
from estimator.planning.steps import Told
from estimator.request.workload import Workload
from estimator.sheets.answers import Market
from pricing.market import Market as Kind
from pricing.market import PriceState

MOST_PLANS = 4000  # in all kept documents together; one has some 3 kB
EXPLAINED_SECONDS = 60.0  # longest reuse of an explanation, whose words round ages to days
Key = tuple[str, str, tuple[str, ...], date]


@dataclass(frozen=True)
class Basis:
    """What a plan rests on beside the request."""

    market: Market
    history: Any = field(repr=False)
    measured: list[dict[str, str]] = field(repr=False)

    def same(self, other: Basis) -> bool:
        """Whether plans on both are equal; what is read once in a while is compared as an object."""
        return self.history is other.history and (self.measured is other.measured or self.measured == other.measured)


class Plans:
    """Planning for requests, with a memory; safe to use from several threads."""

    def __init__(self, prices: Prices, clock: Callable[[], float] = time.monotonic) -> None:
        self._prices = prices
        self._clock = clock
        self.step_times = StepTimes()
        self._lock = Lock()
        self._held = 0
        self._kept: OrderedDict[Key, tuple[float, Basis, PlanDocument]] = OrderedDict()

    def basis(self, asked: Workload, now: datetime) -> Basis:
        """What a plan rests on now; may read the database."""
        market = self._prices.market(now, asked.constraints.accelerators)
        markets = asked.constraints.markets
        history = self._prices.history(now) if markets is None or Kind.SPOT in markets else None
        return Basis(market, history, self._prices.measured(now))

    def planned(self, asked: Workload, now: datetime, told: Told) -> PlanDocument:
        """The plan of a request, from memory where it is there."""
        basis = self.basis(asked, now)
        today = now.astimezone(UTC).date()  # negotiated prices begin and end, and warnings say how many days old
        key = (asked.model_dump_json(exclude_unset=True), basis.market.state, basis.market.offers.warnings, today)
        with self._lock:
            made, before, document = self._kept.get(key, (0.0, basis, None))
        timely = not asked.options.explain or self._clock() - made < EXPLAINED_SECONDS
        recent = document is not None and timely and before.same(basis)
        metrics.looked_up("plans", recent)
        if document is not None and recent:
            return aged(document, now)
        document = plan(
            asked,
            offers=basis.market.offers,
            now=now,
            measured=basis.measured,
            history=basis.history,
            told=told,
            step_times=self.step_times,
        )
        self._keep(key, basis, document)
        return document

    def _keep(self, key: Key, basis: Basis, document: PlanDocument) -> None:
        weight = 1 + len(document.plans)
        with self._lock:
            self._drop(key)
            self._kept[key] = (self._clock(), basis, document)
            self._held += weight
            while self._held > MOST_PLANS and self._kept:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._held -= 1 + len(kept[2].plans)


def aged(document: PlanDocument, now: datetime) -> PlanDocument:
    """The document with the ages of its prices counted to `now`."""
    plans = []
    for entry in document.plans:
        seen = now if entry.price.state is PriceState.OWN else entry.price.observed_at  # the customer says it now
        age = None if seen is None else max(0.0, (now - seen).total_seconds() / 3600.0)
        price = entry.price.model_copy(update={"observed_at": seen, "age_hours": age})
        plans.append(entry.model_copy(update={"price": price}))
    return document.model_copy(update={"plans": plans})
