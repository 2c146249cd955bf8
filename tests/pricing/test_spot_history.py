"""What the price database saw of spot prices, and a plan at the command line that follows it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pricing.offers import Market
from pricing.spot_history import spot_history
from pricing.store import Store
from tests.pricing.conftest import Estimator
from tests.pricing.sets import NOW, hours, price_set

HERE = "p4d.24xlarge@us-east-1a"


def test_the_steps_of_each_zone_are_kept_until_the_last_fetch(store: Store) -> None:
    for hour, usd in ((-9, 10.0), (-6, 12.0), (-1, 12.0)):
        store.switch(price_set({HERE: usd, "p4d.24xlarge@us-east-1b": 7.0}, market=Market.SPOT, at=hours(hour)))
    store.switch(price_set({"p4d.24xlarge": 21.0}, at=hours(-1)))
    found = spot_history(store, now=NOW)
    assert set(found) == {("aws", "us-east-1", f"us-east-1{zone}", "p4d.24xlarge") for zone in "ab"}
    moved, calm = (found["aws", "us-east-1", f"us-east-1{zone}", "p4d.24xlarge"] for zone in "ab")
    assert moved.usd_per_hour.tolist() == [10.0, 12.0]
    assert moved.hours == pytest.approx(8.0)
    assert (len(calm.since), calm.until) == (1, hours(-1).timestamp())


def test_hours_without_an_offer_are_not_a_price(store: Store) -> None:
    other = {f"t{n}@us-east-1a": 1.0 + n for n in range(10)}
    for hour, prices in ((-9, other | {HERE: 10.0}), (-6, other), (-3, other | {HERE: 11.0})):
        store.switch(price_set(prices, market=Market.SPOT, at=hours(hour)))
    steps = spot_history(store, now=NOW)["aws", "us-east-1", "us-east-1a", "p4d.24xlarge"]
    assert np.isnan(steps.usd_per_hour).tolist() == [False, True, False]


def test_what_is_older_than_the_window_is_left_out(store: Store) -> None:
    store.switch(price_set({HERE: 10.0}, market=Market.SPOT, at=hours(-100)))
    assert spot_history(store, now=NOW, days=1.0) == {}


def test_a_price_that_held_before_the_window_holds_from_its_beginning(store: Store) -> None:
    for hour, usd in ((-100, 9.0), (-50, 10.0), (-1, 12.0)):
        store.switch(price_set({HERE: usd, "p4d.24xlarge@us-east-1b": 7.0}, market=Market.SPOT, at=hours(hour)))
    found = spot_history(store, now=NOW, days=1.0)
    moved, calm = (found["aws", "us-east-1", f"us-east-1{zone}", "p4d.24xlarge"] for zone in "ab")
    assert moved.since.tolist() == [hours(-24).timestamp(), hours(-1).timestamp()]
    assert moved.usd_per_hour.tolist() == [10.0, 12.0]
    assert (calm.usd_per_hour.tolist(), calm.hours) == ([7.0], pytest.approx(23.0))


def test_a_plan_follows_the_history_of_its_zone(estimator: Estimator, home: Path) -> None:
    store = Store(str(home / "prices.db"))
    for day in range(20):
        store.switch(price_set({HERE: 5.0 * 1.05**day}, market=Market.SPOT, at=hours(-24.0 * (20 - day))))
    store.close()
    words = ("plan", "--model", "llama3-8b", "--method", "lora", "--tokens", "500M", "--region", "us-east-1",
             "--instance-type", "p4d.24xlarge", "--market", "spot", "--format", "json")  # fmt: skip
    code, out, told = estimator(*words)
    assert code == 0, told
    [first, *_] = json.loads(out)["plans"]
    assert first["price"]["path"]["observations"] == 20
    assert first["price"]["path"]["mean"] > first["price"]["usd_per_hour_instance"]
    assert any("20 levels seen in 19 days in its zone" in note for note in first["warnings"])
    code, out, _ = estimator(*words[:-2], "--explain")
    assert "by 20 levels of 19 days: mean $" in out
