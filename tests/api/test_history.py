"""Prices through time: what was known when, how a price moved, how old an answer is."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from pricing.offers import Market
from pricing.sources.base import Observation, PriceSet
from pricing.store import Store

from .conftest import NOW
from .test_problems import problem


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A server whose spot price of one machine went from 30 to 40 to 50 dollars."""
    folder: Path = tmp_path_factory.mktemp("moving")
    settings = Settings(now=NOW, data_dir=folder)
    store = Store(settings.store_url)
    for days, usd in ((10, 30.0), (5, 40.0), (1, 50.0)):
        at = NOW - timedelta(days=days)
        store.switch(prices(at, usd))
    store.close()
    return TestClient(create_app(settings))


def prices(at: datetime, usd: float) -> PriceSet:
    seen = Observation("aws", "us-east-1", "p5.48xlarge", Market.SPOT, Decimal(str(usd)), "us-east-1a", gpus_per_node=8)
    return PriceSet("aws", "us-east-1", Market.SPOT, "aws:spot-history", at, (seen,))


def test_the_history_of_a_price_has_its_steps_and_how_long_each_held(moving: TestClient) -> None:
    asked = {"instance_type": "p5.48xlarge", "market": "spot", "days": 8}
    document = moving.get("/v1/prices/history", params=asked).json()
    assert (document["version"], document["currency"], document["total"], document["next"]) == ("1", "USD", 1, None)
    (series,) = document["series"]
    assert [step["price_usd_per_hour"] for step in series["steps"]] == [30.0, 40.0, 50.0]
    assert series["mean"] == pytest.approx((30 * 3 + 40 * 4 + 50 * 1) / 8)
    assert (series["min"], series["median"], series["max"], series["changes"]) == (30.0, 40.0, 50.0, 2)


@pytest.mark.parametrize(("name", "value"), [("cloud", "gcp"), ("region", "eu-*"), ("market", "on-demand")])
def test_the_history_is_filtered(moving: TestClient, name: str, value: str) -> None:
    asked = {"instance_type": "p5.48xlarge", name: value}
    assert moving.get("/v1/prices/history", params=asked).json()["series"] == []
    assert (
        moving.get(
            "/v1/prices/history", params=asked | {name: {"cloud": "AWS", "region": "us-*"}.get(name, "spot")}
        ).json()["total"]
        == 1
    )


def test_without_fetched_prices_the_history_is_empty(client: TestClient) -> None:
    document = client.get("/v1/prices/history", params={"instance_type": "p5.48xlarge"}).json()
    assert (document["total"], document["series"]) == (0, [])


def price_as_of(client: TestClient, **asked: str) -> list[float]:
    asked = {"instance_type": "p5.48xlarge", "market": "spot", "region": "us-east-1", "zone": "us-east-1a", **asked}
    return [offer["price_usd_per_hour"] for offer in client.get("/v1/offers", params=asked).json()["offers"]]


def test_offers_are_those_that_were_known_at_a_moment(moving: TestClient) -> None:
    assert price_as_of(moving) == [50.0]
    assert price_as_of(moving, as_of=(NOW - timedelta(days=3)).isoformat()) == [40.0]
    assert price_as_of(moving, as_of="2026-09-07") == [30.0]


@pytest.mark.parametrize(
    "moment", ["2030-01-01", "yesterday", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"]
)
def test_a_moment_that_cannot_be_looked_up_is_refused(moving: TestClient, moment: str) -> None:
    body = problem(moving.get("/v1/offers", params={"as_of": moment}))
    assert (body["status"], body["field"]) == (422, "as_of")


def test_prices_say_how_old_the_newest_is_and_are_asked_for_again_by_their_tag(moving: TestClient) -> None:
    asked = {"instance_type": "p5.48xlarge", "market": "spot", "region": "us-east-1"}
    for path in ("/v1/offers", "/v1/prices/history"):
        answer = moving.get(path, params=asked)
        assert int(answer.headers["age"]) == 24 * 3600
        assert answer.headers["cache-control"] == "private, no-cache"
        again = moving.get(path, params=asked, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
