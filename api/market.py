"""Which prices does this server plan with? The market of its settings, at the time of the request."""

from __future__ import annotations

from datetime import datetime

from api.settings import Settings
from benchmarks_db.errors import PricesUnavailable
from estimator.request_fields import Accelerators
from pricing.offers import Offer, OfferTable, current_offers, listed, usable


def offers_for(settings: Settings, now: datetime, accelerators: Accelerators = Accelerators.GPU) -> OfferTable:
    """The offers that a plan may rank."""
    return current_offers(
        now=now,
        max_age_hours=settings.max_price_age_hours,
        offline=settings.offline,
        accelerators=accelerators.value,
    )


def offers_listed(settings: Settings, now: datetime, *, every: bool) -> list[Offer]:
    """The offers of a listing: priced ones of known GPUs; with `every` the unpriced and the unknown ones too."""
    return listed(current_offers(now=now, offline=settings.offline, accelerators="any"), every=every)


def usable_offers(settings: Settings, now: datetime) -> int:
    """How many offers a plan could rank; PricesUnavailable where there is none."""
    count = usable(offers_for(settings, now))
    if not count:
        raise PricesUnavailable("no price that could be used", field="offers", nearest=("estimator prices refresh",))
    return count
