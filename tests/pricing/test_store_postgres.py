"""PostgreSQL that hangs, a lock that is never let go, and a leader whose machine is gone: each ends by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from pricing.store import Store
from pricing.store_errors import StoreUnreachable
from pricing.store_leader import leadership
from tests.pricing.conftest import Cluster
from tests.pricing.sets import NOW, price_set

SHORT = 0.3


@pytest.fixture
def short(postgres: Cluster) -> Iterator[Store]:
    """A store that waits for a third of a second."""
    url = postgres.new_database()
    Store(url).engine().dispose()
    store = Store(url, answer_s=SHORT)
    store.switch(price_set({"t1": 1.0}, at=NOW))
    yield store
    store.close()


def one(store: Store, sql: str) -> object:
    with store.reading() as ask:
        return ask(sql)[0][0]


@contextmanager
def stopped(pid: object) -> Iterator[None]:
    """A process of the server that stands still."""
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_server_that_hangs_is_given_up_and_asked_anew_when_it_answers(short: Store) -> None:
    with (
        pytest.raises(StoreUnreachable, match="no answer within"),
        short.reading() as ask,
        stopped(ask("SELECT pg_backend_pid()")[0][0]),
    ):
        ask("SELECT 1")
    assert short.last_run() is None


def test_a_statement_that_takes_too_long_is_ended_by_the_server(short: Store) -> None:
    with pytest.raises(StoreUnreachable, match="statement timeout"):
        one(short, "SELECT pg_sleep(5)")
    assert one(short, "SELECT 1") == 1


def test_a_lock_that_is_not_let_go_holds_nobody_for_ever(short: Store) -> None:
    with short.engine().connect() as other, other.begin():
        other.exec_driver_sql("SELECT * FROM scopes FOR UPDATE")
        with pytest.raises(StoreUnreachable, match="timeout"):
            short.switch(price_set({"t1": 2.0}, at=NOW + timedelta(minutes=1)))
    assert short.switch(price_set({"t1": 2.0}, at=NOW + timedelta(minutes=1))).outcome == "switched"


def test_limits_are_of_one_transaction_and_reach_no_one_else(short: Store) -> None:
    assert one(short, "SELECT current_setting('statement_timeout')") == "300ms"
    with short.engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "0"


def test_bringing_the_schema_up_to_date_may_take_longer(postgres: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from pricing import store_migrating

    real = store_migrating._upgrade

    def slow(connection: object) -> None:
        connection.exec_driver_sql("SELECT pg_sleep(0.8)")  # type: ignore[attr-defined]
        real(connection)  # type: ignore[arg-type]

    monkeypatch.setattr(store_migrating, "_upgrade", slow)
    store = Store(postgres.new_database(), answer_s=0.1)
    assert store.scopes() == []
    with pytest.raises(StoreUnreachable):
        one(store, "SELECT pg_sleep(5)")
    store.close()


def test_the_server_finds_out_that_the_machine_of_a_leader_is_gone(short: Store) -> None:
    told: list[str] = []
    engine = short.engine()
    from sqlalchemy import event

    event.listen(engine, "before_cursor_execute", lambda *found: told.append(found[2]))
    with leadership(short) as leads:
        assert leads
    assert any("tcp_keepalives_idle = 30" in sql for sql in told)
