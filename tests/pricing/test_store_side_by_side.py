"""Refreshers killed at any moment, and several of them beside many readers: a set is always whole."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from datetime import UTC, datetime

import pytest

from pricing.offers import Freshness
from pricing.store import Store
from tests.pricing.writers import REGIONS, fetches_by_region, refresh_for_ever, refresh_until

FRESH = Freshness()
READERS = 10
SECONDS = 2.5


@pytest.fixture(scope="module")
def forks() -> multiprocessing.context.ForkServerContext:
    """Processes that start with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pricing.store_writing", "pricing.store_queries", "tests.pricing.writers"])
    return context


@pytest.mark.parametrize("seed", range(20))
def test_a_refresher_killed_at_any_moment_leaves_the_last_good_sets(
    database: str, forks: multiprocessing.context.ForkServerContext, seed: int
) -> None:
    if database.startswith("postgresql") and seed >= 5:
        pytest.skip("five moments are enough where a server holds the transaction")
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
    after = threading.Thread(target=refresh_until, args=(database, max(numbers) + 1, time.time()), daemon=True)
    after.start()
    after.join(30)
    assert not after.is_alive()
    from tests.pricing.sets import price_set
    from tests.pricing.writers import numbered

    done = store.switch(price_set(numbered(999), region="us-east-1", market="spot", at=datetime.now(UTC)))  # type: ignore[arg-type]
    assert done.outcome == "switched"
    store.close()


def test_two_refreshers_and_ten_readers_see_whole_sets_only(
    database: str, forks: multiprocessing.context.ForkServerContext
) -> None:
    Store(database).engine().dispose()
    end = time.time() + SECONDS
    writers = [forks.Process(target=refresh_until, args=(database, first, end), daemon=True) for first in (1, 500)]
    problems: list[BaseException] = []
    seen: set[int] = set()
    reads = [0] * READERS

    def read(which: int) -> None:
        store = Store(database)
        try:
            while time.time() < end:
                table, _ = store.current_table(now=datetime.now(UTC), freshness=FRESH)
                for found in fetches_by_region(table).values():
                    assert len(found) == 1, found
                    seen.update(found)
                reads[which] += 1
        except BaseException as problem:
            problems.append(problem)
        finally:
            store.close()

    readers = [threading.Thread(target=read, args=(n,)) for n in range(READERS)]
    for one in (*writers, *readers):
        one.start()
    for one in (*writers, *readers):
        one.join(60)
    assert not problems
    assert [w.exitcode for w in writers] == [0, 0]
    assert all(reads), reads
    assert len(seen) > 2
    store = Store(database)
    assert all(
        len(found) == 1
        for found in fetches_by_region(store.current_table(now=datetime.now(UTC), freshness=FRESH)[0]).values()
    )
    store.close()
