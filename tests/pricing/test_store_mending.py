"""A damaged SQLite file: noticed, set aside, begun anew with what is nowhere else, and said loudly."""

from __future__ import annotations

import logging
import random
import sqlite3
import threading
from pathlib import Path

import pytest

from pricing.offers import Freshness, current_offers
from pricing.store import Store
from pricing.store_errors import StoreError
from pricing.store_keys import add_key, find_key, scopes_of
from tests.pricing.sets import NOW, hours, price_set

FRESH = Freshness()
MANY = {f"t{n}": 1.0 + n for n in range(3000)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prices.db"


def filled(path: Path) -> tuple[Store, str]:
    store = Store(str(path))
    key, _ = add_key(store, "nightly", scopes_of(["plan"]), now=NOW)
    store.switch(price_set(MANY))
    store.repack()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store, key.id


def aside(path: Path) -> list[Path]:
    return [found for found in path.parent.glob("prices.db.damaged-*") if not found.name.endswith(("-wal", "-shm"))]


def test_a_file_that_is_no_database_is_set_aside_and_plans_go_on_with_the_snapshot(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(b"not a database at all, just text" * 100)
    store = Store(str(path))
    with caplog.at_level(logging.ERROR):
        table = current_offers(now=NOW, store=store)
    assert len(table) > 1000
    assert set(table.state) <= {"snapshot", "unpriced"}
    assert store.mended == 1
    (kept,) = aside(path)
    assert kept.read_bytes().startswith(b"not a database")
    assert str(kept) in caplog.text
    assert "prices refresh" in caplog.text
    assert store.switch(price_set({"g5.xlarge": 1.0})).outcome == "switched"


def test_keys_that_can_still_be_read_go_into_the_new_file(path: Path) -> None:
    store, key_id = filled(path)
    with sqlite3.connect(path) as connection:
        page, root = connection.execute("PRAGMA page_size").fetchone()[0], connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'packed'"
        ).fetchone()[0]  # fmt: skip
    with path.open("r+b") as file:
        file.seek(page * (root - 1))
        file.write(b"\xff" * page)
    table, scopes = store.current_table(now=hours(1), freshness=FRESH)
    assert (len(table), scopes) == (0, set())  # no price out of a damaged file
    assert find_key(store, key_id) is not None
    assert len(aside(path)) == 1


def test_a_price_changed_on_the_disk_is_noticed_by_the_checksum(path: Path) -> None:
    store, _ = filled(path)
    with sqlite3.connect(path) as connection:
        (content,) = connection.execute("SELECT content FROM packed").fetchone()
        changed = bytearray(content)
        changed[-4] ^= 0x10
        connection.execute("UPDATE packed SET content = ?", (bytes(changed),))
    table, _ = store.current_table(now=hours(1), freshness=FRESH)
    assert len(table) == 0
    assert store.mended == 1


@pytest.mark.parametrize("seed", range(6))
def test_garbage_anywhere_in_the_file_gives_the_right_prices_or_none(path: Path, seed: int) -> None:
    store, _ = filled(path)
    draw = random.Random(seed)
    content = bytearray(path.read_bytes())
    start = draw.randrange(len(content) - 8192)
    content[start : start + 8192] = draw.randbytes(8192)
    path.write_bytes(content)
    table, _ = store.current_table(now=hours(1), freshness=FRESH)
    found = {offer.instance_type: offer.price_usd_per_hour for offer in table.offers()}
    assert found in (MANY, {})


def test_several_processes_that_find_the_damage_set_one_file_aside(path: Path) -> None:
    path.write_bytes(b"garbage" * 2000)
    stores = [Store(str(path)) for _ in range(6)]
    threads = [threading.Thread(target=store.current) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(aside(path)) == 1
    assert sum(store.mended for store in stores) == 1


def test_a_folder_that_cannot_be_written_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"garbage" * 2000)

    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pricing.store_mending._mend", refused)
    with pytest.raises(StoreError, match="Read-only file system"):
        Store(str(path)).current()


def test_a_set_dated_by_a_clock_that_ran_ahead_is_replaced_and_redated(store: Store) -> None:
    store.switch(price_set({"g5.xlarge": 1.0}, at=hours(24 * 365)))
    done = store.switch(price_set({"g5.xlarge": 1.1}), now=NOW)
    assert done.changed == 1
    (offer,) = store.current_table(now=NOW, freshness=FRESH)[0].offers()
    assert (offer.price_usd_per_hour, offer.observed_at) == (1.1, NOW)
    assert len(store.table_as_of(NOW, freshness=FRESH)[0]) == 1
    with store.reading() as ask:
        assert ask("SELECT count(*) FROM prices WHERE seen_at > :now", now=NOW.timestamp()) == [(0,)]
