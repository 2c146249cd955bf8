"""`prices migrate`, and who may refresh: what concerns the database itself and not what is in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from estimator.cli.errors import note
from estimator.cli.flags import surroundings
from estimator.cli.prices_in_use import store_url
from estimator.cli.settings import Settings
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from pricing.refresh_reach import Reach

LEFT_OUT = 75  # EX_TEMPFAIL of sysexits.h: another process fetches, or has just done so


def migrate() -> None:
    """Bring the database to the schema of this version; every command does so by itself where it writes."""
    from pricing.store import Store
    from pricing.store_schema import HEAD

    store = Store(store_url(surroundings()))
    store.engine()
    store.close()
    note(f"{store.name} is at revision {HEAD}")


def by_the_leader(here: Settings, age: str, reach: Reach, refresh: Callable[[], int]) -> int:
    """Refresh unless that much was done within `age` or another process is at it: exit code 75 then."""
    from pricing.store import Store
    from pricing.store_leader import is_due, leadership

    store, every = Store(store_url(here)), timedelta(hours=parse_hours(age, field="--if-due"))
    try:
        if not is_due(store, here.now, every, reach):
            note(f"the last refresh is not {age} old: nothing to do")
            return LEFT_OUT
        with leadership(store) as leads:
            if not leads:
                note("another process refreshes the prices now")
                return LEFT_OUT
            if not is_due(store, here.now, every, reach):  # it was done while we looked
                return LEFT_OUT
            return refresh()
    finally:
        store.close()
