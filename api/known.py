"""What has this process read of the database, and what when the database does not answer?

Each thing is read again when somebody asks for it and its time is up. During an outage what was read last goes on
being used, marked as such, for as long as the settings allow; then the outage is everybody's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from api import metrics
from api.settings import Settings
from benchmarks_db.errors import WorkloadError
from pricing.offers import OfferTable
from pricing.store import Store, StoreError
from pricing.store_measurements import kept_measurements

if TYPE_CHECKING:
    from pricing.spot_history import SpotHistory
    from pricing.store_queries import Current

log = logging.getLogger("estimator.prices")
HISTORY_SECONDS = 3600.0  # how far its window moves at once
Found = TypeVar("Found")


class Known:
    """What was read of one store; safe to ask from several threads."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._folder = settings.folder
        self._shared = settings.database_url is not None
        self._unusable = ""
        self._seconds = settings.look_again_seconds
        self._patience = settings.outage_seconds
        self._clock = clock
        self._lock = Lock()
        self._mended = 0
        self._answered = clock()
        self._kept: dict[str, tuple[float, Any]] = {}  # until when it counts as recent, and what it is
        self.silent_since: datetime | None = None

    def current(self, now: datetime) -> Current | None:
        """Everything that the current offers are made of; None while nothing has been fetched."""
        return self._read("prices", self._store.current, None, 0.0, now)

    def history(self, now: datetime) -> SpotHistory | None:
        """How spot prices moved; None without a store. The same object until something was fetched, or for an hour."""
        from pricing.spot_history import spot_history

        def read() -> tuple[tuple[object, ...], SpotHistory | None]:
            state, before = self._kept.get("history", (0.0, ((), None)))[1]
            fetched = (self._store.fetched(), now.timestamp() // HISTORY_SECONDS)
            return (fetched, before if fetched == state else spot_history(self._store, now=now))

        nothing: tuple[tuple[object, ...], SpotHistory | None] = ((), None)
        return self._read("history", read, nothing, self._seconds, now)[1]

    def measured(self, now: datetime) -> list[dict[str, str]]:
        """What `benchmarks add` has kept; rows that cannot be used are left out, said in the log and in every plan."""
        store = self._store if self._shared else None

        def read() -> list[dict[str, str]]:
            try:
                found = kept_measurements(self._folder, store)
            except WorkloadError as error:
                if not self._unusable:
                    log.error("kept measurements cannot be used, plans go on without: %s", error)
                self._unusable = f"kept measurements cannot be used, this plan leans on none of them: {error}"
                return []
            self._unusable = ""
            before: list[dict[str, str]] = self._kept.get("measured", (0.0, []))[1]
            return before if before == found else found

        return self._read("measured", read, [], self._seconds, now, database=self._shared)

    def marked(self, table: OfferTable) -> OfferTable:
        """The offers with a warning where the database has not been heard of since."""
        if self._unusable:
            table = replace(table, warnings=(*table.warnings, self._unusable))
        if self.silent_since is None:
            return table
        words = (
            f"the price database has not answered since {self.silent_since:%Y-%m-%d %H:%M:%S} UTC: prices as of then"
        )
        return replace(table, warnings=(*table.warnings, words))

    def _read(
        self, name: str, read: Callable[[], Found], nothing: Found, seconds: float, now: datetime, database: bool = True
    ) -> Found:
        until, found = self._kept.get(name, (0.0, nothing))
        if self._clock() < until:
            return found  # type: ignore[no-any-return]
        if database and not self._store.exists():
            return nothing
        try:
            found = read()
            if database:
                self._heard()
        except StoreError as error:
            self._unanswered(error, now)
            if name not in self._kept or self._clock() - self._answered > self._patience:
                raise
        self._kept[name] = (self._clock() + seconds, found)
        return found  # type: ignore[no-any-return]

    def _heard(self) -> None:
        with self._lock:
            self._answered = self._clock()
            if self.silent_since is not None:
                log.warning("the price database answers again, after %s", self.silent_since.isoformat())
            self.silent_since = None
            if self._store.mended > self._mended:
                metrics.REBUILDS.inc(self._store.mended - self._mended)
                self._mended = self._store.mended
        metrics.DEPENDENCY.labels("database").set(1)

    def _unanswered(self, error: StoreError, now: datetime) -> None:
        with self._lock:
            if self.silent_since is None:
                self.silent_since = now
                log.error("%s; going on with what was read before for %g s", error, self._patience)
        metrics.DEPENDENCY.labels("database").set(0)
