"""What a server does while its database or Redis is away, and when they are back."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from api.access import KeyRing
from api.app import create_app
from api.market import Prices
from api.problems import Refusal
from api.rates import Rates
from api.settings import Settings
from api.shared import Shared, shared_of
from benchmarks_db.errors import WorkloadError
from pricing.offers import Market
from pricing.store import Store
from pricing.store_errors import StoreError, StoreUnreachable
from pricing.store_keys import Scope, add_key
from tests.operations.servers import free_port, redis_server
from tests.pricing.sets import price_set

NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)
PLAN = {"model": "llama3-8b", "method": "lora", "tokens": "10M", "options": {"top": 2}}


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the database is away: [True] makes every question fail as a PostgreSQL that is gone does."""
    gone = [False]
    real = Store.reading

    def reading(store: Store) -> object:
        if gone[0]:
            raise StoreUnreachable("the database does not answer: connection refused", field="database")
        return real(store)

    monkeypatch.setattr(Store, "reading", reading)
    return gone


def filled(tmp_path: Path) -> Settings:
    store = Store(str(tmp_path / "prices.db"))
    store.switch(price_set({"p5.48xlarge": 55.04}, at=NOW - timedelta(hours=1)))
    store.switch(price_set({"p5.48xlarge@us-east-1a": 20.0}, market=Market.SPOT, at=NOW - timedelta(hours=1)))
    store.close()
    return Settings(now=NOW, data_dir=tmp_path, look_again_seconds=2, outage_seconds=300)


def test_prices_read_before_hold_through_an_outage_marked_as_such_and_not_for_ever(
    tmp_path: Path, away: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    prices = Prices(filled(tmp_path), clock)
    before = prices.table(NOW)
    away[0] = True
    clock.now += 10
    with caplog.at_level(logging.WARNING):
        during = prices.table(NOW + timedelta(seconds=10))
    assert np.array_equal(during.usd_per_hour, before.usd_per_hour, equal_nan=True)
    assert "has not answered since" in during.warnings[-1]
    assert "does not answer" in caplog.text
    assert prices.silent_since is not None
    clock.now += 301
    with pytest.raises(StoreUnreachable):
        prices.table(NOW + timedelta(seconds=311))
    away[0] = False
    clock.now += 10
    after = prices.table(NOW + timedelta(seconds=321))
    assert not any("has not answered" in words for words in after.warnings)
    assert "answers again" in caplog.text


def test_prices_age_during_an_outage(tmp_path: Path, away: list[bool]) -> None:
    clock = Clock()
    prices = Prices(filled(tmp_path), clock)
    assert "live" in set(prices.table(NOW).state)
    away[0] = True
    clock.now += 10
    later = prices.table(NOW + timedelta(hours=3))
    spot = (later.market == "spot") & (later.source == "aws:test")
    assert set(later.state[spot]) == {"stale"}


def test_a_server_without_its_database_is_not_ready_and_alive(tmp_path: Path) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/prices"
    client = TestClient(create_app(Settings(now=NOW, data_dir=tmp_path, database_url=url)))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:estimator:problem:database")
    assert client.post("/v1/plan", json=PLAN).status_code == 503
    assert client.get("/healthz").status_code == 200
    assert 'estimator_dependency_up{dependency="database"} 0.0' in client.get("/metrics").text


def test_known_keys_open_during_an_outage_and_unknown_ones_get_503(tmp_path: Path, away: list[bool]) -> None:
    filled(tmp_path)
    store, clock = Store(str(tmp_path / "prices.db")), Clock()
    _, text = add_key(store, "nightly", [Scope.PLAN], now=NOW)
    _, other = add_key(store, "other", [Scope.PLAN], now=NOW)
    ring = KeyRing(store, patience=300, clock=clock)
    assert asyncio.run(ring.key(text, NOW)) is not None
    away[0] = True
    clock.now += 60
    assert asyncio.run(ring.key(text, NOW)) is not None
    with pytest.raises(Refusal) as refusal:
        asyncio.run(ring.key(other, NOW))
    assert (refusal.value.status, refusal.value.kind) == (503, "database")
    clock.now += 300
    with pytest.raises(Refusal):
        asyncio.run(ring.key(text, NOW))


def test_metrics_need_a_key_from_elsewhere_unless_they_are_open(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "prices.db"))
    _, text = add_key(store, "prometheus", [Scope.READ], now=NOW)

    def asked(metrics: str, **headers: str) -> int:
        settings = Settings(now=NOW, offline=True, data_dir=tmp_path, metrics=metrics, require_key="always")  # type: ignore[arg-type]
        return TestClient(create_app(settings)).get("/metrics", headers=headers).status_code

    assert asked("key") == 401
    assert asked("key", authorization=f"Bearer {text}") == 200
    assert asked("open") == 200
    assert asked("off", authorization=f"Bearer {text}") == 404


