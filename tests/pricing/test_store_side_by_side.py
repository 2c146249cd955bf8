"""Refreshers killed at any moment, and several of them beside many readers: a set is always whole."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from datetime import UTC, datetime

import pytest

from pricing.offers import Freshness, Market
from pricing.store import Store
from tests.pricing.sets import price_set
from tests.pricing.writers import REGIONS, fetches_by_region, numbered, refresh_for, refresh_for_ever

FRESH = Freshness()
READERS = 10
SECONDS = 2.5


@pytest.fixture(scope="module")
def forks() -> multiprocessing.context.ForkServerContext:
    """Processes that start with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pricing.store_writing", "pricing.store_queries", "tests.pricing.writers"])
    return context


@pytest.mark.parametrize(
    ("database", "seed"),
    [*(("sqlite", n) for n in range(20)), *(("postgresql", n) for n in range(5))],
    indirect=["database"],
)
def test_a_refresher_killed_at_any_moment_leaves_the_last_good_sets(
    database: str, forks: multiprocessing.context.ForkServerContext, seed: int
) -> None:
    ours, theirs = forks.Pipe()
    writer = forks.Process(target=refresh_for_ever, args=(database, 1, theirs), daemon=True)
    writer.start()
    assert ours.poll(60)
    first = ours.recv()
    time.sleep(random.Random(seed).uniform(0.0, 0.3))
    writer.kill()
    writer.join()
    store = Store(database)
    table, scopes = store.current_table(now=datetime.now(UTC), freshness=FRESH)
    fetches = fetches_by_region(table)
    assert {region for _, region, _ in scopes} == set(REGIONS)
    assert set(fetches) == set(REGIONS)
    numbers = {number for found in fetches.values() for number in found}
    assert all(len(found) == 1 for found in fetches.values())
    assert max(numbers) - min(numbers) <= 1
    assert min(numbers) >= first
    done = store.switch(price_set(numbered(999), region=REGIONS[0], market=Market.SPOT, at=datetime.now(UTC)))
    assert done.outcome == "switched"
    store.close()


def test_two_refreshers_and_ten_readers_see_whole_sets_only(
    database: str, forks: multiprocessing.context.ForkServerContext
) -> None:
    Store(database).engine().dispose()
    writers = [forks.Process(target=refresh_for, args=(database, first, SECONDS), daemon=True) for first in (1, 500)]
    problems: list[BaseException] = []
    seen: set[int] = set()
    reads = [0] * READERS
    written = threading.Event()

    def read(which: int) -> None:
        store = Store(database)
        try:
            while not written.is_set() or not reads[which]:
                table, _ = store.current_table(now=datetime.now(UTC), freshness=FRESH)
                for found in fetches_by_region(table).values():
                    assert len(found) == 1, found
                    seen.update(found)
                reads[which] += 1
        except BaseException as problem:
            problems.append(problem)
        finally:
            store.close()

    for writer in writers:
        writer.start()
    readers = [threading.Thread(target=read, args=(n,)) for n in range(READERS)]
    for one in readers:
        one.start()
    for writer in writers:
        writer.join(120)
    written.set()
    for one in readers:
        one.join(60)
    assert not problems
    assert [w.exitcode for w in writers] == [0, 0]
    assert all(reads), reads
    assert len(seen) > 2
