"""Who fetches prices where many could? One at a time: the others see that somebody is at it and leave it to them.

PostgreSQL: an advisory lock on a connection of its own; SQLite: a lock on a file beside the database. Both end with
the process that holds them, however it ends, so a leader that is gone is replaced by the next one that looks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from pricing.refresh_reach import Reach, reach_of
from pricing.store import Store
from pricing.store_errors import StoreError, telling

REFRESH_LOCK = 0x67707571  # PostgreSQL advisory lock: any number, the same everywhere
TOLERANCE = timedelta(minutes=5)  # a refresh dated further ahead was dated by a wrong clock
RECENT = 200  # refreshes that are looked through for one that asked for enough


@contextmanager
def leadership(store: Store) -> Iterator[bool]:
    """Whether this process leads while it is inside; never waits."""
    if store.path is not None:
        with _of_file(store) as leads:
            yield leads
        return
    from sqlalchemy import text

    from pricing.store_postgres import be_missed

    engine = store.engine()
    with telling(store), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        be_missed(connection)
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


def is_due(store: Store, now: datetime, every: timedelta, reach: Reach = Reach()) -> bool:
    """Whether the last refresh that asked for as much, whoever made it, is at least so long ago.

    One that is dated after now was dated by a clock that ran ahead, and does not count.
    """
    if not store.exists():
        return True
    sql = f"""SELECT summary FROM runs WHERE id > (SELECT max(id) FROM runs) - {RECENT}
              AND finished_at > :since AND finished_at <= :until ORDER BY id DESC"""
    values = {"since": (now - every).timestamp(), "until": (now + TOLERANCE).timestamp()}
    with store.reading() as ask:
        recent = ask(sql, **values)
    return not any(reach_of(json.loads(summary)).covers(reach) for (summary,) in recent)


def last_run_of(store: Store, reach: Reach) -> tuple[datetime, dict[str, object]] | None:
    """When the last refresh that asked for as much ended, and its summary; the last one of all where none did."""
    sql = f"""SELECT finished_at, summary FROM runs WHERE id > (SELECT max(id) FROM runs) - {RECENT}
              ORDER BY id DESC"""
    with store.reading() as ask:
        found = ask(sql)
    runs = ((datetime.fromtimestamp(at, UTC), json.loads(summary)) for at, summary in found)
    return next((run for run in runs if reach_of(run[1]).covers(reach)), None) or store.last_run()
