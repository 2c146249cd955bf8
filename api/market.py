"""Which prices does this server plan with? What its store has fetched, else the shipped snapshot."""

from __future__ import annotations

from datetime import datetime

from api.settings import Settings
from benchmarks_db.errors import PricesUnavailable
from estimator.request.fields import Accelerators
from pricing.market import Freshness, Offer
from pricing.offers import OfferTable, current_offers, listed, usable
from pricing.store import Store


class Prices:
    """The market as one server sees it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.store_url)
        self._freshness = Freshness(settings.fresh_on_demand_hours, settings.fresh_spot_hours)

    @property
    def store(self) -> Store | None:
        """Where fetched prices live; None while nothing has been fetched."""
        return self._store if self._store.exists() else None

    def table(
        self, now: datetime, accelerators: Accelerators = Accelerators.GPU, as_of: datetime | None = None
    ) -> OfferTable:
        """The offers of this moment, for a plan; PricesUnavailable when all are older than the settings allow.

        With `as_of` the offers as they were known then.
        """
        return current_offers(
            now=now,
            store=self.store,
            max_age_hours=self._settings.max_price_age_hours,
            offline=self._settings.offline,
            accelerators=accelerators.value,
            freshness=self._freshness,
            as_of=as_of,
        )

    def listed(
        self, now: datetime, accelerators: Accelerators, *, every: bool, as_of: datetime | None = None
    ) -> list[Offer]:
        """The offers of a listing: priced ones of known GPUs; with `every` the unpriced and the unknown ones too."""
        return listed(self.table(now, accelerators, as_of), every=every)

    def usable(self, now: datetime) -> int:
        """How many offers a plan could rank; PricesUnavailable where there is none."""
        count = usable(self.table(now))
        if not count:
            raise PricesUnavailable(
                "no price that could be used", field="offers", nearest=("estimator prices refresh",)
            )
        return count
