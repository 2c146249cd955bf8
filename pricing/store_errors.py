"""What can be wrong with the database? Not reachable, not usable, or damaged; each told as one of our errors."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks_db.errors import EstimatorError

if TYPE_CHECKING:
    from pricing.store import Store

CORRUPT, NOT_A_DATABASE = 11, 26  # sqlite3.h
FULL_BYTES = 1 << 20  # less than a refresh writes


class StoreError(EstimatorError):
    """The price database cannot be used: not reachable, not ours, full, or written by a newer version."""


class StoreUnreachable(StoreError):  # noqa: N818  (reads as what happened)
    """The database does not answer; what was read before is still true as of then."""


class StoreDamaged(StoreError):  # noqa: N818
    """The SQLite file holds what SQLite never wrote."""

    def __init__(self, message: str, inode: int) -> None:
        super().__init__(message, field="database")
        self.inode = inode  # of the file that was found damaged


@contextmanager
def telling(store: Store) -> Iterator[None]:
    """Turn what the database's own library raises into our errors; faults of ours pass as they are."""
    before = inode_of(store)
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _of_sqlite(store, error, before) from None
    except ValueError as error:  # the packed set's checksum
        if store.path is None or "checksum" not in str(error):
            raise
        raise StoreDamaged(f"the price database {store.name} is damaged: {error}", before) from None
    except Exception as error:
        told = _of_sqlalchemy(store, error, before)
        if told is None:
            raise
        raise told from None


def inode_of(store: Store) -> int:
    """What tells the file from one that has since taken its name; 0 where there is none."""
    try:
        return store.path.stat().st_ino if store.path is not None else 0
    except OSError:
        return 0


def _of_sqlite(store: Store, error: sqlite3.DatabaseError, inode: int) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (CORRUPT, NOT_A_DATABASE):
        return StoreDamaged(f"the price database {store.name} is damaged: {error}", inode)
    return StoreError(f"cannot use the price database {store.name}: {error}{_full(store)}", field="database")


def _full(store: Store) -> str:
    """What SQLite does not always say: that the disk is full, which it also meets as an error of input and output."""
    try:
        free = shutil.disk_usage(store.path.parent).free if store.path is not None else None
    except OSError:
        return ""
    return f" (the disk is full: {free} bytes are free)" if free is not None and free < FULL_BYTES else ""


def _of_sqlalchemy(store: Store, error: Exception, inode: int) -> StoreError | None:
    """None for what is no matter of the database: SQLAlchemy is only looked at where it has been loaded."""
    known = sys.modules.get("sqlalchemy.exc")
    if known is None:
        return None
    if isinstance(error, known.DBAPIError) and not isinstance(error, known.IntegrityError):
        origin = error.orig
        if isinstance(origin, sqlite3.DatabaseError):
            return _of_sqlite(store, origin, inode)
        if isinstance(error, known.OperationalError | known.InterfaceError) or error.connection_invalidated:
            first = str(origin).strip().partition("\n")[0]
            return StoreUnreachable(f"the database {store.name} does not answer: {first}", field="database")
    if isinstance(error, known.TimeoutError):
        return StoreUnreachable(f"the database {store.name} does not answer in time", field="database")
    return None
