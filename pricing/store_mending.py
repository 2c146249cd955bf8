"""What happens to a damaged SQLite file? It is set aside, never deleted, and a new one is begun, said loudly.

Prices can be fetched or imported again, so none are taken from a damaged file: a wrong one could not be told from a
right one. API keys and measurements exist nowhere else; what can still be read of them and proves to be whole (a
digest of the right form, an id that fits its content) goes into the new file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pricing.store_errors import StoreDamaged, StoreError, inode_of
from pricing.store_sqlite import Row

if TYPE_CHECKING:
    from pricing.store import Store

log = logging.getLogger("estimator.prices")
LOCK_SECONDS = 60.0  # a lock older than this was left by a process that died
COMPANIONS = ("", "-wal", "-shm")


def mend(store: Store, damage: StoreDamaged) -> None:
    """Set the file aside and begin a new one; nothing where another process has done so meanwhile."""
    assert store.path is not None
    store.close()
    with _alone(store.path.with_name(f"{store.path.name}.mending")):
        if inode_of(store) != damage.inode:
            return
        try:
            told = _mend(store.path)
        except OSError as error:
            raise StoreError(f"{damage.message}; it cannot be set aside: {error}", field="database") from None
    store.mended += 1
    log.error("%s: %s", damage.message, told)


def _mend(path: Path) -> str:
    from pricing.store import Store

    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    new = path.with_name(f"{path.name}.new-{os.getpid()}")
    _remove(new)
    fresh = Store(str(new))
    saved = {table: _save(path, fresh, table, whole) for table, whole in WHOLE.items()}
    with closing(sqlite3.connect(new)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fresh.close()
    for companion in COMPANIONS:
        found = path.with_name(path.name + companion)
        if found.exists():
            found.rename(aside.with_name(aside.name + companion))
    new.rename(path)
    _remove(new)
    kept = " and ".join(f"{count} {table.replace('_', ' ')}" for table, count in saved.items())
    return (
        f"set aside as {aside}, begun anew with {kept} that could be read. Prices are those that ship with the "
        "package until `estimator prices refresh` or `estimator prices import FILE`"
    )


def _remove(path: Path) -> None:
    for companion in COMPANIONS:
        path.with_name(path.name + companion).unlink(missing_ok=True)


def _save(path: Path, fresh: Store, table: str, whole: Callable[[Row], bool]) -> int:
    """Copy the rows of a table that can be read and are whole; as many as come before the damage, from either end."""
    from sqlalchemy import text

    columns = COLUMNS[table]
    found: dict[object, Row] = {}
    for order in ("ASC", "DESC"):
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
                for row in connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid {order}"):
                    found.setdefault(row[0], row)
        except sqlite3.DatabaseError:
            continue
    rows = [dict(zip(columns, row, strict=True)) for row in found.values() if whole(row)]
    with fresh.writing() as connection:
        if rows:
            sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(':' + name for name in columns)})"
            connection.execute(text(sql), rows)
    return len(rows)


def _whole_key(row: Row) -> bool:
    key_id, name, scopes, digest, created, *ends = row
    return (
        isinstance(name, str)
        and isinstance(created, float)
        and all(end is None or isinstance(end, float) for end in ends)
        and re.fullmatch(r"[0-9a-f]{12}", str(key_id)) is not None
        and re.fullmatch(r"[0-9a-f]{64}", str(digest)) is not None
        and set(str(scopes).split(",")) <= {"read", "plan", "admin"}
    )


def _whole_measurement(row: Row) -> bool:
    from benchmarks_db.contribute import identity

    try:
        cells = json.loads(row[1])
        return isinstance(cells, dict) and identity(cells) == row[0]
    except (TypeError, ValueError):
        return False


COLUMNS = {
    "api_keys": ("id", "name", "scopes", "digest", "created_at", "expires_at", "revoked_at"),
    "measurements": ("id", "cells", "added_at", "added_by"),
}
WHOLE: dict[str, Callable[[Row], bool]] = {"api_keys": _whole_key, "measurements": _whole_measurement}


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time; who comes later waits."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > until:
                lock.unlink(missing_ok=True)
            time.sleep(0.05)
        except OSError as error:
            raise StoreError(f"a damaged database beside {lock} cannot be set aside: {error}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
