"""Which prices does this server plan with? What its store has fetched, else the shipped snapshot.

Prices that were read are used for a few seconds, so that not every request reads them again. While the database does
not answer, those read last go on being used, marked as such, for a few minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from api import metrics
from api.known import Known
from api.records import offer_key
from api.settings import Settings
from benchmarks_db.errors import PricesUnavailable
from estimator.cli.settings import overrides_file
from estimator.request.fields import Accelerators
from estimator.sheets.answers import Market, market_at
from pricing.market import Freshness, Offer
from pricing.market import Market as Kind
from pricing.offers import OfferTable, current_offers, listed, usable
from pricing.sources.overrides import Overrides
from pricing.store import Store

if TYPE_CHECKING:
    from estimator.request.workload import Workload
    from pricing.spot_history import SpotHistory
    from pricing.store_queries import Current

LOOK_SHARE = 10.0  # reading a large store takes long: at most a tenth of the time is spent on it
EARLIER, LATER = (
    60.0,
    900.0,
)  # seconds: offers looked at so long before or after a request began are those of its moment


class Prices:
    """The market as one server sees it; safe to ask from several threads."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._store = Store(settings.store_url)
        self._freshness = Freshness(settings.fresh_on_demand_hours, settings.fresh_spot_hours)
        self._overrides = _overrides(settings)
        self._known = Known(self._store, settings, clock)
        self._looking = Lock()
        self._markets: dict[Accelerators, tuple[float, datetime, Market]] = {}  # until when it counts as recent

        self._listed: dict[tuple[Accelerators, bool], tuple[str, list[Offer]]] = {}

    @property
    def store(self) -> Store | None:
        """Where fetched prices live; None while nothing has been fetched."""
        return self._store if self._store.exists() else None

    @property
    def silent_since(self) -> datetime | None:
        """Since when the database has not answered; None while it does."""
        return self._known.silent_since

    def market(self, now: datetime, accelerators: Accelerators = Accelerators.GPU) -> Market:
        """The offers of this moment, aged to it, and the name of their state.

        Raises PricesUnavailable when all are older than the settings allow, StoreError without a database.
        """
        seen, recent = self._seen(now, accelerators)
        metrics.looked_up("prices", recent)
        if seen is not None and recent:
            return seen
        if not self._looking.acquire(blocking=seen is None):
            assert seen is not None
            return seen  # somebody looks already: what was seen a moment ago will do meanwhile
        try:
            seen, recent = self._seen(now, accelerators)
            if seen is not None and recent:
                return seen
            began = self._clock()
            self._known.measured(now)  # what is wrong with them is said with the offers
            market = market_at(self._offers(now, accelerators, self._known.current(now)), now)
            ended = self._clock()
            until = ended + max(self._settings.look_again_seconds, LOOK_SHARE * (ended - began))
            self._markets[accelerators] = (until, now, market)
            return market
        finally:
            self._looking.release()

    def recent(self, now: datetime, accelerators: Accelerators = Accelerators.GPU) -> Market | None:
        """The market if it need not be looked at again: what the event loop may ask."""
        seen, recent = self._seen(now, accelerators)
        if recent:
            metrics.looked_up("prices", True)
        return seen if recent else None

    def _seen(self, now: datetime, accelerators: Accelerators) -> tuple[Market | None, bool]:
        """The market as last looked at, if that was about now, and whether it need not be looked at again."""
        until, moment, market = self._markets.get(accelerators, (0.0, now, None))
        if not -LATER <= (now - moment).total_seconds() <= EARLIER:
            return None, False
        return market, self._clock() < until

    def table(
        self, now: datetime, accelerators: Accelerators = Accelerators.GPU, as_of: datetime | None = None
    ) -> OfferTable:
        """The offers of this moment, for a plan; with `as_of` the offers as they were known then."""
        if as_of is None:
            return self.market(now, accelerators).offers
        return self._offers(now, accelerators, self.store, as_of)

    def _offers(
        self, now: datetime, kinds: Accelerators, fetched: Store | Current | None, as_of: datetime | None = None
    ) -> OfferTable:
        table = current_offers(
            now=now,
            store=fetched,  # type: ignore[arg-type]  # what was read has no past, and is not asked for it
            max_age_hours=self._settings.max_price_age_hours,
            offline=self._settings.offline,
            accelerators=kinds.value,
            freshness=self._freshness,
            as_of=as_of,
            overrides=self._overrides,
        )
        return self._known.marked(table)

    def listed(
        self, now: datetime, accelerators: Accelerators, *, every: bool, as_of: datetime | None = None
    ) -> list[Offer]:
        """The offers of a listing: priced ones of known GPUs; with `every` the unpriced and the unknown ones too."""
        return listed(self.table(now, accelerators, as_of), every=every)

    def sorted_offers(
        self, now: datetime, accelerators: Accelerators, *, every: bool, as_of: datetime | None = None
    ) -> list[Offer]:
        """The offers of a listing in the order of its pages, worked out once for each state of the prices."""
        if as_of is not None:
            return sorted(self.listed(now, accelerators, every=every, as_of=as_of), key=offer_key)
        market = self.market(now, accelerators)
        state, found = self._listed.get((accelerators, every), ("", []))
        if state != market.state:
            found = sorted(listed(market.offers, every=every), key=offer_key)
            self._listed[accelerators, every] = (market.state, found)
        return found

    def usable(self, now: datetime) -> int:
        """How many offers a plan could rank; PricesUnavailable where there is none."""
        count = usable(self.table(now))
        if not count:
            raise PricesUnavailable(
                "no price that could be used", field="offers", nearest=("estimator prices refresh",)
            )
        return count

    def history(self, now: datetime) -> SpotHistory | None:
        """How spot prices moved, as far as the database knows; None without one."""
        return self._known.history(now)

    def history_for(self, asked: Workload, now: datetime) -> SpotHistory | None:
        """The same for estimates, which are of spot machines only where the request says so."""
        return self.history(now) if Kind.SPOT in (asked.constraints.markets or ()) else None

    def measured(self, now: datetime) -> list[dict[str, str]]:
        """What `benchmarks add` has kept, on this computer and in the shared database."""
        return self._known.measured(now)


def _overrides(settings: Settings) -> Overrides | None:
    """Negotiated prices, read once at the start; WorkloadError names the line that cannot be used."""
    path = overrides_file(str(settings.overrides or ""), settings.folder)
    if path is None:
        return None
    from pricing.sources.overrides_file import read_overrides

    return read_overrides(path)
