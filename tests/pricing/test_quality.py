"""The gate: what is believed, dropped, quarantined, and what makes a whole set suspect."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.offers import Market
from pricing.quality import (
    CONFLICT,
    JUMP,
    SPOT_ABOVE,
    ZERO,
    LastGood,
    Limits,
    PriceKey,
    Suspicion,
    judge,
)
from pricing.sources.base import Observation, PriceSet
from tests.pricing.sets import NOW, hours, observation, price_set, rejection


def good(prices: dict[str, float], source: str = "aws:test") -> LastGood:
    return LastGood(source, {PriceKey(n.partition("@")[2], n.partition("@")[0]): p for n, p in prices.items()})


def names(keys: object) -> set[str]:
    return {key.instance_type for key in keys}  # type: ignore[attr-defined]


TEN = {f"t{n}": 10.0 + n for n in range(10)}


def test_a_plain_set_is_accepted_whole() -> None:
    verdict = judge(price_set({"p5.48xlarge": "55.04", "g5.xlarge": 1.006}), LastGood())
    assert {k.instance_type: a.usd_per_hour for k, a in verdict.accepted.items()} == {
        "p5.48xlarge": 55.04, "g5.xlarge": 1.006,
    }  # fmt: skip
    assert verdict.suspect is None
    assert not verdict.quarantined


def test_a_price_of_zero_is_dropped_counted_and_never_free() -> None:
    verdict = judge(price_set({**TEN, "t3": 0}), good(TEN))
    assert "t3" not in names(verdict.accepted)
    assert names(verdict.kept) == {"t3"}
    assert verdict.counts[ZERO] == 1
    new = judge(price_set({"t3": 0}), LastGood())
    assert (dict(new.accepted), names(new.unpriced)) == ({}, {"t3"})


def test_a_free_twin_does_not_touch_the_real_price() -> None:
    both = (observation("p5.48xlarge", Decimal("55.04")), observation("p5.48xlarge", Decimal(0)))
    twins = replace(price_set({}), observations=both)
    verdict = judge(twins, LastGood())
    (accepted,) = verdict.accepted.values()
    assert accepted.usd_per_hour == 55.04
    assert not verdict.kept
    assert not verdict.unpriced


@pytest.mark.parametrize(
    "usd",
    [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400"), Decimal(-1), None, "x", True, [], 10**400],
)
def test_what_is_no_positive_finite_number_is_never_accepted(usd: object) -> None:
    one = PriceSet(
        "aws", "us-east-1", Market.ON_DEMAND, "aws:test", NOW, (observation("a", usd), observation("b", Decimal(1)))
    )
    verdict = judge(one, LastGood())
    assert names(verdict.accepted) == {"b"}
    assert len(verdict.quarantined) == 1


def test_a_price_that_no_machine_costs_is_quarantined() -> None:
    verdict = judge(price_set({"Standard_NC40ads_H100_v5": 55122.1, "b": 1}), LastGood())
    assert names(verdict.accepted) == {"b"}
    assert verdict.quarantined[0].reason == "absurd price"


def test_a_row_of_another_region_or_market_is_not_taken_in() -> None:
    stray = Observation("aws", "eu-west-1", "a", Market.ON_DEMAND, Decimal(1))
    mixed = replace(price_set({"b": 1}), observations=(stray, observation("b", Decimal(1))))
    assert names(judge(mixed, LastGood()).accepted) == {"b"}


def test_a_record_stamped_ahead_of_the_clock_is_not_taken() -> None:
    ahead = observation("a", Decimal(1), effective_at=NOW + timedelta(minutes=6))
    close = observation("b", Decimal(1), effective_at=NOW + timedelta(minutes=4))
    verdict = judge(replace(price_set({}), observations=(ahead, close)), LastGood())
    assert names(verdict.accepted) == {"b"}


def test_a_list_price_that_jumps_by_more_than_three_is_quarantined_and_the_last_good_one_kept() -> None:
    verdict = judge(price_set({**TEN, "t3": 130.0}), good(TEN))
    assert names(verdict.kept) == {"t3"}
    assert names(verdict.accepted) == {n for n in TEN if n != "t3"}
    (row,) = verdict.quarantined
    assert (row.reason, row.instance_type, row.resolution) == (JUMP, "t3", None)


def test_a_spot_price_may_move_by_more_than_three_but_not_by_more_than_ten() -> None:
    last = good({f"{n}@a": p for n, p in TEN.items()})
    moved = {f"{n}@a": p for n, p in TEN.items()} | {"t3@a": 2.6, "t4@a": 1.0}
    verdict = judge(price_set(moved, market=Market.SPOT), last)
    assert names(verdict.kept) == {"t4"}


def test_a_jump_seen_again_at_a_second_fetch_is_accepted_and_both_are_on_record() -> None:
    last = replace(good(TEN), jumped={PriceKey("", "t3"): 130.0})
    verdict = judge(price_set({**TEN, "t3": 130.0}), last)
    assert names(verdict.accepted) == set(TEN)
    assert verdict.confirmed == (PriceKey("", "t3"),)
    assert verdict.quarantined[0].resolution == "confirmed by a second fetch"


def test_another_jump_than_the_first_one_is_not_a_confirmation() -> None:
    last = replace(good(TEN), jumped={PriceKey("", "t3"): 130.0})
    assert names(judge(price_set({**TEN, "t3": 999.0}), last).kept) == {"t3"}


def test_jumps_are_held_against_the_same_source_only() -> None:
    verdict = judge(price_set({**TEN, "t3": 130.0}), good(TEN, source="aws:bulk"))
    assert names(verdict.accepted) == set(TEN)


def test_spot_above_on_demand_is_quarantined_equal_within_rounding_is_fine() -> None:
    on_demand = {PriceKey("", "a"): 27.43298, PriceKey("", "b"): 2.0}
    verdict = judge(price_set({"a@z": 27.433, "b@z": 2.01}, market=Market.SPOT), LastGood(), on_demand=on_demand)
    assert names(verdict.accepted) == {"a"}
    assert verdict.quarantined[0].reason == SPOT_ABOVE


def test_spot_above_on_demand_is_not_confirmed_by_repetition() -> None:
    on_demand = {PriceKey("", "b"): 2.0}
    last = replace(good({"b@z": 1.5}), jumped={PriceKey("z", "b"): 2.5})
    verdict = judge(price_set({"b@z": 2.5}, market=Market.SPOT), last, on_demand=on_demand)
    assert names(verdict.kept) == {"b"}


def test_spot_is_held_against_the_on_demand_price_of_its_own_zone_first() -> None:
    on_demand = {PriceKey("", "a"): 1.0, PriceKey("lax-1a", "a"): 1.3}
    assert judge(price_set({"a@lax-1a": 1.2}, market=Market.SPOT), LastGood(), on_demand=on_demand).accepted


@pytest.mark.parametrize("order", [1, -1])
def test_two_prices_for_one_key_are_a_conflict_decided_by_rule_not_by_order(order: int) -> None:
    twins = (observation("a", Decimal("1.10")), observation("a", Decimal("1.00")))[::order]
    verdict = judge(replace(price_set({}), observations=twins), LastGood())
    assert [a.usd_per_hour for a in verdict.accepted.values()] == [1.0]
    assert [(q.reason, q.price) for q in verdict.quarantined] == [(CONFLICT, "1.10")]
    kept = judge(replace(price_set({}), observations=twins), good({"a": 1.1}))
    assert [a.usd_per_hour for a in kept.accepted.values()] == [1.1]


def test_equal_prices_of_one_key_fold_without_a_conflict() -> None:
    twins = (observation("a", Decimal("1.0")), observation("a", Decimal("1.00")))
    verdict = judge(replace(price_set({}), observations=twins), LastGood())
    assert len(verdict.accepted) == 1
    assert not verdict.quarantined


def test_one_unreadable_row_never_fails_a_set_and_more_than_five_percent_do() -> None:
    small = price_set({"a": 1, "b": 2}, rejected=(rejection("price missing"),))
    assert judge(small, LastGood()).suspect is None
    many = {f"t{n}": 1 + n for n in range(30)}
    two = (rejection("price missing"), rejection("price missing"))
    assert judge(price_set(many, rejected=two), LastGood()).suspect is not None
    assert judge(price_set(many | {f"u{n}": 1 for n in range(20)}, rejected=two), LastGood()).suspect is None


def test_a_machine_without_a_price_is_unpriced_and_no_fault() -> None:
    lacking = tuple(rejection("no price: ram SKU missing", f"g4-{n}") for n in range(9))
    verdict = judge(price_set({"a": 1}, rejected=lacking), LastGood())
    assert verdict.suspect is None
    assert names(verdict.unpriced) == {f"g4-{n}" for n in range(9)}


def test_the_last_good_price_of_an_unreadable_row_is_kept() -> None:
    verdict = judge(price_set(dict(list(TEN.items())[:9]), rejected=(rejection("price missing", "t9"),)), good(TEN))
    assert names(verdict.kept) == {"t9"}
    nameless = judge(price_set(dict(list(TEN.items())[:9]), rejected=(rejection("not an object"),)), good(TEN))
    assert names(nameless.kept) == {"t9"}


def test_a_type_that_is_simply_gone_is_gone() -> None:
    verdict = judge(price_set(dict(list(TEN.items())[:9])), good(TEN))
    assert verdict.suspect is None
    assert not verdict.kept


def test_a_set_that_shrank_by_more_than_a_fifth_is_suspect() -> None:
    assert judge(price_set(dict(list(TEN.items())[:8])), good(TEN)).suspect is None
    verdict = judge(price_set(dict(list(TEN.items())[:7])), good(TEN))
    assert verdict.suspect == "shrunk from 10 to 7 prices"
    assert not verdict.accepted


def test_an_empty_set_never_replaces_a_good_one_but_may_be_a_first_one() -> None:
    assert judge(price_set({}), good(TEN)).suspect is not None
    assert judge(price_set({}), LastGood()).suspect is None


def test_a_mass_change_is_suspect() -> None:
    verdict = judge(price_set({n: p * 2 for n, p in TEN.items()}), good(TEN))
    assert verdict.suspect is not None
    assert "10 of 10" in verdict.suspect
    halved = {n: p * 0.7 for n, p in TEN.items()}  # a real price cut
    assert judge(price_set(halved), good(TEN)).suspect is None


def test_a_shrink_is_believed_when_a_person_says_so_or_after_three_fetches_over_a_day() -> None:
    less = dict(list(TEN.items())[:5])
    first = judge(price_set(less), good(TEN))
    assert first.fingerprint is not None
    assert judge(price_set(less), good(TEN), accept_suspect=True).suspect is None
    twice = replace(good(TEN), suspicion=Suspicion(first.fingerprint, NOW, 2))
    assert judge(price_set(less, at=hours(25)), twice).suspect is None
    assert judge(price_set(less, at=hours(23)), twice).suspect is not None
    once = replace(good(TEN), suspicion=Suspicion(first.fingerprint, NOW, 1))
    assert judge(price_set(less, at=hours(25)), once).suspect is not None
    other = replace(good(TEN), suspicion=Suspicion("shrunk:other", NOW, 9))
    assert judge(price_set(less, at=hours(25)), other).suspect is not None


def test_prices_of_zones_that_gave_no_answer_stay_and_are_no_shrink() -> None:
    last = good({f"{n}@{z}": p for n, p in TEN.items() for z in ("a", "b")})
    half = price_set({f"{n}@a": p for n, p in TEN.items()}, silent_zones=("b",))
    verdict = judge(half, last)
    assert verdict.suspect is None
    assert {k.place for k in verdict.kept} == {"b"}
    assert len(verdict.kept) == 10


def test_a_new_type_and_an_unknown_gpu_are_taken_as_they_come() -> None:
    verdict = judge(price_set({"p9x.metal": 12}), good({"p5.48xlarge": 55}))
    assert names(verdict.accepted) == {"p9x.metal"}


prices = st.one_of(
    st.decimals(allow_nan=True, allow_infinity=True),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(),
    st.none(),
    st.text(max_size=5),
)
rows = st.builds(
    Observation,
    cloud=st.sampled_from(["aws", "gcp"]),
    region=st.sampled_from(["us-east-1", ""]),
    instance_type=st.one_of(st.sampled_from(["a", "b", "c", "d"]), st.text(max_size=4), st.none(), st.integers()),  # type: ignore[arg-type]
    market=st.sampled_from([Market.ON_DEMAND, Market.SPOT]),
    price_usd_per_hour=prices,  # type: ignore[arg-type]
    zone=st.sampled_from([None, "a", "b"]),
    zone_id=st.sampled_from([None, "id1"]),
    effective_at=st.sampled_from([None, NOW, hours(1)]),
    raw_id=st.one_of(st.none(), st.text(max_size=3)),
)
lasts = st.dictionaries(
    st.builds(PriceKey, st.sampled_from(["", "a", "b"]), st.sampled_from(["a", "b", "c", "d"])),
    st.floats(min_value=0.01, max_value=1000),
)


@given(st.lists(rows, max_size=12), lasts, lasts, st.sampled_from([Market.ON_DEMAND, Market.SPOT]))
def test_whatever_comes_in_only_sane_prices_go_out(
    seen: list[Observation], last: dict[PriceKey, float], on_demand: dict[PriceKey, float], market: Market
) -> None:
    fetched = PriceSet("aws", "us-east-1", market, "aws:test", NOW, tuple(seen))
    verdict = judge(fetched, LastGood("aws:test", last), on_demand=on_demand)
    limits = Limits()
    for key, accepted in verdict.accepted.items():
        assert math.isfinite(accepted.usd_per_hour)
        assert 0 < accepted.usd_per_hour <= limits.ceiling_usd_per_hour
        assert isinstance(key.instance_type, str)
        assert any(o.instance_type == key.instance_type and o.market == market and o.cloud == "aws" for o in seen)
        if key in last:
            factor = limits.spot_jump if market is Market.SPOT else limits.on_demand_jump
            assert 1 / factor <= accepted.usd_per_hour / last[key] <= factor
    assert not verdict.accepted.keys() & verdict.kept.keys()
    assert verdict.kept.keys() <= last.keys()
    if verdict.suspect:
        assert not verdict.accepted
        assert not verdict.kept


@given(st.lists(rows, max_size=10), lasts)
def test_the_verdict_does_not_depend_on_the_order_of_arrival(
    seen: list[Observation], last: dict[PriceKey, float]
) -> None:
    def of(order: list[Observation]) -> dict[PriceKey, float]:
        fetched = PriceSet("aws", "us-east-1", Market.ON_DEMAND, "aws:test", NOW, tuple(order))
        return {k: a.usd_per_hour for k, a in judge(fetched, LastGood("aws:test", last)).accepted.items()}

    assert of(seen) == of(seen[::-1])
