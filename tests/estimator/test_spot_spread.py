"""A spot price that nobody watched may have moved: as far as places differ, the further the longer ago it was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator import Workload, plan
from estimator.documents import PlanDocument
from estimator.planning.tradeoffs import FRESHER_DAYS
from estimator.risk.spot_spread import FEWEST, SETTLED_DAYS, mean_factor, spot_spread, widened
from pricing.offers import OfferTable, current_offers

SEEN = datetime(2026, 7, 15, tzinfo=UTC)
MARKET = current_offers(now=SEEN)
SPOT = MARKET.where("market", lambda market: market == "spot") & MARKET.ranked
LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}
NOW = datetime(2026, 9, 1, tzinfo=UTC)


def planned(market: OfferTable = MARKET, now: datetime = NOW, **changes: object) -> PlanDocument:
    return plan(Workload.model_validate(LORA | changes), offers=market, now=now)


def ratio(document: PlanDocument) -> float:
    cost = document.plans[0].cost_usd
    assert cost is not None
    return cost.p90 / cost.p50


def test_the_dollars_widen_with_the_age_of_a_spot_price_and_the_median_stays() -> None:
    limits = {"instance_types": ["g7e.2xlarge"], "markets": ["spot"], "regions": ["eu-south-2"], "max_nodes": 1}
    fresh, old, older = (planned(now=SEEN + timedelta(days=days), constraints=limits) for days in (0, 45, 200))
    assert ratio(fresh) < ratio(old) < ratio(older)
    medians = {document.plans[0].cost_usd.p50 for document in (fresh, old, older)}  # type: ignore[union-attr]
    assert len(medians) == 1
    assert fresh.plans[0].price.spread is not None
    spread = older.plans[0].price.spread
    assert spread is not None
    assert spread.p10 < (older.plans[0].price.usd_per_hour_instance or 0.0) < spread.p90
    assert spread.places == 14  # a filter that leaves one place does not make its price surer


def test_a_price_that_does_not_move_widens_nothing() -> None:
    document = planned(constraints={"markets": ["on-demand"]})
    assert all(entry.price.spread is None for entry in document.plans)
    assert not any("widen" in text for entry in document.plans for text in entry.warnings)


def test_what_may_have_moved_is_told_in_the_derivation_and_costs_more_on_average() -> None:
    [best] = planned(options={"explain": True, "top": 1}, constraints={"markets": ["spot"]}).plans
    assert best.price.spread is not None
    told = "\n".join(best.explanation)
    assert f"an hour may cost ${best.price.spread.p10:.4f} to ${best.price.spread.p90:.4f}" in told
    assert any("how places differ and its age widen the dollars" in text for text in best.warnings)
    assert best.cost_usd is not None
    assert (best.risk.expected_cost_usd or 0.0) > best.cost_usd.p50


@given(st.floats(0.3, 1.0), st.floats(1.0, 4.0), st.floats(0.2, 0.95), st.floats(1.05, 5.0))
def test_widening_never_narrows_and_keeps_the_order(below: float, above: float, low: float, high: float) -> None:
    before = np.array([[low], [1.0], [high]])
    after = widened(before, np.array([below]), np.array([above]))
    assert (after[0] <= before[0] + 1e-12).all()
    assert after[1] == before[1]
    assert (after[2] >= before[2] - 1e-12).all()


def test_widening_is_that_of_a_product_of_log_normals() -> None:
    draw = np.random.default_rng(1)
    hours, price = np.exp(0.3 * draw.standard_normal(400_000)), np.exp(0.4 * draw.standard_normal(400_000))
    known = np.quantile(hours, [0.1, 0.5, 0.9])[:, None]
    below, above = (np.array([np.quantile(price, share)]) for share in (0.1, 0.9))
    expected = np.quantile(hours * price, [0.1, 0.5, 0.9])
    assert widened(known, below, above)[:, 0] == pytest.approx(expected, rel=0.01)
    assert mean_factor(below, above)[0] == pytest.approx(price.mean(), rel=0.01)


def test_the_spread_is_that_of_places_and_of_the_market_where_there_are_few() -> None:
    found = spot_spread(MARKET, NOW)
    known = found.places >= FEWEST
    assert np.isfinite(found.log_sd).all()
    assert found.log_sd[~known] == pytest.approx(float(np.median(found.log_sd[known])))
    kind = int(np.argmax(found.places))
    prices = MARKET.usd_per_hour[SPOT & (MARKET.type_index == kind)]
    assert found.median[kind] == pytest.approx(np.median(prices))


def test_the_spread_settles_and_a_cheap_place_may_rise_to_the_median_of_all() -> None:
    rows = np.flatnonzero(SPOT)
    long_ago = spot_spread(MARKET, SEEN + timedelta(days=10 * SETTLED_DAYS))
    below, above = long_ago.around(MARKET, rows, np.zeros(len(rows)))
    assert (below <= 1.0).all()
    median = long_ago.median[MARKET.type_index[rows]]
    cheap = MARKET.usd_per_hour[rows] < median
    assert (above[cheap] >= median[cheap] / MARKET.usd_per_hour[rows][cheap] * (1 - 1e-9)).all()


def test_a_steadier_price_at_nearly_the_same_dollars_is_named() -> None:
    one = {"markets": ["spot"], "instance_types": ["g7e.2xlarge", "g7e.12xlarge"], "max_nodes": 1}
    document = planned(constraints=one)
    dear = document.plans[1].cost_usd
    assert dear is not None
    cheap = MARKET.types.texts["instance_type"].index("g7e.2xlarge")
    lone = replace(  # the cheaper machine is nearly as dear as the other, and one place of it far below the others
        MARKET,
        usd_per_hour=np.where(
            SPOT & (MARKET.type_index == cheap),
            MARKET.usd_per_hour * dear.p50 / document.plans[0].cost_usd.p50 * 0.99,  # type: ignore[union-attr]
            MARKET.usd_per_hour,
        ),
    )
    found = planned(lone, constraints=one)
    assert found.plans[0].instance_type == "g7e.2xlarge"
    [words] = [text for text in found.tradeoffs if text.startswith("a steadier price")]
    assert "g7e.12xlarge" in words


def test_a_fresher_price_of_the_same_machines_is_named() -> None:
    limits = {"instance_types": ["g7e.2xlarge"], "markets": ["spot"], "max_nodes": 1}
    best = planned(constraints=limits).plans[0]
    kind = MARKET.types.texts["instance_type"].index("g7e.2xlarge")
    rows = np.flatnonzero(SPOT & (MARKET.type_index == kind))
    other = int(rows[np.argsort(MARKET.usd_per_hour[rows])[1]])
    usd, seen = MARKET.usd_per_hour.copy(), MARKET.observed.copy()
    usd[other] = (best.price.usd_per_hour_instance or 0.0) * 1.05
    assert not any(
        "fresher" in text for text in planned(replace(MARKET, usd_per_hour=usd), constraints=limits).tradeoffs
    )
    seen[other] = (NOW - timedelta(days=1)).timestamp()
    assert (NOW - SEEN).days - 1 > FRESHER_DAYS
    found = planned(replace(MARKET, usd_per_hour=usd, observed=seen), constraints=limits).tradeoffs
    assert any(text.startswith("a fresher price") and "seen 1 d ago instead of" in text for text in found)
