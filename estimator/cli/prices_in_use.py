"""Which offers does a command work with? The store's and the shipped ones, as this user pays them."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

from benchmarks_db.errors import UnknownName, WorkloadError
from estimator.cli.settings import Settings
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from estimator.request.workload import Workload
    from pricing.offers import OfferTable
    from pricing.spot_history import SpotHistory
    from pricing.store import Store

DATABASE = "prices.db"


def store_url(here: Settings) -> str:
    """The price database of these surroundings: ESTIMATOR_DATABASE_URL, else a file in the data directory."""
    return here.database_url or str(here.data_dir / DATABASE)


def store_to_read(here: Settings) -> Store | None:
    """The price database if there is one yet; without one its module is not loaded."""
    if here.database_url is None and not (here.data_dir / DATABASE).exists():
        return None
    from pricing.store import open_store

    return open_store(store_url(here))


def market_in_use(
    here: Settings, *, accelerators: str = "gpu", as_of: datetime | None = None, max_age: str | None = None
) -> OfferTable:
    """The offers of this moment, or as of a date; PricesUnavailable when `max_age` leaves nothing.

    Negotiated prices are laid over them; WorkloadError names the line of their file that cannot be used.
    """
    from pricing.offers import Freshness, current_offers

    if accelerators not in ("gpu", "any"):
        raise UnknownName("kind of accelerators", accelerators, ["gpu", "any"], field="--accelerators")
    oldest = parse_hours(max_age, field="--max-age") if max_age is not None else None
    if oldest is not None and oldest < 0:
        raise WorkloadError(f"{max_age!r} must be at least 0", field="--max-age", value=max_age, nearest=("48h",))
    rules = None
    if here.overrides is not None:
        from pricing.sources.overrides_file import read_overrides

        rules = read_overrides(here.overrides)
    return current_offers(
        now=here.now,
        store=store_to_read(here),
        freshness=Freshness.from_environment(os.environ),
        max_age_hours=oldest,
        offline=here.offline,
        accelerators="any" if accelerators == "any" else "gpu",
        as_of=as_of,
        overrides=rules,
    )


def offers_in_use(workload: Workload, here: Settings, max_age: str | None) -> OfferTable:
    """The market that a request may use; PricesUnavailable when --max-age leaves nothing."""
    return market_in_use(here, accelerators=workload.constraints.accelerators.value, max_age=max_age)


def spot_history_in_use(workload: Workload, here: Settings) -> SpotHistory | None:
    """How spot prices moved, as far as the price database knows; None without one, or where no spot plan is wanted."""
    markets = workload.constraints.markets
    return None if markets is not None and "spot" not in markets else spot_history_at(here, here.now)


def spot_history_at(here: Settings, now: datetime) -> SpotHistory | None:
    """How spot prices had moved by `now`, as far as the price database knows; None without one."""
    store = store_to_read(here)
    if store is None:
        return None
    from pricing.spot_history import spot_history

    return spot_history(store, now=now)
