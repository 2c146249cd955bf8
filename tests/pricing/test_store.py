"""The price database, on SQLite and PostgreSQL: whole switches, history, quarantine, migrations."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from benchmarks_db.errors import WorkloadError
from pricing.instances import InstanceType
from pricing.interruptions import InterruptionFact
from pricing.offers import Freshness, Market, Offer, PriceState, current_offers
from pricing.quality import JUMP, Limits, judge
from pricing.sources.base import Failure, FailureReason, PriceSet
from pricing.store import Store, Switch, open_store
from pricing.store_queries import differences, price_history
from tests.pricing.sets import NOW, hours, price_set, rejection

FRESH = Freshness()
SPOT = {"p5.48xlarge@us-east-1a": 28.4, "p5.48xlarge@us-east-1b": 30.0, "p9x.metal@us-east-1a": 3.0}
LIST = {"p5.48xlarge": 55.04, "g5.xlarge": 1.006, "p9x.metal": 9.0}


def by_key(store: Store, at: float = 0.0) -> dict[tuple[str, str], Offer]:
    table, _ = store.current_table(now=hours(at), freshness=FRESH)
    return {(o.instance_type, o.zone or ""): o for o in table.offers()}


def rows_of(store: Store) -> dict[str, int]:
    tables = ("scopes", "price_keys", "prices", "current_prices", "quarantine", "packed")
    with store.reading() as ask:
        return {name: ask(f"SELECT count(*) FROM {name}")[0][0] for name in tables}


def test_a_switched_set_is_current_with_source_date_state_and_facts(store: Store) -> None:
    done = store.switch(price_set(SPOT, market=Market.SPOT))
    assert (done.outcome, done.added) == ("switched", 3)
    offers = by_key(store)
    p5 = offers["p5.48xlarge", "us-east-1a"]
    assert (p5.price_usd_per_hour, p5.source, p5.observed_at, p5.state) == (28.4, "aws:test", NOW, PriceState.LIVE)
    assert (p5.gpu, p5.gpus_per_node, p5.ranked) == ("H100-SXM5-80GB", 8.0, True)
    unknown = offers["p9x.metal", "us-east-1a"]
    assert (unknown.gpu, unknown.gpus_per_node, unknown.price_usd_per_hour) == (None, None, 3.0)


def test_a_quiet_refresh_writes_one_row_and_renews_every_age(store: Store) -> None:
    store.switch(price_set(LIST))
    before = rows_of(store)
    done = store.switch(price_set(LIST, at=hours(5)))
    assert (done.outcome, done.same) == ("unchanged", 3)
    assert rows_of(store) == before
    assert by_key(store, 5)["g5.xlarge", ""].observed_at == hours(5)


def test_only_what_changed_goes_into_the_history(store: Store) -> None:
    store.switch(price_set(LIST))
    done = store.switch(price_set({**LIST, "g5.xlarge": 1.1}, at=hours(1)))
    assert (done.changed, done.same) == (1, 2)
    assert rows_of(store)["prices"] == 4
    assert by_key(store, 1)["g5.xlarge", ""].price_usd_per_hour == 1.1


def test_a_type_that_is_gone_is_no_offer_any_more_and_stays_in_the_history(store: Store) -> None:
    many = {f"t{n}": 1.0 + n for n in range(10)}
    store.switch(price_set(many))
    done = store.switch(price_set({k: v for k, v in many.items() if k != "t3"}, at=hours(1)))
    assert done.gone == 1
    assert ("t3", "") not in by_key(store, 1)
    (series,) = price_history(store, now=hours(2), days=1, instance_type="T3")
    assert [price for _, price in series.steps] == [4.0, None]
    assert store.switch(price_set(many, at=hours(2))).added == 1


def test_an_older_fetch_never_replaces_a_newer_one(store: Store) -> None:
    store.switch(price_set(LIST, at=hours(1)))
    assert store.switch(price_set({**LIST, "g5.xlarge": 2.0}, at=NOW)).outcome == "superseded"
    assert by_key(store, 1)["g5.xlarge", ""].price_usd_per_hour == 1.006


def test_a_suspect_set_changes_nothing_and_says_why(store: Store) -> None:
    many = {f"t{n}": 1.0 + n for n in range(10)}
    store.switch(price_set(many))
    done = store.switch(price_set({"t1": 2.0}, at=hours(1)))
    assert (done.outcome, done.detail) == ("suspect", "shrunk from 10 to 1 prices")
    offers = by_key(store, 1)
    assert len(offers) == 10
    assert {o.state for o in offers.values()} == {PriceState.STALE}
    assert "shrunk from 10 to 1" in offers["t1", ""].note
    assert offers["t1", ""].observed_at == NOW


def test_a_shrink_seen_three_times_over_a_day_is_taken(store: Store) -> None:
    store.switch(price_set({f"t{n}": 1.0 + n for n in range(10)}))
    less = {f"t{n}": 1.0 + n for n in range(5)}
    outcomes = [store.switch(price_set(less, at=hours(h))).outcome for h in (1, 13, 24.5, 26)]
    assert outcomes == ["suspect", "suspect", "suspect", "switched"]
    assert len(by_key(store, 26)) == 5


def test_a_jump_is_quarantined_kept_stale_and_confirmed_by_the_next_fetch(store: Store) -> None:
    many = {f"t{n}": 10.0 + n for n in range(10)}
    store.switch(price_set(many))
    assert store.switch(price_set({**many, "t3": 130.0}, at=hours(1))).kept == 1
    held = by_key(store, 1)["t3", ""]
    assert (held.price_usd_per_hour, held.state, held.observed_at) == (13.0, PriceState.STALE, NOW)
    assert JUMP in held.note
    assert by_key(store, 1)["t4", ""].state is PriceState.LIVE
    (row,) = store.quarantined(open_only=True)
    assert (row.instance_type, row.price, row.reason, row.fetches) == ("t3", "130.0", JUMP, 1)
    assert store.switch(price_set({**many, "t3": 130.0}, at=hours(2))).changed == 1
    assert by_key(store, 2)["t3", ""].price_usd_per_hour == 130.0
    (row,) = store.quarantined()
    assert (row.fetches, row.resolution) == (2, "confirmed by a second fetch")
    assert not store.quarantined(open_only=True)


def test_a_kept_price_is_live_again_once_the_cloud_states_it_again(store: Store) -> None:
    many = {f"t{n}": 10.0 + n for n in range(10)}
    store.switch(price_set(many))
    store.switch(price_set({**many, "t3": 130.0}, at=hours(1)))
    store.switch(price_set(many, at=hours(2)))
    back = by_key(store, 2)["t3", ""]
    assert (back.price_usd_per_hour, back.state, back.observed_at, back.note) == (13.0, PriceState.LIVE, hours(2), "")


def test_spot_is_held_against_the_on_demand_prices_in_the_store(store: Store) -> None:
    store.switch(price_set(LIST))
    done = store.switch(price_set({"p5.48xlarge@a": 60.0, "g5.xlarge@a": 1.0}, market=Market.SPOT))
    assert done.added == 1
    assert store.quarantined()[0].reason == "spot above on-demand"


def test_a_machine_listed_without_a_price_is_unpriced(store: Store) -> None:
    store.switch(price_set(LIST, rejected=(rejection("no price: ram SKU missing", "a4x"),)))
    offer = by_key(store)["a4x", ""]
    assert (offer.price_usd_per_hour, offer.state, offer.ranked) == (None, PriceState.UNPRICED, False)
    assert offer.note == "no price: ram SKU missing"
    before = rows_of(store)
    again = store.switch(price_set(LIST, at=hours(1), rejected=(rejection("no price: ram SKU missing", "a4x"),)))
    assert again.outcome == "unchanged"
    assert rows_of(store) == before


@pytest.mark.parametrize(("age", "market", "state"), [
    (0.9, Market.SPOT, PriceState.LIVE), (1.1, Market.SPOT, PriceState.STALE),
    (24 * 6.9, Market.ON_DEMAND, PriceState.LIVE), (24 * 7.1, Market.ON_DEMAND, PriceState.STALE),
])  # fmt: skip
def test_a_price_is_live_within_the_limit_of_its_kind(
    tmp_path: Path, age: float, market: Market, state: PriceState
) -> None:
    store = Store(str(tmp_path / "p.db"))
    store.switch(price_set({"a": 1}, market=market))
    assert by_key(store, age)["a", ""].state is state
    wide, _ = store.current_table(now=hours(age), freshness=Freshness(on_demand_hours=1000, spot_hours=1000))
    assert wide.offers()[0].state is PriceState.LIVE


def test_a_failure_keeps_the_last_good_set_marked_stale_with_the_reason(store: Store) -> None:
    store.switch(price_set(LIST))
    store.switch(price_set({"g5.xlarge@a": 0.4}, market=Market.SPOT))
    failure = Failure("aws", "us-east-1", Market.SPOT, FailureReason.THROTTLED, "RequestLimitExceeded", "aws:spot")
    store.record_failure(failure, hours(0.5))
    offers = by_key(store, 0.5)
    assert offers["g5.xlarge", ""].state is PriceState.LIVE
    assert offers["g5.xlarge", "a"].state is PriceState.STALE
    assert "throttled" in offers["g5.xlarge", "a"].note
    assert [(s.market, s.failing) for s in store.scopes()] == [("on-demand", False), ("spot", True)]
    (warning,) = current_offers(now=hours(0.5), store=store).warnings
    assert warning == "1 spot prices of aws could not be renewed, the oldest is 0.5 h old: see prices status"
    store.record_failure(replace(failure, region=None, market=None), hours(0.6))
    assert all(s.failing for s in store.scopes())
    store.switch(price_set(LIST, at=hours(1)))
    assert by_key(store, 1)["g5.xlarge", ""].state is PriceState.LIVE


def test_a_region_never_fetched_can_fail_and_hides_no_shipped_price(store: Store) -> None:
    failure = Failure("aws", "us-east-1", Market.ON_DEMAND, FailureReason.TIMEOUT, "slow", "aws:pricing")
    store.record_failure(failure, NOW)
    table = current_offers(now=NOW, store=store)
    assert len(table) == len(current_offers(now=NOW))


def test_fetched_sets_replace_the_shipped_ones_of_their_region_and_market_only(store: Store) -> None:
    store.switch(price_set({"p5.48xlarge": 50.0}))
    offers = [o for o in current_offers(now=NOW, store=store).offers() if o.cloud == "aws"]
    here = [o for o in offers if (o.region, o.market) == ("us-east-1", Market.ON_DEMAND)]
    assert [(o.instance_type, o.price_usd_per_hour) for o in here] == [("p5.48xlarge", 50.0)]
    assert {o.state for o in offers if o.market is Market.SPOT} == {PriceState.SNAPSHOT}
    assert [o for o in offers if o.region == "us-west-2" and o.market is Market.ON_DEMAND]


def test_stale_prices_are_warned_of_and_refused_beyond_max_age(store: Store) -> None:
    from benchmarks_db.errors import PricesUnavailable

    store.switch(price_set({"p5.48xlarge": 20.0}, market=Market.SPOT))
    table = current_offers(now=hours(3), store=store)
    assert table.warnings == ("1 spot prices of aws are stale: the oldest is 3.0 h old (limit 1 h)",)
    young = current_offers(now=hours(3), store=store, max_age_hours=4)
    assert [o.instance_type for o in young.offers() if o.ranked] == ["p5.48xlarge"]
    with pytest.raises(PricesUnavailable, match="3 h old"):
        current_offers(now=hours(3), store=store, max_age_hours=2)


def test_prices_as_of_a_date_are_those_known_then(store: Store) -> None:
    store.switch(price_set(LIST))
    store.switch(price_set({**LIST, "g5.xlarge": 1.2}, at=hours(10)))
    store.switch(price_set({"g5.xlarge@a": 0.3}, market=Market.SPOT, at=hours(10)))

    def at(count: float) -> dict[tuple[str, str], float | None]:
        table = current_offers(now=hours(99), store=store, as_of=hours(count))
        return {(o.instance_type, o.market): o.price_usd_per_hour for o in table.offers() if o.source == "aws:test"}

    assert at(-1) == {}
    assert at(5)["g5.xlarge", Market.ON_DEMAND] == 1.006
    assert ("g5.xlarge", Market.SPOT) not in at(5)
    assert at(11)["g5.xlarge", Market.ON_DEMAND] == 1.2
    moved = differences(*(current_offers(now=NOW, store=store, as_of=hours(h)) for h in (5, 6)))
    assert moved == []
    changes = differences(*(current_offers(now=NOW, store=store, as_of=hours(h)) for h in (5, 11)))
    g5 = [c for c in changes if c.instance_type == "g5.xlarge" and c.market == "on-demand" and c.region == "us-east-1"]
    assert [(c.before, c.after) for c in g5] == [(1.006, 1.2)]


def test_history_weighs_prices_by_the_time_they_were_in_force(store: Store) -> None:
    zone = "g5.xlarge@us-east-1a"
    for hour, usd in ((0, 1.0), (1, 2.0), (9, 4.0)):
        store.switch(price_set({zone: usd}, market=Market.SPOT, at=hours(hour)))
    (series,) = price_history(store, now=hours(10), days=10 / 24, market="spot")
    assert (series.zone, series.low, series.median, series.high, series.changes) == ("us-east-1a", 1.0, 2.0, 4.0, 2)
    assert series.mean == pytest.approx((1 + 16 + 4) / 10)
    (late,) = price_history(store, now=hours(10), days=2 / 24)
    assert (late.low, late.high, len(late.steps)) == (2.0, 4.0, 2)
    assert late.steps[0][0] == hours(8)


def test_packed_rows_and_plain_rows_are_the_same_and_a_switch_outdates_the_pack(store: Store) -> None:
    store.switch(price_set(SPOT, market=Market.SPOT))
    store.switch(price_set(LIST, rejected=(rejection("no price: x", "a4x"),)))
    plain, _ = store.current_table(now=NOW, freshness=FRESH)
    assert store.repack()
    assert not store.repack()
    packed, _ = store.current_table(now=NOW, freshness=FRESH)
    assert packed.offers() == plain.offers()
    assert np.array_equal(packed.type_index, plain.type_index)
    store.switch(price_set({**LIST, "g5.xlarge": 1.1}, at=hours(1)))
    assert by_key(store, 1)["g5.xlarge", ""].price_usd_per_hour == 1.1
    store.switch(price_set({**LIST, "g5.xlarge": 1.1}, at=hours(2)))
    store.repack()
    assert by_key(store, 2)["g5.xlarge", ""].observed_at == hours(2)


def test_machine_facts_and_reclaim_statistics_are_kept_and_written_only_when_they_change(store: Store) -> None:
    shape = InstanceType("aws", "p9x.metal", None, 4.0, vcpus=96, notes="GPU Z900")
    assert store.put_instance_types([shape], NOW) == 1
    assert store.put_instance_types([shape], hours(1)) == 0
    store.switch(price_set(SPOT, market=Market.SPOT))
    offer = by_key(store)["p9x.metal", "us-east-1a"]
    assert (offer.gpu, offer.gpus_per_node) == (None, 4.0)
    fact = InterruptionFact("aws", "us-east-1", "p5.48xlarge", 20.0, None, 50.0, NOW, "aws:spot-advisor")
    assert store.put_interruptions([fact]) == 1
    assert store.put_interruptions([replace(fact, observed_at=hours(1))]) == 0
    assert store.interruptions()["aws", "us-east-1", "p5.48xlarge"] == fact


def test_shipped_facts_win_over_those_seen_live(store: Store) -> None:
    store.put_instance_types([InstanceType("aws", "p5.48xlarge", "A100-SXM4-40GB", 1.0)], NOW)
    store.switch(price_set(LIST))
    assert by_key(store)["p5.48xlarge", ""].gpu == "H100-SXM5-80GB"


def test_a_judge_that_fails_leaves_the_last_good_set(store: Store) -> None:
    store.switch(price_set(LIST))

    def broken(*_: object) -> object:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.switch(price_set({**LIST, "g5.xlarge": 1.1}, at=hours(1)), judge=broken)  # type: ignore[arg-type]
    assert by_key(store, 1)["g5.xlarge", ""].price_usd_per_hour == 1.006
    trusting = Limits(shrink=1.0)

    def lenient(fetched: PriceSet, last: object, on_demand: object) -> object:
        return judge(fetched, last, on_demand=on_demand, limits=trusting)  # type: ignore[arg-type]

    assert store.switch(price_set({"g5.xlarge": 1.1}, at=hours(1)), judge=lenient).gone == 2  # type: ignore[arg-type]


def test_history_and_current_prices_refuse_a_price_of_zero(store: Store) -> None:
    store.switch(price_set({"a": 1}))
    with pytest.raises(Exception, match=r"(?i)check"), store.writing() as connection:
        connection.execute(text("UPDATE current_prices SET usd_per_hour = 0"))


def test_there_is_no_store_before_the_first_refresh(tmp_path: Path) -> None:
    assert open_store(str(tmp_path / "none.db")) is None
    assert not list(tmp_path.iterdir())


def test_sqlite_runs_in_write_ahead_mode(tmp_path: Path) -> None:
    Store(str(tmp_path / "p.db")).engine().dispose()
    connection = sqlite3.connect(tmp_path / "p.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_password_is_never_shown() -> None:
    assert "secret" not in Store("postgres://me:secret@host/prices").name
    with pytest.raises(WorkloadError, match="mysql"):
        Store("mysql://host/prices")


def test_a_switch_reports_what_it_did(store: Store) -> None:
    first = store.switch(price_set(LIST))
    assert isinstance(first, Switch)
    assert first.counts["accepted"] == 3


def test_freshness_limits_come_from_the_environment_or_are_refused() -> None:
    assert Freshness.from_environment({"ESTIMATOR_FRESH_SPOT_HOURS": "3"}) == Freshness(spot_hours=3)
    with pytest.raises(WorkloadError, match="ESTIMATOR_FRESH_ON_DEMAND_HOURS"):
        Freshness.from_environment({"ESTIMATOR_FRESH_ON_DEMAND_HOURS": "-1"})
    assert timedelta(hours=Freshness().on_demand_hours) == timedelta(days=7)
