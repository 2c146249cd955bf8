"""How a spot price moved before says what an hour of a run will cost; without a past the present price holds."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator import Workload, plan
from estimator.documents import PlanEntry
from estimator.risk.price_path import LENGTHS, constant, factors, price_paths
from pricing.offers import current_offers
from pricing.spot_history import Place, SpotHistory, Steps

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
HOUR = 3600.0


def steps(*usd: float, every: float = 24.0) -> Steps:
    since = np.arange(len(usd)) * every * HOUR
    return Steps(since, np.array(usd), float(since[-1] + every * HOUR))


levels = st.lists(st.floats(0.1, 50.0), min_size=2, max_size=12)


@given(levels, st.floats(0.5, 200.0))
def test_the_quantiles_are_ordered_and_within_what_was_seen(usd: list[float], every: float) -> None:
    low, middle, high, mean = factors(steps(*usd, every=every))
    assert (low <= middle + 1e-12).all()
    assert (middle <= high + 1e-12).all()
    assert (low >= min(usd) / max(usd) - 1e-9).all()
    assert (high <= max(usd) / min(usd) + 1e-9).all()
    assert ((min(usd) / max(usd) - 1e-9 <= mean) & (mean <= max(usd) / min(usd) + 1e-9)).all()


def test_a_window_is_averaged_over_the_hours_that_follow() -> None:
    """A day at 1 and a day at 3: a day that begins in the middle of the first pays 2 on average, twice the start."""
    doubled = factors(steps(1.0, 3.0))[:, LENGTHS.index(24.0)]
    starts = np.linspace(0.0, 24.0, 64)
    expected = (24.0 - starts + 3.0 * starts) / 24.0
    expected[-1] = 1.0  # the last window begins where the price has risen already
    assert doubled[3] == pytest.approx(expected.mean(), rel=1e-6)
    assert doubled[1] == pytest.approx(np.median(expected), rel=1e-6)


def test_hours_in_which_a_machine_was_not_offered_count_for_nothing() -> None:
    gap = factors(steps(2.0, np.nan, 2.0))
    assert gap == pytest.approx(np.ones_like(gap))


def test_a_price_that_never_moved_is_known_to_hold() -> None:
    place: Place = ("aws", "us-east-1", "us-east-1a", "p4d.24xlarge")
    found = price_paths({place: steps(5.0, every=240.0)}, [place, None], np.array([10.0, 10.0]))
    assert found.high.tolist() == [1.0, 1.0]
    assert found.observations.tolist() == [1, 0]
    assert found.days.tolist() == [10.0, 0.0]


def test_no_history_is_a_constant_price_and_says_that_nothing_was_seen() -> None:
    assert constant(3).observations.tolist() == [0, 0, 0]
    assert price_paths({}, [None], np.ones(1)).mean.tolist() == [1.0]


def cheapest(history: SpotHistory | None) -> PlanEntry:
    asked = {
        "model": "llama3-8b", "method": "lora", "tokens": "200M", "seq_len": 2048, "global_batch": 64,
        "constraints": {"markets": ["spot"], "clouds": ["aws"], "gpus": ["A100-SXM4-80GB:8"]},
    }  # fmt: skip
    return plan(Workload.model_validate(asked), offers=MARKET, now=NOW, history=history).plans[0]


def test_a_price_that_used_to_rise_makes_a_plan_dearer_and_its_interval_wider() -> None:
    calm = cheapest(None)
    here: Place = (calm.cloud, calm.region or "", calm.zone or calm.zone_id or "", calm.instance_type)
    rising = cheapest({here: steps(*(1.1**day for day in range(30)), every=12.0)})
    assert rising.price.path is not None
    assert (rising.price.path.observations, rising.price.path.days) == (30, 15.0)
    assert rising.price.path.p10 <= rising.price.path.p50 <= rising.price.path.p90
    assert rising.price.path.mean > rising.price.usd_per_hour_instance
    assert rising.cost_usd.p50 > calm.cost_usd.p50
    assert rising.hours == calm.hours
    assert any("30 levels seen in 15 days" in note for note in rising.warnings)


def test_another_zone_has_a_history_of_its_own() -> None:
    calm = cheapest(None)
    elsewhere: Place = (calm.cloud, calm.region or "", "another-zone", calm.instance_type)
    found = cheapest({elsewhere: steps(1.0, 9.0)})
    assert found.price.path is None
    assert found.cost_usd == calm.cost_usd
    assert any("no history of it is kept" in note for note in found.warnings)
