"""The whole bill: what is paid besides machine hours, what is paid ahead, and in which currency it is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks_db.errors import UnknownName
from estimator import Workload, plan
from estimator.bill import extras_of
from estimator.documents import PlanDocument
from estimator.job import job_of
from estimator.request.workload import InvalidWorkload
from pricing.offers import Market, OfferTable, concatenate, current_offers, table_of

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}


def planned(market: OfferTable = MARKET, **changes: object) -> PlanDocument:
    return plan(Workload.model_validate(LORA | changes), offers=market, now=NOW)


def priced(market: Market, **figures: float) -> OfferTable:
    """The snapshot with its 8 x H100 of AWS us-east-1 in another market as well."""
    rows = (MARKET.instance_type == "p5.48xlarge") & (MARKET.region == "us-east-1")
    rows &= MARKET.market == Market.ON_DEMAND
    [offer, *_] = MARKET.select(rows).offers()
    return concatenate([MARKET, table_of([replace(offer, market=market, **figures)], MARKET.types)])


@pytest.mark.parametrize(("term", "blocks"), [(24.0, 1), (0.1, None)])
def test_a_prepaid_block_is_paid_whole_and_a_longer_run_takes_several(term: float, blocks: int | None) -> None:
    market = priced(Market.BLOCK, price_usd_per_hour=30.0, term_hours=term)
    [best, *_] = planned(market, constraints={"markets": ["block"], "gpus": ["H100:8"]}).plans
    needed = blocks or np.ceil(best.hours.p50 / term)
    assert best.cost_parts["machines"] == pytest.approx(30.0 * term * needed, rel=1e-6)
    assert best.price.upfront_usd == pytest.approx(30.0 * term)
    assert any(note.startswith("prepaid: $") for note in best.warnings)
    assert any("one after the other" in note for note in best.warnings) == (blocks is None)


def test_a_commitment_says_what_it_binds_to_and_when_it_pays() -> None:
    market = priced(
        Market.RESERVED, price_usd_per_hour=28.9, term_hours=8760.0, list_price_usd_per_hour=55.04,
        break_even_hours=8760.0 * 28.9 / 55.04,
    )  # fmt: skip
    [best, *_] = planned(
        market, constraints={"markets": ["reserved"], "gpus": ["H100:8"]}, options={"explain": True}
    ).plans
    assert best.price.list_usd_per_hour == pytest.approx(55.04)
    assert any("$253,164 are owed over 8,760 hours" in note for note in best.warnings)
    assert any("beyond 4,600 hours of use of 8,760" in note for note in best.warnings)
    assert any("break-even against on demand: 4,600 hours" in line for line in best.explanation)
    machines = best.cost_parts["machines"] / best.price.usd_per_hour
    assert machines == pytest.approx(best.hours.p50, rel=1e-3)


def test_every_part_of_the_run_and_of_the_bill_is_a_line_and_they_sum() -> None:
    asked = {"run": {"data_gb": 500, "attempts": 1.2}, "bill": {"data_in": "gcp", "fixed_usd": 2, "tax_percent": 10}}
    best = next(p for p in planned(**asked, constraints={"clouds": ["aws"], "markets": ["spot"]}).plans)
    assert {"provisioning", "image_pull", "warm_up", "staging", "training", "evaluation", "interruptions"} <= set(
        best.hours_parts
    )
    assert {
        "machines",
        "data_storage",
        "checkpoint_storage",
        "disks",
        "egress",
        "fees",
        "other_attempts",
        "tax",
    } == set(best.cost_parts)
    assert sum(best.hours_parts.values()) == pytest.approx(best.hours.p50)
    assert sum(best.cost_parts.values()) == pytest.approx(best.cost_usd.p50)


@pytest.mark.parametrize("part", ["provisioning", "image_pull", "warm_up"])
def test_each_part_of_the_start_is_stated_or_turned_off_alone(part: str) -> None:
    limits = {"clouds": ["aws"], "markets": ["on-demand"]}
    usual, off, stated = (
        planned(run=run, constraints=limits).plans[0].hours_parts
        for run in ({}, {f"{part}_hours": 0}, {f"{part}_hours": "2h"})
    )
    assert part in usual
    assert part not in off
    assert stated[part] == pytest.approx(2.0, rel=0.01)


def test_compilation_is_part_of_the_warm_up_where_it_is_asked_for() -> None:
    eager, compiled = (
        planned(compiled=flag, constraints={"markets": ["on-demand"]}).plans[0].hours_parts["warm_up"]
        for flag in (False, True)
    )
    assert compiled * 3600 - eager * 3600 == pytest.approx(47, rel=0.05)


def test_data_in_the_region_of_the_machines_is_not_moved() -> None:
    data = {"run": {"data_gb": 2000}, "constraints": {"gpus": ["H100:8"], "clouds": ["aws"]}, "options": {"top": 60}}
    found = planned(**data, bill={"data_in": "aws/us-east-1"}).plans
    moved = {p.region: p.cost_parts.get("egress", 0.0) for p in found}
    assert moved.pop("us-east-1") == 0.0
    assert set(moved.values()) == {40.0}
    with pytest.raises(UnknownName, match="us-eest-1"):
        planned(**data, bill={"data_in": "aws/us-eest-1"})


def test_what_nobody_can_price_is_said_and_not_zero() -> None:
    found = planned(run={"data_gb": 100}, bill={"data_in": "azure/eastus"}, constraints={"clouds": ["aws"]}).plans
    assert "egress" not in found[0].cost_parts
    assert any("not in the total, price unknown: internet egress of azure" in note for note in found[0].warnings)
    job = job_of(Workload.model_validate({"model": "resnet50", "samples": "1M", "bill": {"data_in": "aws"}}))
    lambda_ = extras_of(job, "lambda")
    assert {"object storage of lambda", "block storage of lambda"} <= set(lambda_.unknown)


def test_dollars_are_shown_in_the_currency_and_at_the_rate_that_the_user_gives() -> None:
    found = planned(bill={"currency": "EUR=0.5"}).plans
    for p in found:
        assert p.converted.currency == "EUR"
        assert p.converted.cost.p90 == pytest.approx(p.cost_usd.p90 / 2)
        assert sum(p.converted.parts.values()) == pytest.approx(p.converted.cost.p50)
    assert planned().plans[0].converted is None
    assert found[0].cost_usd == planned().plans[0].cost_usd


@pytest.mark.parametrize(
    ("currency", "reason"),
    [
        ("EUR", "CODE=RATE"),
        ("EURO=0.9", "three letters"),
        ("USD=1", "in USD already"),
        ("EUR=0", "above"),
        ("EUR=x", "x"),
    ],
)
def test_a_currency_without_a_rate_is_refused(currency: str, reason: str) -> None:
    with pytest.raises(InvalidWorkload, match=reason):
        Workload.model_validate(LORA | {"bill": {"currency": currency}})


def test_the_search_chooses_among_the_formats_that_are_allowed() -> None:
    limits = {"gpus": ["H100-SXM5-80GB:8", "A100-SXM4-80GB:8"], "markets": ["on-demand"]}
    wide = {"model": "llama2-70b", "tokens": "20M"}
    several = planned(**wide, constraints=limits | {"precisions": ["bf16", "fp8"]}, options={"top": 40})
    alone = [planned(**wide, precision=name, constraints=limits, options={"top": 40}) for name in ("bf16", "fp8")]
    costs = [p.cost_usd.p50 for p in several.plans]
    assert costs == sorted(costs)
    assert costs[0] == min(document.plans[0].cost_usd.p50 for document in alone)
    assert {p.precision for p in several.plans} == {"bf16", "fp8"}
    assert all(p.precision == "bf16" for p in several.plans if p.gpu.startswith("A100"))
    points = {(p.hours, p.cost_usd) for document in alone for p in document.frontier}
    beaten = {(h, c) for h, c in points if any(x <= h and y <= c and (x, y) != (h, c) for x, y in points)}
    assert {(p.hours, p.cost_usd) for p in several.frontier} == points - beaten


def test_the_derivation_of_a_spot_plan_says_how_many_of_its_hours_are_billed() -> None:
    [best, *_] = planned(constraints={"markets": ["spot"]}, options={"top": 1, "explain": True}).plans
    [said] = [line for line in best.explanation if line.startswith("  billed: ")]
    assert best.price.usd_per_hour is not None
    billed = float(said.split()[1])
    assert billed < best.hours.p50
    assert billed * best.price.usd_per_hour == pytest.approx(best.cost_parts["machines"], rel=1e-3)
