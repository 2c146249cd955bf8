"""Own machines and negotiated prices beside the list prices."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from benchmarks_db.errors import WorkloadError
from pricing.offers import Market, PriceState, concatenate, current_offers
from pricing.sources.overrides import apply_overrides, overrides, read_overrides
from pricing.sources.own import own_machine, own_table

NOW = datetime(2026, 9, 1, tzinfo=UTC)


def test_an_own_machine_may_be_free_and_is_ranked() -> None:
    lab = own_machine({"name": "lab", "gpu": "RTX 3090", "gpus_per_node": 8, "usd_per_hour": 0})
    (offer,) = own_table([lab], now=NOW).offers()
    assert (offer.gpu, offer.gpus_per_node, offer.price_usd_per_hour) == ("RTX-3090", 8.0, 0.0)
    assert (offer.market, offer.state, offer.ranked) == (Market.OWN, PriceState.OWN, True)


def test_a_purchase_price_power_and_utilisation_make_an_hourly_price() -> None:
    lab = own_machine({"name": "lab", "gpu": "RTX-3090:8", "purchase_usd": 20000, "years": 4, "utilisation": 0.5,
                       "power_kw": 3, "usd_per_kwh": 0.2})  # fmt: skip
    price = own_table([lab], now=NOW).offers()[0].price_usd_per_hour
    assert price == pytest.approx(20000 / (4 * 8760 * 0.5) + 0.6)
    assert lab.gpus_per_node == 8


def test_an_own_machine_without_a_price_is_unpriced() -> None:
    (offer,) = own_table([own_machine({"name": "lab", "gpu": "T4"})], now=NOW).offers()
    assert (offer.price_usd_per_hour, offer.state, offer.ranked) == (None, PriceState.UNPRICED, False)


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"gpu": "T4"}, "own.name"),
        ({"name": "x", "gpu": "T4", "usd_per_hours": 1}, "own.usd_per_hours"),
        ({"name": "x", "gpu": "T4", "usd_per_hour": -1}, "own.usd_per_hour"),
        ({"name": "x", "gpu": "T4", "usd_per_hour": "nan"}, "own.usd_per_hour"),
        ({"name": "x", "gpu": "T4", "gpus_per_node": 0}, "own.gpus_per_node"),
        ({"name": "x", "gpu": "T4", "purchase_usd": 5, "utilisation": 70}, "own.utilisation"),
        ({"name": "x", "gpu": "T4", "power_kw": 5}, "own.purchase_usd"),
        ({"name": "x", "gpu": "T4", "purchase_usd": 5, "resale_usd": 6}, "own.resale_usd"),
        ({"name": "x", "gpu": "T4", "gpu_interconnect": "string"}, "own.gpu_interconnect"),
    ],
)
def test_a_wrong_own_machine_is_refused_by_field(entry: dict[str, object], field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        own_machine(entry)
    assert caught.value.field == field


def test_own_machines_join_the_clouds_in_one_table() -> None:
    table = current_offers(now=NOW)
    joined = concatenate([table, own_table([own_machine({"name": "lab", "gpu": "T4", "usd_per_hour": 0.1})], now=NOW)])
    assert joined.offers()[: len(table)] == table.offers()
    assert joined.offers()[-1].instance_type == "lab"
    assert np.isnan(joined.vcpus[-1])


def test_a_discount_changes_only_what_it_matches_and_says_so() -> None:
    table = current_offers(now=NOW)
    rules = overrides({"discounts": [{"name": "EDP", "cloud": "Amazon", "regions": ["us-*"], "percent": 10}]})
    for before, after in zip(table.offers(), apply_overrides(table, rules, now=NOW).offers(), strict=True):
        hit = before.cloud == "aws" and before.market is Market.ON_DEMAND and (before.region or "").startswith("us-")
        if hit and before.price_usd_per_hour:
            assert after.price_usd_per_hour == pytest.approx(before.price_usd_per_hour * 0.9)
            assert after.source == f"{before.source} - EDP"
        else:
            assert after == before


def test_a_commitment_adds_reserved_offers_and_keeps_the_others() -> None:
    table = current_offers(now=NOW)
    rules = overrides({"commitments": [{"name": "CUD", "cloud": "gcp", "instance_types": ["a3-high*"], "percent": 55}]})
    added = apply_overrides(table, rules, now=NOW).offers()[len(table) :]
    assert added
    for offer in added:
        assert offer.market is Market.RESERVED
        assert offer.instance_type.startswith("a3-high")
    (base,) = [o for o in table.offers() if o.market is Market.ON_DEMAND and o.instance_type == "a3-highgpu-8g"
               and o.region == "us-central1"]  # fmt: skip
    (cheap,) = [o for o in added if o.instance_type == "a3-highgpu-8g" and o.region == "us-central1"]
    assert cheap.price_usd_per_hour == pytest.approx((base.price_usd_per_hour or 0) * 0.45)


def test_a_custom_price_replaces_an_unpriced_row_and_is_ranked() -> None:
    table = current_offers(now=NOW)
    entry = {"cloud": "aws", "region": "us-east-1", "instance_type": "p5e.48xlarge", "usd_per_hour": 39.8}
    after = apply_overrides(table, overrides({"prices": [entry]}), now=NOW)
    (offer,) = [o for o in after.offers() if o.instance_type == "p5e.48xlarge" and o.region == "us-east-1"
                and o.market is Market.ON_DEMAND]  # fmt: skip
    assert (offer.price_usd_per_hour, offer.state, offer.ranked) == (39.8, PriceState.OWN, True)
    assert offer.gpu == "H200-SXM-141GB"


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"discount": []}, "overrides"),
        ({"discounts": [{"percent": 5}]}, "discounts[0].name"),
        ({"discounts": [{"name": "x", "percent": 100}]}, "discounts[0].percent"),
        ({"discounts": [{"name": "x", "cloud": "ibm", "percent": 5}]}, "discounts[0].cloud"),
        ({"commitments": [{"name": "x"}]}, "commitments[0]"),
        ({"prices": [{"cloud": "aws", "region": "us-east-1", "instance_type": "p5e.48xlarge", "usd_per_hour": 0}]},
         "prices[0].usd_per_hour"),
        ({"prices": {}}, None),
        ([], "overrides"),
    ],
)  # fmt: skip
def test_wrong_overrides_are_refused_by_field(content: object, field: str | None) -> None:
    if field is None:
        assert overrides(content) == overrides({})
        return
    with pytest.raises(WorkloadError) as caught:
        overrides(content)
    assert caught.value.field == field


def test_an_unknown_type_in_a_custom_price_names_the_nearest() -> None:
    entry = {"cloud": "aws", "region": "us-east-1", "instance_type": "p5.48xlrge", "usd_per_hour": 1}
    with pytest.raises(WorkloadError, match=r"p5\.48xlarge"):
        apply_overrides(current_offers(now=NOW), overrides({"prices": [entry]}), now=NOW)


def test_unreadable_yaml_says_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "o.yaml"
    file.write_text("discounts: [\n  {name: x", encoding="utf-8")
    with pytest.raises(WorkloadError, match="line 2"):
        read_overrides(file)
