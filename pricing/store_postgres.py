"""How long may PostgreSQL keep us waiting? Never for ever: not for a lock, a statement, an answer, or a dead leader.

The server ends statements that wait or run too long. Where the server itself hangs (a machine that is paused, a network
that swallows packets) nobody would ever say so: then the connection is closed from our side.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event

if TYPE_CHECKING:
    from pricing.store import Store

CONNECT_SECONDS = 5  # for a PostgreSQL that does not answer
SPARE = 1.0  # seconds more than a statement may take: a server that is only slow says so itself
MIGRATION_SECONDS = 900.0  # for a revision on a large database, and for waiting until another process has done it
IDLE_SECONDS = 300.0  # a transaction whose process stands still is undone, and its locks are free
ALIVE = (("idle", 30), ("interval", 10), ("count", 3))  # a client whose machine is gone is missed within a minute
Found = TypeVar("Found")


class Patient(psycopg.Connection[Any]):
    """A connection that is closed when one answer takes longer than `seconds` (None: no limit)."""

    seconds: float | None = CONNECT_SECONDS

    def wait(self, gen: Generator[Any, Any, Found], *arguments: Any, **options: Any) -> Found:
        """What the generator gives, within the limit; OperationalError where it does not come."""
        return super().wait(self._limited(gen), *arguments, **options)

    def _limited(self, gen: Generator[Any, Any, Found]) -> Generator[Any, Any, Found]:
        limit = self.seconds
        until = None if limit is None else time.monotonic() + limit
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and until is not None and time.monotonic() > until:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer within {limit:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def connect_postgres(store: Store) -> Engine:
    """An engine whose every question has its limit, `store.answer_s` seconds."""
    limit = store.answer_s
    connect = {"connect_timeout": max(2, min(CONNECT_SECONDS, round(limit)))}
    engine = create_engine(store.url, pool_pre_ping=True, pool_timeout=limit, connect_args=connect)

    @event.listens_for(engine, "do_connect")
    def _connected(_dialect: object, _record: object, arguments: Any, options: Any) -> Patient:
        return Patient.connect(*arguments, **options)

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.connection.driver_connection.seconds = limit + SPARE  # type: ignore[union-attr]
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            _limits(connection, limit)

    return engine


def _limits(connection: Connection, seconds: float) -> None:
    """The server's own limits, until this transaction ends (so a pooler hands them on to nobody)."""
    milliseconds = round(seconds * 1000)
    connection.exec_driver_sql(
        f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}; "
        f"SET LOCAL idle_in_transaction_session_timeout = {round(IDLE_SECONDS * 1000)}"
    )


def be_patient(connection: Connection) -> None:
    """Longer limits for a transaction that brings the schema up to date, or waits until somebody else has."""
    driver = connection.connection.driver_connection
    if isinstance(driver, Patient):
        driver.seconds = MIGRATION_SECONDS + SPARE
        _limits(connection, MIGRATION_SECONDS)


def be_missed(connection: Connection) -> None:
    """Let the server find out within a minute that the machine of this connection is gone: its locks are free then."""
    for name, value in ALIVE:
        connection.exec_driver_sql(f"SET tcp_keepalives_{name} = {value}")
