"""Who fetches prices where many could? One at a time: the others see that somebody is at it and leave it to them.

PostgreSQL: an advisory lock on a connection of its own; SQLite: a lock on a file beside the database. Both end with
the process that holds them, however it ends, so a leader that is gone is replaced by the next one that looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from pricing.store import Store
from pricing.store_errors import StoreError, telling

REFRESH_LOCK = 0x67707571  # PostgreSQL advisory lock: any number, the same everywhere
TOLERANCE = timedelta(minutes=5)  # a refresh dated further ahead was dated by a wrong clock


@contextmanager
def leadership(store: Store) -> Iterator[bool]:
    """Whether this process leads while it is inside; never waits."""
    if store.path is not None:
        with _of_file(store) as leads:
            yield leads
        return
    from sqlalchemy import text

    engine = store.engine()
    with telling(store), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        leads = bool(connection.execute(text(f"SELECT pg_try_advisory_lock({REFRESH_LOCK})")).scalar_one())
        try:
            yield leads
        finally:
            if leads and not connection.closed:
                connection.execute(text(f"SELECT pg_advisory_unlock({REFRESH_LOCK})"))


@contextmanager
def _of_file(store: Store) -> Iterator[bool]:
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        words = "choosing who refreshes needs the extra: pip install 'gpu-cost-estimator[server]'"
        raise StoreError(words, field="--if-due") from None
    assert store.path is not None
    lock = FileLock(store.path.with_name(f"{store.path.name}.refreshing"))
    try:
        store.path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise StoreError(f"no prices can be fetched into {store.name}: {error}", field="database") from None
    try:
        yield True
    finally:
        lock.release()


def is_due(store: Store, now: datetime, every: timedelta) -> bool:
    """Whether the last refresh, whoever made it, is at least so long ago (or dated by a clock that ran ahead)."""
    if not store.exists():
        return True
    last = store.last_run()
    return last is None or now - last[0] >= every or last[0] - now > TOLERANCE
