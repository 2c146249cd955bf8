"""Azure's eviction bands: Resource Graph's protocol, its pages and refusals, and what a table says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.interruptions import InterruptionFact, eviction_rates, reclaimed_shares
from pricing.offers import Market, current_offers
from pricing.refresh import refresh
from pricing.sources import azure, azure_evictions
from pricing.sources.base import Failure, FailureReason, SourceSettings, Wanted, settings_from_environment
from pricing.store import Store
from tests.pricing.sets import price_set
from tests.pricing.sources.loopback import Reply, Request, Wire, as_json, first, refused, web_page
from tests.pricing.sources.world import AS_OF

SIZE = "Standard_NC24ads_A100_v4"
ROWS = [
    {"sku": "standard_nc24ads_a100_v4", "location": "eastus", "rate": "5-10"},
    {"sku": "standard_nc4as_t4_v3", "location": "eastus", "rate": "0-5"},
    {"sku": "standard_nc24ads_a100_v4", "location": "westeurope", "rate": "20+"},
    {"sku": "standard_d2s_v3", "location": "eastus", "rate": "0-5"},  # no GPU
    {"sku": "standard_nc4as_t4_v3", "location": "westus3", "rate": "often"},
    {"sku": "standard_nc4as_t4_v3", "location": "../../etc", "rate": "0-5"},
]


def graph(request: Request, page: int = 2) -> Reply:
    """Resource Graph: a query posted, rows in pages with a skip token."""
    if request.headers.get("authorization") not in (None, "Bearer good"):
        return as_json({"error": {"code": "AuthenticationFailed"}}, 401)
    asked = json.loads(request.body)
    assert "skuspotevictionrate" in asked["query"]
    at = int(asked["options"].get("$skipToken", 0))
    reply: dict[str, Any] = {"totalRecords": len(ROWS), "count": page, "data": ROWS[at : at + page]}
    if at + page < len(ROWS):
        reply["$skipToken"] = str(at + page)
    return as_json(reply)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire(graph) as up:
        yield up


def settings(wire: Wire, token: str | None = None) -> SourceSettings:
    environ = {"ESTIMATOR_AZURE_GRAPH_URL": f"{wire.url}/graph?api-version=1"}
    environ |= {"ESTIMATOR_AZURE_TOKEN": token} if token else {}
    quick = {"backoff_cap_s": 0.02, "read_timeout_s": 0.5, "connect_timeout_s": 1.0, "deadline_s": 8.0}
    return settings_from_environment(environ, lambda: AS_OF, **quick)


def told(wire: Wire, wanted: Wanted = Wanted(), token: str | None = None) -> list[Any]:
    scope = azure_evictions.EvictionScope("azure", None, wanted)
    return list(azure.fetch(scope, settings(wire, token)))


def test_bands_are_percent_per_hour_of_known_gpu_sizes_with_their_date(wire: Wire) -> None:
    found = {(f.region, f.instance_type): f for f in told(wire, token="good")}
    assert {key: f.label for key, f in found.items()} == {
        ("eastus", SIZE): "5-10%",
        ("eastus", "Standard_NC4as_T4_v3"): "<5%",
        ("westeurope", SIZE): ">20%",
    }
    assert {(f.period, f.observed_at, f.source) for f in found.values()} == {("hour", AS_OF, "azure:evictions")}
    assert len(wire.requests) == 3
    assert {f.region for f in told(wire, Wanted(regions=("west*",)))} == {"westeurope"}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (refused(403), FailureReason.PERMISSION),
        (refused(429), FailureReason.THROTTLED),
        (refused(500), FailureReason.SERVER_ERROR),
        (web_page, FailureReason.NOT_THE_API),
        (lambda *_: as_json({"rows": []}), FailureReason.NOT_THE_API),
        (lambda *_: as_json({"data": [], "$skipToken": "2"}), FailureReason.PAGING),
        (lambda *_: Reply(b'{"data": ['), FailureReason.MALFORMED),
    ],
)
def test_a_failure_is_told_and_makes_no_price_stale(wire: Wire, fault: Any, reason: FailureReason) -> None:
    wire.faults.append(fault)
    (failure,) = told(wire)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.prices) == (reason, False)


def test_a_throttled_question_is_asked_again(wire: Wire) -> None:
    wire.faults.append(first(2, refused(429, **{"Retry-After": "1"})))
    assert len(told(wire)) == 3


def test_nobody_is_asked_without_a_token() -> None:
    without = settings_from_environment({}, lambda: AS_OF)
    elsewhere = settings_from_environment({"ESTIMATOR_AZURE_GRAPH_URL": "https://example.com/graph"}, lambda: AS_OF)
    token = settings_from_environment({"ESTIMATOR_AZURE_TOKEN": "secret"}, lambda: AS_OF)
    assert [azure_evictions.configured(s) for s in (without, elsewhere, token)] == [False, False, True]
    assert "secret" not in repr(token)


@given(st.lists(st.one_of(st.none(), st.text(), st.integers(), st.dictionaries(
    st.sampled_from(["sku", "location", "rate"]),
    st.one_of(st.none(), st.integers(), st.sampled_from([SIZE, "eastus", "5-10", "10-5", "999+", "-1-5", "20+"]),
              st.text(), st.lists(st.text(), max_size=2)), max_size=3)), max_size=6))  # fmt: skip
def test_whatever_stands_in_the_rows_a_band_is_a_band(rows: list[object]) -> None:
    for fact in azure_evictions.facts(rows, AS_OF):
        assert 0 <= fact.low_pct < (fact.high_pct or 101) <= 101
        assert fact.instance_type == SIZE


def test_fetched_statistics_reach_whoever_looks_at_the_offers_each_in_its_own_measure(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "prices.db"))
    store.put_interruptions([
        InterruptionFact("azure", "eastus", SIZE, 5.0, 10.0, None, AS_OF, "azure:evictions"),
        InterruptionFact("aws", "us-east-1", "p5.48xlarge", 15.0, 20.0, None, AS_OF, "aws:spot-advisor"),
    ])  # fmt: skip
    store.switch(price_set({SIZE: 1.2}, cloud="azure", region="eastus", market=Market.SPOT))
    table = current_offers(now=AS_OF, store=store)
    azures = (table.instance_type == SIZE) & (table.region == "eastus") & (table.market == "spot")
    amazons = (table.instance_type == "p5.48xlarge") & (table.region == "us-east-1") & (table.market == "spot")
    low, high = eviction_rates(table)
    assert (low[azures], high[azures]) == (pytest.approx(0.05), pytest.approx(0.10))
    assert not (low[amazons] > 0).any()
    shares, _ = reclaimed_shares(table)
    assert (shares[amazons] == 0.15).all()
    assert not (shares[azures] > 0).any()
    narrowed, _ = eviction_rates(table.select(azures))
    assert narrowed == pytest.approx([0.05])
    store.close()


def test_a_refresh_keeps_the_bands_beside_the_prices(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "scopes", lambda wanted, _: [azure_evictions.EvictionScope("azure", None, wanted)])
    store = Store(str(tmp_path / "prices.db"))
    summary = refresh(store, settings(wire), clouds=("azure",))
    assert (summary.interruptions, summary.exit_code) == (3, 0)
    assert store.interruptions()["azure", "eastus", SIZE].period == "hour"
    store.close()
