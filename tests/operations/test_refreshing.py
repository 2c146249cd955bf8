"""One process fetches at a time, on both databases; who leads and dies is replaced by the next one that looks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from api.refreshing import LEFT_OUT, Refresher
from api.settings import Settings
from estimator.cli.database import by_the_leader
from estimator.cli.settings import settings as surroundings
from pricing.store import Store
from pricing.store_leader import is_due, leadership

NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def lead_for_ever(url: str, told: Connection) -> None:
    store = Store(url)
    with leadership(store) as leads:
        told.send(leads)
        time.sleep(600)


def leads_now(store: Store) -> bool:
    with leadership(store) as leads:
        return leads


def test_a_leader_that_is_killed_is_replaced(database: str) -> None:
    store = Store(database)
    store.engine()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pricing.store_leader", "pricing.store_writing", "pricing.store_migrating"])
    ours, theirs = context.Pipe()
    leader = context.Process(target=lead_for_ever, args=(database, theirs), daemon=True)
    leader.start()
    assert ours.poll(60)
    assert ours.recv() is True
    assert not leads_now(store)
    assert leader.pid is not None
    os.kill(leader.pid, signal.SIGKILL)
    leader.join()
    until = time.monotonic() + 20
    while not leads_now(store) and time.monotonic() < until:
        time.sleep(0.05)
    assert leads_now(store)
    store.close()


def test_a_refresh_is_due_by_what_the_database_says_whoever_made_it(store: Store) -> None:
    store.engine()
    assert is_due(store, NOW, HOUR)
    store.record_run(NOW, NOW, {"seconds": 1})
    assert not is_due(store, NOW + HOUR / 2, HOUR)
    assert is_due(store, NOW + HOUR, HOUR)


def test_a_refresh_dated_by_a_clock_that_ran_ahead_holds_nobody_back(store: Store) -> None:
    store.engine()
    store.record_run(NOW + timedelta(days=365), NOW + timedelta(days=365), {})
    assert is_due(store, NOW, HOUR)


def test_workers_that_look_at_once_fetch_once(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, refresh_minutes=30, now=NOW)
    Store(settings.store_url).engine().dispose()
    fetched: list[int] = []

    def fetch(which: int) -> int:
        here = surroundings({"ESTIMATOR_DATA_DIR": str(tmp_path), "ESTIMATOR_NOW": NOW.isoformat()})

        def refresh() -> int:
            others = [one.look(NOW) for n, one in enumerate(workers) if n != which and not fetched]
            assert all(found is None for found in others)
            fetched.append(which)
            Store(settings.store_url).record_run(NOW, NOW, {})
            return 0

        return by_the_leader(here, "27m", refresh)

    workers = [Refresher(settings, lambda n=n: fetch(n), lambda low, high: high) for n in range(3)]  # type: ignore[misc]
    for worker in workers:
        worker.look(NOW)
    assert len(fetched) == 1


def test_looks_are_spread_and_never_further_apart_than_a_minute(tmp_path: Path) -> None:
    often = Refresher(Settings(data_dir=tmp_path, refresh_minutes=5))
    found = {round(often.pause(), 3) for _ in range(50)}
    assert len(found) > 40
    assert all(15 <= pause <= 30 for pause in found)
    assert Refresher(Settings(data_dir=tmp_path, refresh_minutes=600)).pause() <= 60


def test_a_fetch_that_fails_is_counted_and_ends_no_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> int:
        raise OSError("no memory")

    Refresher(Settings(data_dir=tmp_path, refresh_minutes=5), broken).look(NOW)
    assert "prices are not refreshed" in caplog.text
    Refresher(Settings(data_dir=tmp_path, refresh_minutes=5), lambda: LEFT_OUT).look(NOW)
