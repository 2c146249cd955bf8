"""Interruptions: exact formulae against simulation, and what chance may never do to a plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator import Workload, plan
from estimator.documents import PlanDocument
from estimator.risk.renewal import best_interval, expected_hours, expected_interruptions, young_interval
from estimator.risk.simulate import by_quantile, checkpoint_hours, event_by_event, halton_paths, lost_hours
from pricing.offers import current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
CASES = [(10.0, 0.1, 0.02, 0.5), (100.0, 0.6, 0.05, 0.7), (2.0, 0.05, 0.02, 0.5), (50.0, 0.01, 0.02, 1.0)]

hazards = st.floats(1e-4, 2.0)
hours = st.floats(0.1, 200.0)


@pytest.mark.parametrize(("work", "hazard", "write", "down"), CASES)
def test_simulated_events_agree_with_the_exact_expectation(
    work: float, hazard: float, write: float, down: float
) -> None:
    interval = best_interval(hazard, write)
    clock, hits = event_by_event(work, hazard, interval, write, down, paths=60_000, seed=3)
    assert clock.mean() == pytest.approx(float(expected_hours(work, hazard, interval, write, down)), rel=0.01)
    noise = 4 * hits.std() / np.sqrt(hits.size)
    assert hits.mean() == pytest.approx(float(expected_interruptions(work, hazard, interval, write)), abs=noise)


@pytest.mark.parametrize(("work", "hazard", "write", "down"), CASES)
def test_quantiles_agree_with_simulated_events(work: float, hazard: float, write: float, down: float) -> None:
    interval = best_interval(hazard, write)
    clock, _ = event_by_event(work, hazard, interval, write, down, paths=60_000, seed=4)
    moments = lost_hours(work, hazard, interval, write, down)
    quick = work + checkpoint_hours(work, interval, write) + by_quantile(moments, halton_paths(2048).lost)
    assert quick.mean() == pytest.approx(clock.mean(), rel=0.01)
    for q in (0.1, 0.5, 0.9):
        assert np.quantile(quick, q) == pytest.approx(np.quantile(clock, q), rel=0.02)


@given(hazard=hazards, write=st.floats(1e-4, 0.5), off=st.floats(0.3, 3.0))
def test_no_other_checkpoint_interval_does_better(hazard: float, write: float, off: float) -> None:
    best = float(best_interval(hazard, write))
    work = best * 1000  # so many segments that their whole number does not matter

    def per_work(interval: float) -> float:
        return float(np.expm1(hazard * (interval + write)) / interval)

    assert per_work(best) <= per_work(best * off) * (1 + 1e-9)
    assert float(expected_hours(work, hazard, best, write, 0.0)) >= work


def test_youngs_interval_is_the_limit_of_rare_interruptions() -> None:
    assert float(best_interval(1e-5, 0.01)) == pytest.approx(float(young_interval(1e-5, 0.01)), rel=1e-3)


@given(work=hours, low=hazards, more=st.floats(1.0, 10.0))
def test_a_higher_hazard_never_ends_sooner(work: float, low: float, more: float) -> None:
    calm, rough = (expected_hours(work, h, best_interval(h, 0.02), 0.02, 0.5) for h in (low, low * more))
    assert rough >= calm * (1 - 1e-9)


def test_without_a_hazard_the_time_is_the_work() -> None:
    assert float(expected_hours(7.0, 0.0, np.inf, 0.1, 1.0)) == 7.0


def test_halton_paths_are_even_and_the_same_every_time() -> None:
    paths = halton_paths(128)
    assert abs(float(paths.speed.mean())) < 0.05
    assert float(paths.lost.mean()) == pytest.approx(0.5, abs=0.02)
    assert halton_paths(128) is paths


# --- through the plan ----------------------------------------------------------------------------------------------


def planned(**changes: object) -> PlanDocument:
    request = {"model": "llama3-8b", "method": "lora", "tokens": "200M", "seq_len": 2048, "global_batch": 64}
    return plan(Workload.model_validate(request | changes), offers=MARKET, now=NOW)


SPOT = {"gpus": ["A100-SXM4-80GB:8"], "markets": ["spot"], "clouds": ["aws"]}


def test_spot_that_is_never_interrupted_takes_the_on_demand_time() -> None:
    calm = {"run": {"failures": False}, "spot": {"interruptions": False}}
    spot = planned(**calm, constraints=SPOT).plans[0]
    on_demand = planned(**calm, constraints=SPOT | {"markets": ["on-demand"]}).plans[0]
    assert spot.hours == on_demand.hours
    assert spot.risk.expected_interruptions == 0


few = settings(max_examples=20, deadline=None)


@few
@given(hazard=st.floats(0.0, 0.5), more=st.floats(0.0, 1.5))
def test_the_chance_to_finish_in_time_does_not_rise_with_the_hazard(hazard: float, more: float) -> None:
    calm, rough = (
        planned(spot={"hazard_per_hour": h}, constraints=SPOT | {"deadline": 100.0}).plans[0].risk
        for h in (hazard, hazard + more)
    )
    assert rough.probability_deadline <= calm.probability_deadline + 1e-12


def test_a_job_that_falls_back_to_on_demand_is_surer_and_no_slower() -> None:
    rough = {"hazard_per_hour": 0.6}
    deadline = planned(spot={"interruptions": False}, constraints=SPOT).plans[0].hours.p90 * 1.4
    limits = SPOT | {"markets": ["spot", "on-demand"], "deadline": deadline}

    def spot_way(policy: str) -> object:
        found = planned(spot=rough | {"policy": policy, "fallback_after": 1}, constraints=limits, options={"top": 50})
        return next(p for p in found.plans if p.market == "spot")

    wait, fallback = spot_way("wait"), spot_way("fallback")
    assert fallback.risk.probability_deadline >= wait.risk.probability_deadline
    assert fallback.hours.p90 <= wait.hours.p90


def test_confidence_keeps_only_plans_that_are_sure_enough() -> None:
    found = planned(constraints={"deadline": "6h", "confidence": 0.95}, options={"top": 30}).plans
    assert found
    assert all(p.risk.probability_deadline >= 0.95 for p in found)


def test_parts_of_a_run_can_be_turned_off() -> None:
    bare = {"start_up": False, "staging": False, "evaluation": False, "checkpoints": False, "failures": False}
    best = planned(run=bare, bill={"storage": False}, constraints={"markets": ["on-demand"]}).plans[0]
    assert best.hours_parts["training"] == pytest.approx(best.hours.p50, rel=1e-3)
    assert list(best.cost_parts) == ["machines"]


def test_evaluation_may_be_stated_as_interval_and_size() -> None:
    run = {"evaluate": {"every_steps": 100, "samples": 6400}}
    best = planned(run=run, constraints={"markets": ["on-demand"]}).plans[0]
    # 6,400 forward passes for every 6,400 samples trained; a LoRA step is about half forward
    assert 0.3 < best.hours_parts["evaluation"] / best.hours_parts["training"] < 0.6


def test_an_evaluation_after_every_pass_is_one_every_so_many_steps() -> None:
    run = {"evaluate": {"every_epochs": 1, "samples": 6400}}
    passes, steps = (
        planned(run=run, tokens="26.2144M", epochs=3, constraints={"markets": ["on-demand"]}).plans[0]
        for run in (run, {"evaluate": {"every_steps": 200, "samples": 6400}})
    )
    assert passes.hours_parts["evaluation"] == pytest.approx(steps.hours_parts["evaluation"], rel=1e-3)


@pytest.mark.parametrize("how", [{"samples": 5}, {"samples": 5, "every_steps": 3, "every_epochs": 1}])
def test_how_often_to_evaluate_is_said_once(how: dict[str, float]) -> None:
    with pytest.raises(WorkloadError, match="say how often"):
        planned(run={"evaluate": how})


def test_tax_fees_and_failed_attempts_are_lines_of_the_bill() -> None:
    best = planned(
        run={"attempts": 1.5}, bill={"tax_percent": 20, "fixed_usd": 3, "data_in": "aws", "egress_gb": 10}
    ).plans[0]
    parts = best.cost_parts
    assert parts["other_attempts"] == pytest.approx(0.5 * parts["machines"])
    assert parts["tax"] == pytest.approx(best.cost_usd.p50 / 6)
    assert parts["fees"] == 3
    assert parts["egress"] > 0


def test_a_spot_plan_is_compared_with_fallback_and_on_demand() -> None:
    found = planned(constraints={"deadline": "8h", "clouds": ["aws"], "gpus": ["A100-SXM4-80GB:8"]})
    assert any(p.market == "spot" for p in found.plans)
    cases = {case.policy: case for case in found.policies}
    assert list(cases) == ["wait", "fallback-after-1", "fallback-after-3", "on-demand"]
    assert cases["on-demand"].expected_interruptions < cases["wait"].expected_interruptions
    assert cases["fallback-after-1"].probability_deadline >= cases["wait"].probability_deadline
    spot = next(p for p in found.plans if p.market == "spot")
    assert cases["wait"].expected_cost_usd == pytest.approx(spot.risk.expected_cost_usd, rel=0.05)


def test_spot_without_a_discount_is_said_to_be_dearer() -> None:
    market = MARKET.select(
        (MARKET.instance_type == "p4de.24xlarge") & np.isin(MARKET.market.astype(str), ["spot", "on-demand"])
    )
    same = replace(market, usd_per_hour=np.full(len(market), 27.0))
    workload = Workload(model="llama3-8b", method="lora", tokens="2B", seq_len=2048, global_batch=64)
    found = plan(workload, offers=same, now=NOW, measured=()).plans
    spot = next(p for p in found if p.market == "spot")
    assert any("dearer in expectation" in note for note in spot.warnings)


def test_a_few_hopeless_paths_do_not_make_the_expectation() -> None:
    """Hazards stay within what the sources saw, so what is expected lies within the interval that is shown."""
    asked = {"model": "llama2-7b", "method": "full", "tokens": "500M", "global_batch": 64}
    limits = {"gpus": ["A100-80GB:8"], "markets": ["spot"]}
    for p in plan(Workload.model_validate(asked | {"constraints": limits}), offers=MARKET, now=NOW).plans:
        assert p.cost_usd is not None
        assert p.risk.expected_cost_usd is not None
        assert p.cost_usd.p10 < p.risk.expected_cost_usd < p.cost_usd.p90
        assert p.risk.expected_interruptions <= p.risk.hazard_per_hour.high * p.hours.p90


def test_spot_may_fall_back_to_the_on_demand_price_of_another_region() -> None:
    asked = {"model": "llama2-7b", "method": "full", "tokens": "500M", "global_batch": 64}
    found = plan(Workload.model_validate(asked | {"constraints": {"gpus": ["A100-80GB:8"]}}), offers=MARKET, now=NOW)
    assert found.plans[0].market == "spot"
    costs = {one.policy: one.expected_cost_usd for one in found.policies}
    assert costs["wait"] < costs["fallback-after-3"] < costs["fallback-after-1"] < costs["on-demand"]


def test_an_eviction_band_of_azure_is_a_rate_an_hour_and_for_azure_alone() -> None:
    def hazards(**spot: object) -> dict[str, tuple[float, float]]:
        limits = {"markets": ["spot"], "max_nodes": 1}
        plans = planned(spot=spot, run={"failures": False}, constraints=limits, options={"top": 40}).plans
        return {p.cloud: (p.risk.hazard_per_hour.low, p.risk.hazard_per_hour.high) for p in plans}

    usual, stated = hazards(), hazards(azure_eviction="5-10%")
    assert stated["azure"] == pytest.approx((-np.log(0.95), -np.log(0.9)))
    assert (stated["aws"], stated["gcp"]) == (usual["aws"], usual["gcp"])
    overruled = hazards(azure_eviction="20+", hazard_per_hour=0.3)
    assert overruled["azure"] == pytest.approx((0.3, 0.3))


def test_saving_on_notice_loses_no_work_where_the_notice_is_long_enough() -> None:
    rough = {"hazard_per_hour": 0.5}
    plain, saved, slow = (
        planned(spot=rough | {"save_on_notice": save}, run=run, constraints=SPOT).plans[0]
        for save, run in ((False, {}), (True, {}), (True, {"checkpoint_gbps": 1e-4}))
    )
    assert saved.hours.p50 < plain.hours.p50
    assert saved.risk.expected_lost_hours < plain.risk.expected_lost_hours
    unsaved = planned(spot=rough, run={"checkpoint_gbps": 1e-4}, constraints=SPOT).plans[0]
    assert slow.hours == unsaved.hours  # a checkpoint takes longer than the two minutes of notice


def test_the_time_to_mend_a_failure_may_be_stated() -> None:
    often = {"failures_per_gpu_hour": 0.01, "checkpoints": True}
    on_demand = {"constraints": {"markets": ["on-demand"], "gpus": ["A100-SXM4-80GB:8"]}}
    quick, slow = (planned(run=often | {"repair_hours": h}, **on_demand).plans[0] for h in (0, 2))
    assert quick.hours.p50 < slow.hours.p50
    assert "interruptions" not in slow.hours_parts
    assert slow.hours_parts["failures"] > quick.hours_parts.get("failures", 0.0)


@few
@given(
    tokens=st.floats(1e6, 1e10),
    hazard=st.floats(0.0, 2.0),
    policy=st.sampled_from(["wait", "fallback"]),
    nodes=st.integers(1, 8),
)
def test_the_quantiles_of_hours_and_dollars_are_ordered(tokens: float, hazard: float, policy: str, nodes: int) -> None:
    spot = {"hazard_per_hour": hazard, "policy": policy}
    limits = {"clouds": ["aws", "gcp"], "min_nodes": nodes, "max_nodes": nodes}
    for p in planned(tokens=tokens, spot=spot, constraints=limits, options={"top": 20}).plans:
        assert p.hours.p10 <= p.hours.p50 <= p.hours.p90
        assert p.cost_usd.p10 <= p.cost_usd.p50 <= p.cost_usd.p90
        assert all(part >= 0 for part in (*p.hours_parts.values(), *p.cost_parts.values()))


def test_a_fallback_without_a_price_on_demand_is_said() -> None:
    found = planned(spot={"policy": "fallback"}, constraints=SPOT).plans[0]
    assert any("the job waits instead" in note for note in found.warnings)


def test_spot_that_hardly_ever_ends_is_left_out_where_there_is_anything_else() -> None:
    rough = {"spot": {"hazard_per_hour": 3.0}, "run": {"checkpoint_gbps": 0.002}, "tokens": "2B"}
    limits = {"gpus": ["A100-SXM4-80GB:8"], "clouds": ["aws"]}
    found = planned(**rough, constraints=limits)
    assert {p.market for p in found.plans} == {"on-demand"}
    assert found.rejected["interruptions"] > 0
    alone = planned(**rough, constraints=limits | {"markets": ["spot"]}).plans[0]
    assert alone.hours.p90 > 10 * alone.hours_parts["training"]


def test_plans_may_be_ranked_by_what_they_cost_in_expectation() -> None:
    found = planned(
        tokens="2B", options={"sort": "expected", "top": 30}, constraints={"deadline": "100h", "confidence": 0.95}
    )
    expected = [p.risk.expected_cost_usd for p in found.plans]
    assert expected == sorted(expected)
