"""How is the SQLite file read for a plan? By the standard library alone, in milliseconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pricing.store_schema import Reached, reached

Row = tuple[Any, ...]
BUSY_SECONDS = 60  # how long a writer waits for another one
CANNOT_OPEN, READ_ONLY = 14, 8  # sqlite3.h


@contextmanager
def sqlite_view(path: Path) -> Iterator[Callable[..., list[Row]]]:
    """A consistent view of the file, its schema brought up to date before where that can be done."""
    connection, state = _looked_at(path)
    if state in (Reached.NOTHING, Reached.BEHIND, Reached.BEYOND) and _migrated(path, state):
        connection.close()
        connection, _ = _looked_at(path)
    with closing(connection):
        connection.execute("BEGIN")
        yield lambda sql, **values: connection.execute(sql, values).fetchall()


def _looked_at(path: Path) -> tuple[sqlite3.Connection, Reached]:
    """A connection and how far the file is. A folder that cannot be written is read as it lies there."""
    for mode in ("mode=rw", "mode=ro&immutable=1"):
        connection = None
        try:
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS)
            connection.isolation_level = None
            return connection, state_of(connection)
        except sqlite3.OperationalError as error:
            if connection is not None:
                connection.close()
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (CANNOT_OPEN, READ_ONLY) or mode != "mode=rw" or not path.exists():
                raise
    raise AssertionError("one of the two modes returns or raises")


def state_of(connection: sqlite3.Connection) -> Reached:
    """How far the file's schema is."""

    def first_of(sql: str) -> Any:
        try:
            row = connection.execute(sql).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
        return row[0] if row else None

    return reached(first_of)


def _migrated(path: Path, state: Reached) -> bool:
    """Bring the schema up to date; False where the file cannot be written and its older form can be read as it is."""
    from pricing.store import Store
    from pricing.store_errors import StoreDamaged, StoreError

    store = Store(str(path))
    try:
        store.engine()
    except StoreDamaged:
        raise
    except StoreError:
        if state is Reached.BEHIND:
            return False
        raise
    finally:
        store.close()
    return True
