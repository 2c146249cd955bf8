"""What one customer pays: discounts, commitments, prepaid blocks and custom prices over the list prices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.planning.planner import plan
from estimator.request.workload import Workload
from pricing.offers import Market, Offer, OfferTable, PriceState, current_offers
from pricing.sources.overrides import apply_overrides
from pricing.sources.overrides_file import overrides, read_overrides

NOW = datetime(2026, 9, 1, tzinfo=UTC)


MARKET = current_offers(now=NOW)


@pytest.fixture
def market() -> OfferTable:
    return MARKET


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        file = tmp_path / "prices.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def one(table: OfferTable, name: str, region: str, market: Market) -> Offer:
    (found,) = [
        o for o in table.offers() if (o.instance_type, o.region, o.market, o.zone_id) == (name, region, market, None)
    ]
    return found


def test_a_discount_changes_only_what_it_matches_says_so_and_keeps_the_list_price(market: OfferTable) -> None:
    rules = overrides({"discounts": [{"name": "EDP", "cloud": "Amazon", "regions": ["us-*"], "percent": 12}]})
    for before, after in zip(market.offers(), apply_overrides(market, rules, now=NOW).offers(), strict=True):
        hit = before.cloud == "aws" and before.market is Market.ON_DEMAND and (before.region or "").startswith("us-")
        if hit and before.price_usd_per_hour:
            assert after.price_usd_per_hour == pytest.approx(before.price_usd_per_hour * 0.88)
            assert after.list_price_usd_per_hour == before.price_usd_per_hour
            assert after.source == f"{before.source} | negotiated -12% (EDP)"
            assert (after.state, after.observed_at) == (before.state, before.observed_at)
        else:
            assert after == before


def test_discounts_add_up_one_after_the_other_and_the_list_price_is_that_before_the_first(market: OfferTable) -> None:
    rules = overrides({"discounts": [{"name": n, "cloud": "aws", "percent": 10} for n in ("EDP", "private offer")]})
    offer = one(apply_overrides(market, rules, now=NOW), "p5.48xlarge", "us-east-1", Market.ON_DEMAND)
    assert offer.list_price_usd_per_hour == 55.04
    assert offer.price_usd_per_hour == pytest.approx(55.04 * 0.81)
    assert offer.source.endswith("negotiated -10% (EDP) | negotiated -10% (private offer)")


def test_a_commitment_adds_reserved_offers_with_term_and_break_even(market: OfferTable) -> None:
    rule = {"name": "CUD", "cloud": "gcp", "instance_types": ["a3-high*"], "percent": 55, "term": "3y"}
    after = apply_overrides(market, overrides({"commitments": [rule]}), now=NOW)
    assert after.offers()[: len(market)] == market.offers()
    added = after.offers()[len(market) :]
    assert added
    assert {o.market for o in added} == {Market.RESERVED}
    offer = one(after, "a3-highgpu-8g", "us-central1", Market.RESERVED)
    plain = one(market, "a3-highgpu-8g", "us-central1", Market.ON_DEMAND)
    assert offer.list_price_usd_per_hour == plain.price_usd_per_hour
    assert offer.price_usd_per_hour == pytest.approx((plain.price_usd_per_hour or 0) * 0.45)
    assert offer.term_hours == 3 * 8760
    assert offer.break_even_hours == pytest.approx(0.45 * 3 * 8760)
    assert (offer.state, offer.upfront_usd) == (PriceState.SNAPSHOT, None)


def test_break_even_is_against_the_on_demand_price_that_this_customer_pays(market: OfferTable) -> None:
    content: dict[str, object] = {
        "commitments": [{"name": "SP", "cloud": "aws", "instance_types": ["p5.48xlarge"], "usd_per_hour": 28.9,
                         "term": "1y"}],
        "discounts": [{"name": "EDP", "cloud": "aws", "percent": 20}],
    }  # fmt: skip
    offer = one(apply_overrides(market, overrides(content), now=NOW), "p5.48xlarge", "us-east-1", Market.RESERVED)
    assert offer.price_usd_per_hour == 28.9
    assert offer.break_even_hours == pytest.approx(8760 * 28.9 / (55.04 * 0.8))


def test_a_block_is_prepaid_for_a_fixed_time_in_a_market_of_its_own(market: OfferTable) -> None:
    block = {"name": "October", "cloud": "aws", "regions": ["us-east-2"], "instance_types": ["p5.48xlarge"],
             "term": "14d", "upfront_usd": 10450}  # fmt: skip
    after = apply_overrides(market, overrides({"blocks": [block]}), now=NOW)
    offer = after.offers()[len(market)]
    assert (offer.market, offer.region, offer.state, offer.ranked) == (Market.BLOCK, "us-east-2", PriceState.OWN, True)
    assert offer.upfront_usd == pytest.approx(10450)
    assert offer.price_usd_per_hour == pytest.approx(10450 / 336)
    assert offer.break_even_hours == pytest.approx(10450 / 55.04)


def test_a_machine_that_is_not_sold_on_demand_can_be_reserved_where_the_rule_says(market: OfferTable) -> None:
    rule = {"name": "quote", "cloud": "aws", "regions": ["eu-central-1"], "instance_types": ["p5e.48xlarge"],
            "usd_per_hour": 30}  # fmt: skip
    (offer,) = apply_overrides(market, overrides({"commitments": [rule]}), now=NOW).offers()[len(market) :]
    assert (offer.region, offer.gpu, offer.gpus_per_node) == ("eu-central-1", "H200-SXM-141GB", 8.0)
    assert (offer.list_price_usd_per_hour, offer.break_even_hours) == (None, None)


def test_a_custom_price_replaces_an_unpriced_row_and_no_discount_touches_it(market: OfferTable) -> None:
    price = {"name": "quote 7", "cloud": "aws", "region": "us-east-1", "instance_type": "p5e.48xlarge",
             "usd_per_hour": 39.8}  # fmt: skip
    content = {"prices": [price], "discounts": [{"name": "EDP", "cloud": "aws", "percent": 12}]}
    offer = one(apply_overrides(market, overrides(content), now=NOW), "p5e.48xlarge", "us-east-1", Market.ON_DEMAND)
    assert (offer.price_usd_per_hour, offer.state, offer.ranked) == (39.8, PriceState.OWN, True)
    assert (offer.gpu, offer.source) == ("H200-SXM-141GB", "own price (quote 7)")


def test_a_custom_price_of_a_listed_machine_keeps_the_list_price_beside_it(market: OfferTable) -> None:
    entry = {"cloud": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge", "usd_per_hour": 31}
    offer = one(apply_overrides(market, overrides({"prices": [entry]}), now=NOW), "p5.48xlarge", "us-east-1",
                Market.ON_DEMAND)  # fmt: skip
    assert (offer.price_usd_per_hour, offer.list_price_usd_per_hour) == (31, 55.04)


@given(st.floats(0.01, 99.99), st.floats(0.01, 99.99))
def test_a_larger_discount_never_makes_anything_dearer(one_: float, other: float) -> None:
    low, high = sorted((one_, other))
    cheap, dear = (
        apply_overrides(MARKET, overrides({"discounts": [{"name": "x", "percent": p}]}), now=NOW).usd_per_hour
        for p in (high, low)
    )
    assert not (cheap > dear + 1e-12).any()
    assert not (cheap == 0).any()


def test_rules_outside_their_dates_and_rules_that_match_nothing_are_warnings(market: OfferTable) -> None:
    content: dict[str, object] = {
        "discounts": [
            {"name": "last year", "cloud": "aws", "percent": 5, "until": "2026-08-31"},
            {"name": "next year", "cloud": "aws", "percent": 5, "from": "2026-09-02"},
            {"name": "today", "cloud": "aws", "percent": 5, "from": "2026-09-01", "until": "2026-09-01"},
            {"name": "typo", "cloud": "aws", "instance_types": ["p55*"], "percent": 5},
        ],
        "commitments": [{"name": "nothing", "cloud": "gcp", "instance_types": ["x*"], "percent": 5}],
    }
    after = apply_overrides(market, overrides(content), now=NOW)
    assert [w.partition("'")[2] for w in after.warnings] == [
        "nothing' matches no offer",
        "last year' ended on 2026-08-31 and is not applied",
        "next year' begins on 2026-09-02 and is not applied",
        "typo' matches no offer",
    ]
    assert one(after, "p5.48xlarge", "us-east-1", Market.ON_DEMAND).price_usd_per_hour == pytest.approx(55.04 * 0.95)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"discount": []}, "discount"),
        ({"discounts": {}}, "discounts"),
        ({"discounts": [{"percent": 5}]}, "discounts[0].name"),
        ({"discounts": [{"name": "x", "percent": 100}]}, "discounts[0].percent"),
        ({"discounts": [{"name": "x", "percent": True}]}, "discounts[0].percent"),
        ({"discounts": [{"name": "x", "percent": 5, "percnt": 5}]}, "discounts[0].percnt"),
        ({"discounts": [{"name": "x", "cloud": "ibm", "percent": 5}]}, "discounts[0].cloud"),
        ({"discounts": [{"name": "x", "percent": 5, "markets": ["sport"]}]}, "discounts[0].markets"),
        ({"discounts": [{"name": "x", "percent": 5, "until": "soon"}]}, "discounts[0].until"),
        ({"discounts": [{"name": "x", "percent": 5, "from": "2026-02-01", "until": "2026-01-01"}]},
         "discounts[0].until"),
        ({"discounts": [{"name": "x", "percent": 5, "regions": []}]}, "discounts[0].regions"),
        ({"commitments": [{"name": "x"}]}, "commitments[0]"),
        ({"commitments": [{"name": "x", "percent": 5, "usd_per_hour": 5}]}, "commitments[0]"),
        ({"commitments": [{"name": "x", "percent": 5, "term": "long"}]}, "commitments[0].term"),
        ({"commitments": [{"name": "x", "percent": 5, "term": "1 fortnight"}]}, "commitments[0].term"),
        ({"blocks": [{"name": "x", "usd_per_hour": 5}]}, "blocks[0].term"),
        ({"blocks": [{"name": "x", "upfront_usd": 0, "term": "14d"}]}, "blocks[0].upfront_usd"),
        ({"prices": [{"cloud": "aws", "region": "us-east-1", "instance_type": "p5e.48xlarge", "usd_per_hour": 0}]},
         "prices[0].usd_per_hour"),
        ({"prices": [{"cloud": "aws", "instance_type": "p5e.48xlarge", "usd_per_hour": 1}]}, "prices[0].region"),
        ([], "overrides"),
    ],
)  # fmt: skip
def test_wrong_overrides_are_refused_by_field(content: object, field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        overrides(content)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("discounts:\n  - name: EDP\n    percent: lots\n", r"prices\.yaml, line 3: 'lots' is not a number"),
        ("discounts:\n  - name: EDP\n    percent: 5\n    percnt: 5\n", r"line 4: unknown key 'percnt'"),
        ("discounts:\n  - {percent: 5}\n", r"line 2: a name"),
        ("discount:\n", r"line 1: unknown key 'discount'"),
        ("discounts:\n  - name: a\n    percent: 5\n    percent: 6\n", r"line 4: discounts\[0\]\.percent is given"),
        ("discounts: [\n  {name: x", r"not YAML \(line 2"),
        ("- 1\n", "must be a mapping"),
        ("prices:\n  - {cloud: aws, region: us-east-1, usd_per_hour: 3,\n     instance_type: p5.48xlrge}\n",
         r"line 3: unknown instance type.*p5\.48xlarge"),
        ("prices:\n  - {cloud: aws, usd_per_hour: 3, instance_type: p5.48xlarge,\n     region: us-esat-1}\n",
         r"line 3: unknown region.*us-east-1"),
        ("discounts:\n  - name: x\n    percent: 3\n    regions: [mars-*]\n", r"line 4: unknown region 'mars-\*'"),
        ("[" * 600, "cannot be read|not YAML"),
        ("discounts:\n  - {name: x, percent: 1, until: 2026-13-45}\n", "2026-13-45|month"),
    ],
)  # fmt: skip
def test_an_error_in_the_file_says_its_line(
    market: OfferTable, written: Callable[[str], Path], text: str, told: str
) -> None:
    with pytest.raises(WorkloadError, match=told):
        apply_overrides(market, read_overrides(written(text)), now=NOW)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot read"):
        read_overrides(tmp_path / "none.yaml")
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00\x00\x80")
    with pytest.raises(WorkloadError, match="UTF-8"):
        read_overrides(tmp_path / "bin.yaml")


def test_an_empty_file_changes_nothing(market: OfferTable, written: Callable[[str], Path]) -> None:
    assert apply_overrides(market, read_overrides(written("")), now=NOW).offers() == market.offers()


REQUEST = {"model": "resnet50", "images": "1M", "constraints": {"gpus": ["H100:8"], "clouds": ["aws"]}}


def test_a_request_may_carry_its_own_rules(market: OfferTable) -> None:
    limits = {**REQUEST["constraints"], "markets": ["on-demand"]}  # type: ignore[dict-item]
    rules = {"discounts": [{"name": "EDP", "cloud": "aws", "percent": 50}, {"name": "x", "cloud": "gcp", "percent": 5,
                                                                            "until": "2020-01-01"}]}  # fmt: skip
    plain, paid = (
        plan(Workload.model_validate({**REQUEST, "constraints": limits, **more}), offers=market, now=NOW)
        for more in ({}, {"negotiated": rules})
    )
    before, after = plain.plans[0].price, paid.plans[0].price
    assert after.usd_per_hour == pytest.approx((before.usd_per_hour or 0) / 2)
    assert after.list_usd_per_hour == before.usd_per_hour
    assert (after.source or "").endswith("negotiated -50% (EDP)")
    assert any("'x' ended on 2020-01-01" in warning for warning in paid.warnings)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"discounts": [{"name": "x", "percent": "much"}]}, "negotiated.discounts[0].percent"),
        ({"discont": []}, "negotiated.discont"),
        ({"discounts": [{"name": "x", "percent": 1}] * 101}, "negotiated"),
        ({"discounts": [{"name": "x", "percent": 1, "regions": ["moon"]}]}, "negotiated.discounts[0].regions"),
    ],
)
def test_wrong_rules_of_a_request_are_refused_by_field(market: OfferTable, content: object, field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        plan(Workload.model_validate({**REQUEST, "negotiated": content}), offers=market, now=NOW)
    assert caught.value.field == field


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
KEYS = ("name", "cloud", "regions", "instance_types", "markets", "percent", "usd_per_hour", "upfront_usd", "term",
        "from", "until", "region", "instance_type", "market")  # fmt: skip
values = st.one_of(anything, st.sampled_from(["aws", "us-*", "p5*", "spot", 12, "3y", "2026-01-01", ["us-east-1"]]))
rule = st.one_of(anything, st.dictionaries(st.sampled_from(KEYS), values, max_size=7))


@given(st.one_of(anything, st.dictionaries(st.sampled_from(["discounts", "commitments", "blocks", "prices"]),
                                           st.one_of(anything, st.lists(rule, max_size=3)), max_size=4)))  # fmt: skip
def test_whatever_stands_in_the_rules_they_are_refused_or_leave_sane_prices(content: object) -> None:
    try:
        after = apply_overrides(MARKET, overrides(content), now=NOW)
    except WorkloadError:
        return
    usd = after.usd_per_hour[after.ranked]
    assert ((usd > 0) & (usd < 1e6)).all()
