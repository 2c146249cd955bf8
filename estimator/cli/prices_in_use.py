"""Which offers does a command plan with: the store's and the shipped ones, no older than asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimator.cli.settings import Settings
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from estimator.request.workload import Workload
    from pricing.offers import OfferTable


def offers_in_use(workload: Workload, here: Settings, max_age: str | None) -> OfferTable:
    """The market of this moment; PricesUnavailable when --max-age leaves nothing."""
    import os

    from estimator.cli.offers import DATABASE, store_to_read
    from pricing.offers import Freshness, current_offers

    kept = here.database_url is not None or (here.data_dir / DATABASE).exists()
    return current_offers(
        now=here.now,
        store=store_to_read(here) if kept else None,  # without one its module need not be loaded
        freshness=Freshness.from_environment(os.environ),
        max_age_hours=parse_hours(max_age, field="--max-age") if max_age is not None else None,
        offline=here.offline,
        accelerators="any" if workload.constraints.accelerators == "any" else "gpu",
    )
