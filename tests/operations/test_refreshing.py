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
from hypothesis import given
from hypothesis import strategies as st

from api.refreshing import LEFT_OUT, Refresher
from api.settings import Settings
from benchmarks_db.errors import UnknownName
from estimator.cli.database import by_the_leader
from estimator.cli.settings import settings as surroundings
from pricing.offers import Market
from pricing.refresh_reach import Reach, reach_of
from pricing.sources.base import Wanted
from pricing.store import Store
from pricing.store_leader import is_due, last_run_of, leadership

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


def test_a_refresh_of_one_cloud_or_region_is_none_of_all(store: Store) -> None:
    spot = Wanted(markets=frozenset({Market.SPOT}))
    narrow = (Reach.of(["aws"]), Reach.of([], Wanted(("us-east-1", "eastus"))), Reach.of([], spot))
    store.engine()
    for reach in narrow:
        store.record_run(NOW, NOW, {"asked": reach.document()})
    assert is_due(store, NOW, HOUR)
    assert not any(is_due(store, NOW, HOUR, reach) for reach in narrow)
    assert not is_due(store, NOW, HOUR, Reach.of(["aws"], Wanted(("us-west-2",))))  # a part of what was asked
    assert is_due(store, NOW, HOUR, Reach.of(["gcp", "aws"]))
    assert is_due(store, NOW, HOUR, Reach.of([], Wanted(("westeurope",))))
    assert last_run_of(store, Reach.of(["gcp"], Wanted(("eastus",)))) is not None
    store.record_run(NOW - HOUR / 2, NOW - HOUR / 2, {"asked": Reach.of().document()})
    assert not is_due(store, NOW, HOUR)
    assert is_due(store, NOW + HOUR / 2, HOUR)
    last = last_run_of(store, Reach.of())
    assert last is not None
    assert last[0] == NOW - HOUR / 2


def test_a_refresh_of_a_version_that_did_not_say_counts_for_all(store: Store) -> None:
    store.engine()
    store.record_run(NOW, NOW, {"seconds": 1})
    assert not is_due(store, NOW, HOUR, Reach.of(["aws"]))


@given(
    clouds=st.lists(st.sampled_from(("aws", "gcp", "azure", "runpod")), max_size=4),
    regions=st.lists(st.sampled_from(("us-east-1", "us-*", "eastus", "*")), max_size=3),
    markets=st.sets(st.sampled_from((Market.ON_DEMAND, Market.SPOT)), min_size=1),
)
def test_a_reach_is_read_back_as_it_was_kept_and_covers_itself(
    clouds: list[str], regions: list[str], markets: set[Market]
) -> None:
    reach = Reach.of(clouds, Wanted(tuple(sorted(set(regions))), frozenset(markets)))
    assert reach_of({"asked": reach.document()}) == reach
    assert reach.covers(reach)
    assert not reach.covers(Reach.of()) or (not reach.words() and Reach.of().covers(Reach.of(["aws"])))


def test_clouds_to_refresh_are_refused_where_nobody_knows_them(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path, refresh_clouds=" AWS, google ").clouds == ("aws", "gcp")
    with pytest.raises(UnknownName) as refused:
        Settings(data_dir=tmp_path, refresh_clouds="azur")
    assert (refused.value.field, refused.value.nearest[0]) == ("ESTIMATOR_REFRESH_CLOUDS", "azure")


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

        return by_the_leader(here, "27m", Reach.of(), refresh)

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
