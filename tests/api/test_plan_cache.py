"""A plan that was asked a moment ago is the same plan, but for the age of its prices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.market import Prices
from api.plan_cache import MOST_PLANS, Plans
from api.settings import Settings
from estimator import plan
from estimator.planning.steps import silently
from estimator.request.workload import Workload
from pricing.market import Market
from pricing.store import Store
from pricing.store_measurements import add_measurements
from tests.pricing.sets import price_set

NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)
ASKED = Workload.model_validate({"model": "llama3-8b", "method": "lora", "tokens": "10M", "options": {"top": 2}})
LISTED = ASKED.model_copy(
    update={"constraints": ASKED.constraints.model_copy(update={"gpus": ("L4:1",), "markets": (Market.ON_DEMAND,)})}
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def plans_of(tmp_path: Path, clock: Clock) -> Plans:
    settings = Settings(data_dir=tmp_path, database_url=f"sqlite:///{tmp_path}/prices.db", look_again_seconds=0)
    return Plans(Prices(settings, clock), clock)


def test_the_same_question_is_planned_once_and_answered_as_if_planned_again(tmp_path: Path, clock: Clock) -> None:
    plans = plans_of(tmp_path, clock)
    first = plans.planned(ASKED, NOW, silently)
    later = NOW + timedelta(seconds=36)
    clock.now += 36
    again = plans.planned(ASKED, later, silently)
    anew = plan(ASKED, offers=Prices(Settings(data_dir=tmp_path)).table(later), now=later)
    assert again == anew
    assert again != first  # the prices are 36 seconds older
    assert len(plans._kept) == 1


def test_new_prices_and_new_measurements_make_a_new_plan(tmp_path: Path, clock: Clock) -> None:
    store = Store(str(tmp_path / "prices.db"))
    store.switch(price_set({"g6.xlarge": 0.45}, at=NOW))
    plans = plans_of(tmp_path, clock)
    before = plans.planned(LISTED, NOW, silently)
    store.switch(price_set({"g6.xlarge": 0.3}, at=NOW + timedelta(minutes=1)))
    clock.now += 30
    cheap = plans.planned(LISTED, NOW + timedelta(minutes=1), silently)
    assert cheap.plans[0].price.usd_per_hour_instance == 0.3
    assert cheap.plans != before.plans
    row = {"model": "llama3-8b", "gpu": cheap.plans[0].gpu, "gpus": "1", "throughput": "2000", "unit": "tokens/s",
           "precision": "bf16", "peft": "lora", "seq_len": "2048", "source": "own", "task": "training",
           "scope": "total", "stack": "plain", "quality": "ok"}  # fmt: skip
    from benchmarks_db.contribute import identity

    add_measurements(store, [row | {"id": identity(row)}], now=NOW)
    clock.now += 30
    measured = plans.planned(LISTED, NOW + timedelta(minutes=1), silently)
    assert measured.plans[0].evidence.kind == "own"


def test_a_negotiated_price_ends_on_its_day_though_nothing_was_fetched(tmp_path: Path, clock: Clock) -> None:
    plans = plans_of(tmp_path, clock)
    ended = {"name": "E", "percent": 50, "until": f"{NOW:%Y-%m-%d}"}
    asked = Workload.model_validate(LISTED.model_dump(exclude_unset=True) | {"negotiated": {"discounts": [ended]}})
    before, after = (plans.planned(asked, NOW + timedelta(days=n), silently).plans[0] for n in range(2))
    assert before.price.usd_per_hour_instance == pytest.approx((after.price.usd_per_hour_instance or 0.0) / 2)


def test_what_the_customer_pays_is_of_the_moment_and_kept_like_other_prices(tmp_path: Path, clock: Clock) -> None:
    rule = "{name: quote, cloud: aws, region: us-east-1, instance_type: p5.48xlarge, usd_per_hour: 30}"
    (tmp_path / "prices.yaml").write_text(f"prices: [{rule}]")
    settings = Settings(data_dir=tmp_path, overrides=tmp_path / "prices.yaml", look_again_seconds=0)
    plans = Plans(Prices(settings, clock), clock)
    asked = LISTED.model_copy(update={"constraints": LISTED.constraints.model_copy(update={"gpus": ("H100:8",)})})
    for hours in (0, 1):
        price = plans.planned(asked, NOW + timedelta(hours=hours), silently).plans[0].price
        assert (price.usd_per_hour, price.age_hours) == (30, 0)
        assert price.observed_at == NOW + timedelta(hours=hours)
        clock.now += 3600
    assert len(plans._kept) == 1


def test_an_explanation_is_reused_for_a_minute_and_figures_until_something_changes(
    tmp_path: Path, clock: Clock
) -> None:
    plans = plans_of(tmp_path, clock)
    explained = ASKED.model_copy(update={"options": ASKED.options.model_copy(update={"explain": True})})
    for asked in (ASKED, explained):
        plans.planned(asked, NOW, silently)
    clock.now += 61
    kept = [document for _, _, document in plans._kept.values()]
    for asked in (ASKED, explained):
        plans.planned(asked, NOW, silently)
    assert [document is before for (_, _, document), before in zip(plans._kept.values(), kept, strict=True)] == [
        True,
        False,
    ]


def test_what_is_kept_is_bounded(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.plan_cache.MOST_PLANS", 7)
    plans = plans_of(tmp_path, clock)
    for n in range(5):
        asked = ASKED.model_copy(update={"tokens": 1e7 + n})
        plans.planned(Workload.model_validate(asked.model_dump(exclude_unset=True)), NOW, silently)
    assert len(plans._kept) == 2
    assert plans._held == 6
    assert MOST_PLANS > 7
