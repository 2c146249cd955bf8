from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.following.reconcile import Outcome, focus_cost, multiplier, reconciled

FOCUS = (
    "BilledCost,EffectiveCost,BillingCurrency,ResourceId,ConsumedQuantity,ConsumedUnit,Tags\n"
    '10,9,USD,i-1,2,Hours,"{""job"": ""lora-7""}"\n'
    '5,4.5,USD,i-2,1,Hours,"{""job"": ""lora-7""}"\n'
    '3,3,USD,vol-1,100,GB-Mo,"{""job"": ""lora-7""}"\n'
    '99,99,USD,i-3,9,Hours,"{""job"": ""other""}"\n'
)


def outcome(planned: float | None = 10.0, actual: float | None = 12.0) -> Outcome:
    return Outcome("run", "2026-11-30", planned, actual, 100.0, None)


def test_a_run_is_held_against_its_plan() -> None:
    found = reconciled(outcome(), [], hours_interval=(8, 13))
    assert found.hours_ratio == pytest.approx(1.2)
    assert found.hours_within is True
    assert found.usd_ratio is None
    assert found.usd_within is None
    assert reconciled(outcome(actual=20.0), [], hours_interval=(8, 13)).hours_within is False


def test_without_history_the_multiplier_is_one_and_wide() -> None:
    nothing = multiplier([])
    assert nothing.p50 == 1
    assert nothing.p10 < 0.6
    assert nothing.p90 > 1.6


def test_history_pulls_the_multiplier_and_narrows_it() -> None:
    one, many = multiplier([1.5]), multiplier([1.5] * 20)
    assert 1 < one.p50 < many.p50 < 1.5
    assert many.p90 / many.p10 < one.p90 / one.p10 < multiplier([]).p90 / multiplier([]).p10


def test_earlier_runs_count() -> None:
    found = reconciled(outcome(), [outcome(actual=15.0), outcome(planned=None)])
    assert found.hours_multiplier.runs == 2


@given(st.lists(st.floats(0.01, 100), max_size=20))
def test_the_multiplier_lies_within_its_interval(ratios: list[float]) -> None:
    found = multiplier(ratios)
    assert 0 < found.p10 < found.p50 < found.p90
    assert min([1.0, *ratios]) * 0.999 <= found.p50 <= max([1.0, *ratios]) * 1.001


def test_a_focus_export_is_summed_over_what_matches() -> None:
    assert focus_cost(FOCUS, wanted={"tag.job": "lora-*"}) == (pytest.approx(16.5), pytest.approx(3.0))
    assert focus_cost(FOCUS, wanted={"ResourceId": "vol-*"}) == (3.0, None)
    assert focus_cost("\ufeff" + FOCUS, wanted={})[0] == pytest.approx(115.5)


@pytest.mark.parametrize(
    ("text", "wanted", "field"),
    [
        ("Cost\n5\n", {}, "--focus"),
        (FOCUS, {"tag.job": "nobody"}, "--match"),
        (FOCUS, {"Colour": "red"}, "--match"),
        (FOCUS.replace("USD", "EUR"), {}, "--focus"),
        (FOCUS.replace("4.5", "much"), {}, "--focus"),
        (FOCUS.replace("4.5", "nan"), {}, "--focus"),
        ("", {}, "--focus"),
    ],
)
def test_an_export_that_cannot_be_used_is_refused(text: str, wanted: dict[str, str], field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        focus_cost(text, wanted=wanted)
    assert caught.value.field == field
