"""What a plan does not look at closely could not have been in it."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator import Workload, plan
from estimator.job import job_of
from estimator.planning import contenders
from estimator.planning.offered import GpuFilter, offered
from estimator.planning.ways import Possible, ways_of
from estimator.risk import bounds
from estimator.risk.outcome import Outcome, Plain, outcome_of
from estimator.risk.spot_spread import spot_spread
from pricing.offers import current_offers
from pricing.spot_history import Steps

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
LORA: dict[str, object] = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}
FULL: dict[str, object] = {"model": "mistral-7b", "method": "full", "tokens": "200M"}
VISION: dict[str, object] = {"model": "resnet50", "images": "90M"}
ROWS = np.flatnonzero(MARKET.where("market", lambda market: market == "spot"))[::4]
PAST = {
    (offer.cloud, offer.region or "", offer.zone or offer.zone_id or "", offer.instance_type): Steps(
        NOW.timestamp() - 86400.0 * np.array([40.0, 20.0, 3.0]), np.array([0.7, 1.6, 1.0]), NOW.timestamp()
    )
    for offer in (MARKET.offer(int(row)) for row in ROWS)
}


def ways(body: dict[str, object]) -> Possible:
    job, every = job_of(Workload.model_validate(body)), GpuFilter({}, ())
    table = offered(MARKET, job.workload.constraints, every).table
    return ways_of(job, table, every, spread=spot_spread(MARKET, NOW), history=PAST)


@pytest.mark.parametrize("body", [LORA, FULL, VISION])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"constraints": {"deadline": "20h", "budget": 60}},
        {"constraints": {"deadline": "20h", "budget": 60, "confidence": 0.9, "max_usd_per_hour": 30}},
        {"constraints": {"deadline": "1m"}},
        {"constraints": {"max_usd_per_hour": 0.3, "deadline": "30m"}},
        {"options": {"sort": "expected", "top": 3}},
        {"options": {"sort": "value", "top": 1}},
        {"options": {"sort": "gpus"}, "run": {"checkpoints": False}},
        {"options": {"sort": "time"}, "spot": {"hazard_per_hour": 0.4, "wait": "1h"}},
    ],
)
def test_a_plan_is_the_same_where_every_way_is_lived_through(
    body: dict[str, object], change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Workload.model_validate(body | change)
    lived: list[int] = []

    def counted(plain: Plain, *, deadline: float | None, budget: float | None) -> Outcome:
        lived.append(len(plain.training))
        return outcome_of(plain, deadline=deadline, budget=budget)

    monkeypatch.setattr(contenders, "outcome_of", counted)
    quick = plan(request, offers=MARKET, now=NOW, history=PAST)
    assert 0 < sum(lived) < len(ways(body | change)) / 2 or not quick.plans
    monkeypatch.setattr(contenders, "FEW", 10**9)
    assert plan(request, offers=MARKET, now=NOW, history=PAST).model_dump_json() == quick.model_dump_json()


BODIES: list[dict[str, object]] = [
    LORA,
    FULL,
    VISION,
    {**FULL, "run": {"checkpoint_interval": "1h"}},
    {**LORA, "run": {"checkpoints": False}},
]
SHORT: dict[str, object] = {"model": "llama3-8b", "method": "lora", "tokens": "1M"}
PLAINS = [ways(body).plain for body in (*BODIES, SHORT, {**LORA, "spot": {"hazard_per_hour": 0.7, "wait": "3h"}})]


@settings(max_examples=30, deadline=None)
@given(
    number=st.integers(0, len(PLAINS) - 1),
    share=st.floats(0.0, 1.0),
    sure=st.floats(0.01, 0.999),
    step=st.integers(7, 40),
)
def test_bounds_never_contradict_what_is_lived_through(number: int, share: float, sure: float, step: int) -> None:
    plain = PLAINS[number]
    some = plain.select(np.arange(step % 7, len(plain.training), step))
    outcome = outcome_of(some, deadline=None, budget=None)
    deadline, budget = (float(np.quantile(x, share)) for x in (outcome.hours_p50, outcome.cost_p50))
    outcome = outcome_of(some, deadline=deadline, budget=budget)
    hours, cost = bounds.least(some, bounds.ranks_of(0.5)[0])
    assert (hours <= outcome.hours_p50).all()
    assert (cost <= outcome.cost_p50).all()
    ten = 10.0 * outcome.undisturbed_late
    half, often = bounds.ranks_of(0.5), bounds.ranks_of_share(sure)
    for (surely, surely_not), truth in (
        (bounds.Upper(some).keep(ten, bounds.ranks_of(0.9)), outcome.hours_p90 <= ten),
        (bounds.Upper(some).keep(deadline, half), outcome.hours_p50 <= deadline),
        (bounds.Upper(some).keep(budget, half, dollars=True), outcome.cost_p50 <= budget),
        (bounds.Upper(some).keep(deadline, often), outcome.meets_deadline >= sure),
        (bounds.Upper(some).keep(budget, often, dollars=True, unseen=True), outcome.meets_budget >= sure),
    ):
        assert not (surely & ~truth).any()
        assert not (surely_not & truth).any()


def test_bounds_are_tight_enough_to_leave_little_open() -> None:
    plain = PLAINS[0]
    surely, surely_not = bounds.Upper(plain).keep(24.0, bounds.ranks_of(0.5))
    assert (surely | surely_not).mean() > 0.8