def test_replicas_count_together_in_redis_and_alone_while_it_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import shutil

    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server (Debian: apt-get install redis-server)")
    port, clock = free_port(), Clock()

    async def served(count: int) -> list[bool]:
        shared = [shared_of(f"redis://127.0.0.1:{port}/0") for _ in range(2)]
        for one in shared:
            one._clock = clock
        replicas = [Rates(one) for one in shared]
        found = [(await replicas[n % 2].take("key", "a", 4)).served for n in range(count)]
        await shared[0].put("answer", b"\x00text", 60)
        found.append(await shared[1].get("answer") == b"\x00text")
        for one in shared:
            await one.close()
        return found

    with redis_server(tmp_path, port):
        assert asyncio.run(served(6)) == [True] * 4 + [False] * 2 + [True]
    with caplog.at_level(logging.ERROR):
        assert asyncio.run(served(6)) == [True] * 6 + [False]  # each of the two counts four for itself
    assert caplog.text.count("Redis does not answer") == 2
    with redis_server(tmp_path, port):
        clock.now += 60
        assert asyncio.run(served(5)) == [True] * 4 + [False, True]


def test_a_replica_answers_a_cell_that_another_one_has_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server (Debian: apt-get install redis-server)")
    port = free_port()
    question = {"model": "llama3-8b", "method": "lora", "tokens": "10M"}
    with redis_server(tmp_path, port):
        settings = Settings(now=NOW, offline=True, data_dir=tmp_path, redis_url=f"redis://127.0.0.1:{port}/0")  # type: ignore[arg-type]
        with TestClient(create_app(settings)) as first:
            planned = [
                first.get("/v1/cell", params=question | {"value": name}).text for name in ("cost_usd", "gpu_hours")
            ]

        def never(*_: object, **__: object) -> None:
            raise AssertionError("planned again")

        monkeypatch.setattr("estimator.sheets.answers.plan", never)
        with TestClient(create_app(settings)) as second:
            told = [
                second.get("/v1/cell", params=question | {"value": name}).text for name in ("cost_usd", "gpu_hours")
            ]
            other = second.get("/v1/cell", params=question | {"tokens": "11M"}).text
        monkeypatch.setattr("api.shared_answers.program", lambda: "code of a newer replica")
        with TestClient(create_app(settings)) as newer:
            anew = newer.get("/v1/cell", params=question | {"value": "cost_usd"}).text
    assert told == planned
    assert anew.startswith("#ERROR") or "internal" in anew  # a replica of other code plans for itself
    assert float(told[0]) > 0
    assert "planned again" not in told[0]
    assert other.startswith("#ERROR") or "internal" in other


def test_a_redis_address_that_is_none_is_refused() -> None:
    with pytest.raises(WorkloadError, match="Redis"):
        shared_of("http://cache")
    assert asyncio.run(Shared().get("x")) is None


def test_a_full_disk_is_said_in_one_line_and_the_last_good_set_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    store = Store(str(tmp_path / "prices.db"))
    with store.engine().connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    import sqlalchemy

    @sqlalchemy.event.listens_for(store.engine(), "connect")
    def _small(connection: object, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]

    with pytest.raises(StoreError, match="full"):
        store.switch(price_set({f"t{n}": 1.0 + n for n in range(5000)}, region="eu-west-1", at=NOW))
    prices = Prices(Settings(now=NOW, data_dir=tmp_path))
    assert 55.04 in prices.table(NOW).usd_per_hour


def test_a_file_of_measurements_that_cannot_be_read_is_said_in_every_plan_and_ends_when_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "measurements.csv"
    file.write_text("model,gpu,throughput,unit\nllama3-8b,H100:8,many,tokens/s\n")
    clock = Clock()
    prices = Prices(Settings(now=NOW, data_dir=tmp_path), clock)
    assert "measurements.csv line 2" in prices.table(NOW).warnings[-1]
    assert prices.measured(NOW) == []
    assert caplog.text.count("cannot be used") == 1
    file.write_text("model,gpu,throughput,unit\nllama3-8b,H100:8,60000,tokens/s\n")
    clock.now += 30
    assert not any("measurements" in words for words in prices.table(NOW).warnings)
    assert len(prices.measured(NOW)) == 1
