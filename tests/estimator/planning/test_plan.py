"""Ranked plans: what is promised whatever the request and the market."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import PricesUnavailable, UnknownName, WorkloadError
from estimator import Workload, estimate, plan
from estimator.cli.plan_tables import flagged, recommendation
from estimator.documents import PlanDocument
from estimator.planning.fronts import pareto_front
from pricing.market import Market
from pricing.offers import OfferTable, current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}


MARKET = current_offers(now=NOW)


def planned(market: OfferTable = MARKET, **changes: object) -> PlanDocument:
    return plan(Workload.model_validate(LORA | changes), offers=market, now=NOW)


def test_a_lora_run_gets_plans_from_all_three_clouds_cheapest_first() -> None:
    plans = planned().plans
    assert {p.cloud for p in plans} == {"aws", "gcp", "azure"}
    costs = [p.cost_usd.p50 for p in plans if p.cost_usd]
    assert costs == sorted(costs)
    assert [p.rank for p in plans] == list(range(1, 11))


@pytest.mark.parametrize("top", [1, 2, 5, 10, 100])
def test_the_list_is_as_long_as_asked_and_begins_with_the_best(top: int) -> None:
    plans = planned(options={"top": top}).plans
    assert len(plans) == top
    assert plans[0].model_copy(update={"rank": 1}) == planned().plans[0]
    if top >= 6:
        assert {p.cloud for p in plans} == {"aws", "gcp", "azure"}


def test_a_plan_multiplies_out() -> None:
    for p in planned(options={"top": 50}).plans:
        assert p.cost_usd is not None
        assert p.price.usd_per_hour == pytest.approx(p.price.usd_per_hour_instance * p.nodes)
        assert p.cost_usd.p50 == pytest.approx(sum(p.cost_parts.values()))
        machine_hours = p.cost_parts["machines"] / p.price.usd_per_hour
        if p.market == "on-demand":
            assert machine_hours == pytest.approx(p.hours.p50, rel=1e-3)
        else:  # waiting for spot capacity takes time, not money
            assert machine_hours <= p.hours.p50 * (1 + 1e-3)
        assert p.hours.p50 == pytest.approx(sum(p.hours_parts.values()))
        assert p.step_ms == pytest.approx(sum(p.breakdown_ms.values()))
        assert p.memory_gib.used == pytest.approx(sum(p.memory_gib.parts.values()))
        layout = p.layout
        assert layout.micro_batch * layout.grad_accum * layout.data == pytest.approx(64)
        assert p.hours.p10 <= p.hours.p50 <= p.hours.p90
        assert p.cost_usd.p10 <= p.cost_usd.p50 <= p.cost_usd.p90
        assert 0 < p.mfu <= 1


def test_the_same_request_gives_the_same_document() -> None:
    assert planned() == planned()


def test_sorting_by_time_puts_the_fastest_first() -> None:
    hours = [p.hours.p50 for p in planned(options={"sort": "time"}).plans]
    assert hours == sorted(hours)


def test_filters_keep_only_what_was_asked_for() -> None:
    asked = {"clouds": ["aws"], "regions": ["us-*"], "gpus": ["A10G", "L40S:4"], "markets": ["on-demand"]}
    plans = planned(constraints=asked, options={"top": 40}).plans
    assert plans
    for p in plans:
        assert p.cloud == "aws"
        assert p.region is not None
        assert p.region.startswith("us-")
        assert p.market == "on-demand"
        assert p.gpu == "A10G" or (p.gpu == "L40S" and p.gpus == 4)


def test_own_machines_stand_beside_the_clouds_that_are_named() -> None:
    own = [{"name": "lab", "gpu": "RTX-3090", "gpus_per_node": 8, "nodes": 1, "usd_per_hour": 0.0}]
    plans = planned(own=own, constraints={"clouds": ["aws"]}).plans
    assert plans[0].market is Market.OWN
    assert {plan.cloud for plan in plans[1:]} == {"aws"}


@pytest.mark.parametrize(
    ("limits", "binding"),
    [
        ({"deadline": "1m"}, "deadline"),
        ({"budget": 0.01}, "budget"),
        ({"max_usd_per_hour": 0.001}, "max-usd-per-hour"),
        ({"gpus": ["H200:3"]}, "gpu-count"),
        ({"gpus": ["H100:7"]}, "batch"),
        ({"clouds": ["azure"], "gpus": ["L4"]}, "gpu"),
    ],
)
def test_what_no_plan_satisfies_names_the_binding_limit(limits: dict, binding: str) -> None:
    document = planned(constraints=limits)
    assert document.plans == []
    assert document.binding == binding
    assert document.rejected[binding] > 0


def test_a_model_too_large_for_the_card_binds_on_memory_and_says_what_would_fit() -> None:
    document = plan(
        Workload(model="llama2-70b", method="full", tokens="1M", constraints={"gpus": ["T4:1"]}), offers=MARKET, now=NOW
    )
    assert document.plans == []
    assert document.binding == "memory"
    assert document.hints


def test_a_card_that_nobody_rents_out_is_pointed_to_own_machines() -> None:
    document = planned(constraints={"gpus": ["RTX-4090"]})
    assert document.plans == []
    assert any("no cloud offers RTX-4090" in hint and "own" in hint for hint in document.hints)
    assert not any("no cloud" in hint for hint in planned(constraints={"gpus": ["A100"], "regions": ["il-*"]}).hints)


def test_what_more_would_buy_is_never_said_to_cost_nothing() -> None:
    document = planned(constraints={"gpus": ["A100"]})
    assert document.tradeoffs
    assert not any(text.startswith("$0.00") or " 0.0 hours" in text for text in document.tradeoffs)


def test_the_derivation_tells_the_throughput_with_padding_too() -> None:
    asked = {"options": {"top": 1, "explain": True}, "constraints": {"gpus": ["A100"]}}
    [padded] = planned(**asked, packing=False, mean_tokens_per_sample=512).plans
    [said] = [line for line in padded.explanation if line.startswith("throughput = ")]
    assert f"({4 * padded.throughput.value:,.0f} with it, as many trainers count)" in said
    [packed] = planned(**asked).plans
    assert not any("with it" in line for line in packed.explanation)


def test_a_spot_price_far_below_all_other_places_is_pointed_out() -> None:
    asked = {"markets": ["spot"], "instance_types": ["g7e.2xlarge"]}
    rows = (MARKET.instance_type == "g7e.2xlarge") & (MARKET.market == "spot")
    places = MARKET.select(rows)
    for first, told in ((0.4, True), (0.6, False)):
        prices = np.ones(len(places))
        prices[0] = first
        [best, *_] = planned(replace(places, usd_per_hour=prices), constraints=asked).plans
        assert any("in this place only" in warning for warning in best.warnings) is told


def test_own_machines_rank_beside_cloud_offers_and_may_cost_nothing() -> None:
    own = [{"name": "lab", "gpu": "RTX-3090", "gpus_per_node": 8, "nodes": 1, "usd_per_hour": 0}]
    best = planned(own=own).plans[0]
    assert (best.cloud, best.instance_type, best.market, best.nodes) == ("own", "lab", "own", 1)
    assert best.cost_usd is not None
    assert best.cost_usd.p50 == 0


def test_a_cloud_that_nobody_knows_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="aws") as caught:
        planned(constraints={"clouds": ["awz"]})
    assert caught.value.field == "constraints.clouds"


def test_no_usable_price_is_an_error_of_its_own() -> None:
    nothing = MARKET.select(np.zeros(len(MARKET), dtype=bool))
    with pytest.raises(PricesUnavailable):
        planned(nothing)


def test_dearer_places_are_counted_not_listed() -> None:
    plans = planned(options={"top": 100}).plans
    assert len({(p.cloud, p.instance_type, p.market, p.nodes) for p in plans}) == len(plans)
    assert any(p.other_offers > 0 for p in plans)


def test_the_frontier_falls_in_cost_as_it_rises_in_hours() -> None:
    front = planned().frontier
    assert len(front) > 2
    for fast, slow in pairwise(front):
        assert fast.hours < slow.hours
        assert fast.cost_usd > slow.cost_usd


def test_quotas_close_places_and_bound_the_gpus_of_a_plan() -> None:
    quotas = [{"cloud": "aws", "max_gpus": 0}, {"gpu": "H100", "max_gpus": 8}]
    plans = planned(constraints={"quotas": quotas}, options={"top": 200}).plans
    assert plans
    assert not [p for p in plans if p.cloud == "aws"]
    assert max(p.gpus for p in plans if p.gpu.startswith("H100")) <= 8
    assert max(p.gpus for p in plans if p.gpu.startswith("A100")) > 8


def test_a_quota_in_the_cheapest_region_leaves_the_others_open() -> None:
    limits = {"gpus": ["H100-SXM5-80GB"], "markets": ["on-demand"], "clouds": ["aws"]}
    best = planned(constraints=limits).plans[0]
    closed = planned(constraints=limits | {"quotas": [{"region": best.region, "max_gpus": 0}]}).plans[0]
    assert closed.region != best.region
    assert closed.cost_usd.p50 >= best.cost_usd.p50


def test_excluded_regions_are_left_out() -> None:
    plans = planned(constraints={"exclude_regions": ["us-*"]}, options={"top": 100}).plans
    assert plans
    assert not [p for p in plans if p.region and p.region.startswith(("us-", "eastus", "westus", "centralus"))]


def test_memory_tells_the_margin_and_the_worst_moment_of_each_phase() -> None:
    memory = planned().plans[0].memory_gib
    assert memory.margin == pytest.approx(memory.capacity - memory.used)
    assert 0 <= memory.probability <= 1
    assert memory.phases["backward"] == pytest.approx(memory.used)
    assert max(memory.phases.values()) == memory.phases["backward"]


points = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=30)


@given(points)
def test_the_pareto_front_holds_exactly_what_nothing_beats(drawn: list[tuple[int, int]]) -> None:
    hours, cost = (np.array([p[i] for p in drawn], float) for i in (0, 1))
    beaten = [
        any((h <= a and c <= b) and (h < a or c < b) for h, c in zip(hours, cost, strict=True))
        for a, b in zip(hours, cost, strict=True)
    ]
    assert pareto_front(hours, cost).tolist() == [not b for b in beaten]


few = settings(max_examples=25, deadline=None)


@cache
def usually() -> PlanDocument:
    return planned()


@few
@given(factor=st.floats(0.05, 0.999), pick=st.integers(0, 9))
def test_a_lower_price_for_the_same_hardware_never_ranks_worse(factor: float, pick: int) -> None:
    usual = usually()
    before = usual.plans[pick]
    same = (
        (MARKET.instance_type == before.instance_type)
        & (MARKET.market == before.market)
        & (MARKET.cloud == before.cloud)
    )
    cheaper = replace(MARKET, usd_per_hour=np.where(same, MARKET.usd_per_hour * factor, MARKET.usd_per_hour))
    found = planned(cheaper).plans
    assert found[0].cost_usd.p50 <= usual.plans[0].cost_usd.p50 * (1 + 1e-12)
    after = [
        p
        for p in found
        if (p.cloud, p.instance_type, p.market, p.nodes)
        == (before.cloud, before.instance_type, before.market, before.nodes)
    ]
    assert after
    assert after[0].rank <= before.rank


@few
@given(tokens=st.floats(1e5, 1e12), more=st.floats(1.0, 100.0))
def test_more_tokens_never_cost_less(tokens: float, more: float) -> None:
    less_cost, more_cost = (
        planned(tokens=t, constraints={"gpus": ["H100:8"]}).plans[0].cost_usd for t in (tokens, tokens * more)
    )
    assert less_cost is not None
    assert more_cost is not None
    assert more_cost.p50 >= less_cost.p50 * (1 - 1e-12)


@few
@given(deadline=st.floats(0.5, 50), looser=st.floats(1, 10))
def test_a_looser_deadline_never_raises_the_least_cost(deadline: float, looser: float) -> None:
    tight, loose = (planned(constraints={"deadline": d}).plans for d in (deadline, deadline * looser))
    if tight:
        assert loose[0].cost_usd.p50 <= tight[0].cost_usd.p50 * (1 + 1e-12)


def test_an_own_cluster_without_a_stated_network_says_what_was_assumed() -> None:
    machine = {"name": "lab", "gpu": "A100-80GB", "gpus_per_node": 8, "nodes": 2, "usd_per_hour": 1}
    said = []
    for network in ({}, {"network_gbps": 100}):
        limits = {"clouds": ["own"], "min_nodes": 2}
        [first, *_] = planned(own=[machine | network], constraints=limits).plans
        said.append(any("own.network_gbps is not stated" in warning for warning in first.warnings))
    assert said == [True, False]


def test_a_mapping_of_keys_is_a_request_as_good_as_a_workload() -> None:
    assert plan(LORA, offers=MARKET, now=NOW) == planned()
    assert estimate(LORA, gpus=["H100:8"], offers=MARKET, now=NOW).estimates[0].gpus == 8
    with pytest.raises(WorkloadError, match=r"constraints\.gpus"):
        plan(LORA | {"gpu": "H100:8"}, offers=MARKET, now=NOW)


@pytest.mark.parametrize("wrong", ["llama3-8b", Path("request.yaml"), 8, [LORA]])
def test_what_is_no_request_is_refused_with_what_to_pass(wrong: Any) -> None:
    for asked in (plan, estimate):
        with pytest.raises(TypeError, match="pass a Workload or a mapping of its keys"):
            asked(wrong)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"constraints": {"gpus": ["H10O:8"]}}, "constraints.gpus"),
        ({"own": [{"name": "a", "gpu": "T4"}, {"name": "b", "gpu": "RTX-390"}]}, "own.1.gpu"),
        ({"constraints": {"gpus": ["T4"], "quotas": [{"gpu": "H10O", "max_gpus": 8}]}}, "constraints.quotas.0.gpu"),
    ],
)
def test_an_unknown_gpu_is_blamed_on_the_field_that_it_stands_in(changes: dict[str, Any], field: str) -> None:
    for asked in (plan, estimate):
        with pytest.raises(UnknownName) as caught:
            asked(LORA | changes, offers=MARKET, now=NOW)
        assert caught.value.field == field
        assert caught.value.nearest


@pytest.mark.parametrize("most", [0.25, 1, 8, 100])
def test_no_plan_has_more_gpus_than_allowed_whatever_its_machines(most: float) -> None:
    plans = planned(constraints={"max_gpus": most}, options={"top": 500}).plans
    assert plans
    assert max(plan.gpus for plan in plans) <= most
    with pytest.raises(WorkloadError, match=r"constraints\.max_gpus"):
        planned(constraints={"max_gpus": most, "gpus": ["H100:128"]})


def test_what_fits_only_on_more_gpus_than_the_quota_says_how_many_it_takes() -> None:
    document = planned(constraints={"gpus": ["H100:8"], "quotas": [{"gpu": "H100", "max_gpus": 1}]})
    assert document.binding == "quota"
    assert document.rejected["quota"] > 0
    assert "8 x H100-SXM5-80GB" in document.hints[0]
    assert document.closest is None


def test_a_number_of_gpus_spread_over_machines_is_pointed_out_where_one_could_hold_them() -> None:
    spread = planned(constraints={"gpus": ["L40S:8"], "markets": ["on-demand"]})
    assert spread.plans[0].nodes > 1
    assert any("L40S:8 counts the GPUs of the whole job" in text for text in spread.warnings)
    one = planned(constraints={"gpus": ["L40S:8"], "markets": ["on-demand"], "max_nodes": 1})
    assert one.plans[0].nodes == 1
    assert not any("counts the GPUs" in text for text in one.warnings)


def test_an_alternative_beyond_a_limit_says_which_limit_it_breaks() -> None:
    free = planned().plans[0]
    assert free.cost_usd is not None
    late = planned(constraints={"deadline": free.hours.p50 * 0.5}).tradeoffs
    assert any(f"but past the deadline of {free.hours.p50 * 0.5:g} h" in text for text in late)
    dear = planned(constraints={"budget": free.cost_usd.p50 * 1.02}).tradeoffs
    assert any("but over the budget of $" in text for text in dear)
    both = planned(constraints={"deadline": 1000, "budget": 1000}).tradeoffs
    assert both
    assert not any("but" in text for text in both)


def test_a_limit_that_may_not_hold_is_a_warning_and_stands_in_the_first_sentence() -> None:
    free = planned().plans[0]
    assert free.cost_usd is not None
    limits = {"deadline": free.hours.p50 * 1.01, "budget": free.cost_usd.p50 * 1.01}
    document = planned(constraints=limits)
    best = document.plans[0]
    for name, chance in (("deadline", best.risk.probability_deadline), ("budget", best.risk.probability_budget)):
        assert chance is not None
        assert 0.4 < chance < 0.9
        assert any(name in text and f"with a probability of {chance:.0%}" in text for text in best.warnings)
    said = recommendation(best.model_dump(mode="json"), document.workload)
    assert f"in time in {best.risk.probability_deadline:.0%} and within the budget in" in said


def test_a_verdict_that_is_not_sure_says_how_sure_it_is() -> None:
    for plan_ in planned(constraints={"gpus": ["L4", "A10G"]}, options={"top": 30}).plans:
        chance = plan_.memory_gib.probability
        said = recommendation(plan_.model_dump(mode="json"), {})
        assert (f"{chance:.0%} sure to fit" in said) == (chance is not None and chance <= 0.99)


def test_interruptions_are_told_as_one_mean_and_one_rate_by_their_names() -> None:
    [best] = planned(options={"explain": True, "top": 1}).plans
    assert best.market is Market.SPOT
    told = "\n".join(best.explanation)
    assert f"interruptions = {best.risk.expected_interruptions:.3g} on average over the run (mean)" in told
    hazard = best.risk.hazard_per_hour
    assert f"rate of the whole job: {hazard.low:.3g} to {hazard.high:.3g} an hour" in told


SEVENTY = {"model": "llama3-70b", "tokens": "1B", "constraints": {"gpus": ["H100:32"]}, "pipeline_parallel": 4}


def test_an_interleaved_pipeline_tells_its_chunks() -> None:
    best, *_ = planned(**SEVENTY, method="full", options={"top": 1, "explain": True}).plans
    assert best.layout.pipeline == 4
    assert best.layout.virtual_stages > 1
    assert any(f"interleaved, {best.layout.virtual_stages} chunks a GPU" in line for line in best.explanation)
    plain, *_ = planned(options={"top": 1}).plans
    assert plain.layout.virtual_stages == 1


def test_adapters_over_a_pipeline_are_planned_and_say_which_programs_do_that() -> None:
    best, *_ = planned(**SEVENTY, options={"top": 1}).plans
    assert best.layout.pipeline == 4
    assert any("NeMo and Megatron Bridge" in warning for warning in best.warnings)
    assert not any("Megatron Bridge" in warning for warning in planned(options={"top": 1}).plans[0].warnings)


def test_where_memory_of_the_first_plan_is_tight_the_cheapest_that_has_room_is_named() -> None:
    asked = {"seq_len": 4096, "constraints": {"gpus": ["L4"]}}
    document = planned(**asked)
    first = document.plans[0]
    assert first.memory_gib.verdict == "tight"
    [words] = [line for line in document.tradeoffs if "buy room" in line]
    roomy = [p for p in planned(**asked, options={"top": 100}).plans if p.memory_gib.verdict == "yes"]
    assert f"{roomy[0].nodes} x {roomy[0].instance_type} on {roomy[0].cloud}" in words
    assert not any("buy room" in line for line in planned().tradeoffs)


def test_where_no_plan_surely_fits_that_is_said() -> None:
    document = planned(seq_len=8192, method="qlora", constraints={"gpus": ["L4:1"]})
    assert {p.memory_gib.verdict for p in document.plans} == {"tight"}
    assert any("memory of every plan looked at is tight" in line for line in document.tradeoffs)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"clouds": ["gcp"], "regions": ["us-east-1"]}, "constraints.regions: us-east1, "),
        ({"clouds": ["azure"], "gpus": ["L4"]}, "constraints.gpus: "),
        ({"clouds": ["lambdalabs"]}, "constraints.clouds: aws, "),
        ({"markets": ["reserved"]}, "constraints.markets: spot, "),
        ({"max_gpus": 0.01}, "is the least that a machine has"),
    ],
)
def test_filters_that_leave_nothing_name_what_the_others_leave(limits: dict[str, Any], words: str) -> None:
    document = planned(constraints=limits)
    assert document.plans == []
    [hint] = [hint for hint in document.hints if words in hint]
    key = hint.partition(":")[0].removeprefix("constraints.")
    value = hint.partition(": ")[2].partition(" " if key == "max_gpus" else ",")[0]
    if key == "max_gpus":
        assert float(value) <= 1
        assert f"(--max-gpus {value})" in flagged(hint)
        return
    assert planned(constraints=limits | {key: [value]}).plans
    assert f" (--{key.removesuffix('s')} {value})" in flagged(hint)


@pytest.mark.parametrize("key", ["budget", "deadline", "max_usd_per_hour"])
def test_a_limit_that_is_too_tight_comes_with_one_that_is_not(key: str) -> None:
    document = planned(constraints={key: 0.001})
    assert document.plans == []
    [hint] = document.hints
    value = hint.removeprefix(f"constraints.{key}: ").partition(" ")[0]
    assert planned(constraints={key: value}).plans
    assert flagged(hint).endswith(f"(--{key.replace('_', '-')} {value})")


def test_what_more_would_buy_starts_from_the_plan_that_was_asked_for() -> None:
    """Of the fastest plan nothing is faster, and what is cheaper costs less than it does."""
    fastest = planned(options={"sort": "time", "top": 1}, constraints={"markets": ["on-demand"], "max_gpus": 8})
    assert any("more hours save" in text for text in fastest.tradeoffs)
    assert not any("more save" in text for text in fastest.tradeoffs)


def test_what_needs_more_memory_than_a_gpu_has_is_not_said_to_be_merely_tight() -> None:
    [short] = estimate(LORA | {"model": "llama3-70b", "method": "qlora"}, gpus="L40S", offers=MARKET, now=NOW).estimates
    assert short.memory_gib.verdict == "tight"
    assert short.memory_gib.margin is not None
    assert short.memory_gib.margin < 0
    assert any("more is needed than a GPU has" in text for text in short.warnings)
    [close] = estimate(LORA, gpus="A10G", offers=MARKET, now=NOW).estimates
    assert any("it may not fit" in text for text in close.warnings)


def test_what_a_script_or_an_image_must_be_able_to_do_is_said() -> None:
    own = [{"name": "desk", "gpu": "RTX-3090", "gpus_per_node": 4, "nodes": 4, "network_gbps": 25, "usd_per_hour": 1}]
    full = {"model": "llama2-7b", "method": "full", "own": own, "constraints": {"clouds": ["own"], "min_nodes": 4}}
    whole, cut = planned(**full).plans[0], planned(**full, pipeline_parallel=4).plans[0]
    assert (whole.layout.tensor, whole.layout.pipeline, cut.layout.pipeline) == (1, 1, 4)
    assert any("Hugging Face Trainer only replicates" in text for text in cut.warnings)
    assert not any("Trainer only replicates" in text for text in whole.warnings)
    arm, other = planned(constraints={"gpus": ["GB200"]}).plans[0], planned(constraints={"gpus": ["H100"]}).plans[0]
    assert any("aarch64" in text for text in arm.warnings)
    assert not any("aarch64" in text for text in other.warnings)
