"""Who keeps the prices fresh? A thread of every worker looks now and then; one process at a time fetches.

Fetching runs in a process of its own (`estimator prices refresh --if-due`), so that neither its memory nor its work
is the server's, and takes part in the election of `pricing.store_leader` there. Off unless `ESTIMATOR_REFRESH_MINUTES`
says how often.
"""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Event, Thread

from api import metrics
from api.settings import Settings
from benchmarks_db.errors import EstimatorError
from pricing.refresh_reach import Reach
from pricing.store import Store
from pricing.store_leader import is_due, leadership

log = logging.getLogger("estimator.refresh")
LOOKS = 10.0  # times that are looked at within one interval
SOONEST, LATEST = 1.0, 60.0  # seconds between two looks
LEFT_OUT = 75  # EX_TEMPFAIL of sysexits.h: another process fetches, or has just done so
RESULTS = {0: "done", 1: "partly"}
FAILED = 2
FETCH_SECONDS = 1500  # the command ends itself before, unless it cannot


class Refresher:
    """The thread of one worker."""

    def __init__(
        self,
        settings: Settings,
        fetch: Callable[[], int] | None = None,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._settings = settings
        self._store = Store(settings.store_url)
        self._every = timedelta(minutes=settings.refresh_minutes)
        self._reach = Reach.of(settings.clouds)
        self._fetch = fetch or self._fetched
        self._draw = draw
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="refresh", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking; a fetch under way goes on by itself to its end."""
        self._stopped.set()

    def pause(self) -> float:
        """Seconds until the next look: workers and replicas look at different times."""
        usual = min(LATEST, max(SOONEST, self._every.total_seconds() / LOOKS))
        return self._draw(0.5 * usual, usual)

    def _run(self) -> None:
        while not self._stopped.wait(self.pause()):
            self.look(self._settings.clock())

    def look(self, now: datetime) -> None:
        """Fetch if it is time and nobody else does; never raises."""
        try:
            if not is_due(self._store, now, self._every * self._draw(0.95, 1.05), self._reach):
                return
            with leadership(self._store) as free:  # whoever fetches holds it: no process is begun for nothing
                if not free:
                    return
            metrics.LEADER.inc()
            try:
                code = self._fetch()
            finally:
                metrics.LEADER.dec()
        except (EstimatorError, OSError) as error:
            log.error("prices are not refreshed: %s", error)
            metrics.REFRESHES.labels("failed").inc()
            return
        if code == LEFT_OUT:
            return
        metrics.REFRESHES.labels(RESULTS.get(code, "failed")).inc()
        log.log(logging.INFO if code == 0 else logging.WARNING, "prices were refreshed", extra={"exit_code": code})

    def _fetched(self) -> int:
        """Run the command that fetches; its exit code."""
        settings = self._settings
        minutes = f"{settings.refresh_minutes * 0.9:g}m"
        clouds = [part for name in settings.clouds for part in ("--cloud", name)]
        command = [sys.executable, "-m", "estimator", "prices", "refresh", "--if-due", minutes, *clouds]
        told = {"ESTIMATOR_DATABASE_URL": settings.database_url, "ESTIMATOR_DATA_DIR": str(settings.folder),
                "ESTIMATOR_NOW": settings.now.isoformat() if settings.now else None}  # fmt: skip
        here = {**os.environ, **{name: value for name, value in told.items() if value}}
        try:
            done = subprocess.run(
                command, env=here, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                check=False, timeout=FETCH_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            log.error("the refresh was ended after %d s", FETCH_SECONDS)
            return FAILED
        for line in done.stderr.decode("utf-8", "replace").splitlines()[-20:]:
            log.info("%s", line)
        return done.returncode
