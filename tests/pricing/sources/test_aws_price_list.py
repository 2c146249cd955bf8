"""The price list: only plain Linux machines are prices, and they are read exactly."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from pricing.sources.aws_machines import GpuCatalogue
from pricing.sources.aws_price_list import PLAIN_LINUX, on_demand, read_product
from pricing.sources.readings import Unreadable
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_aws import INSTANCE_TYPES, PRODUCTS, product

GPUS = GpuCatalogue(INSTANCE_TYPES).gpu_of


def prices(*products: dict[str, Any], region: str = "us-east-1") -> dict[str, list[Decimal]]:
    found, rejected = on_demand([json.dumps(p) for p in products], region, AS_OF, GPUS)
    assert rejected == []
    out: dict[str, list[Decimal]] = {}
    for one in found:
        out.setdefault(one.instance_type, []).append(one.price_usd_per_hour)
    return out


def test_of_all_the_twins_of_a_machine_only_the_plain_one_counts() -> None:
    found = prices(*PRODUCTS)
    assert found["p4d.24xlarge"] == [Decimal("21.957642")]
    assert found["p5.48xlarge"] == [Decimal("55.04")]
    assert found["g5.xlarge"] == [Decimal("1.006")]
    assert "p5e.48xlarge" not in found, "only sold as a Capacity Block"
    assert not {"g4dn.metal", "inf2.xlarge", "m5.large"} & set(found)


@pytest.mark.parametrize("attribute", PLAIN_LINUX)
def test_each_attribute_alone_tells_a_twin_from_the_machine(attribute: str) -> None:
    assert prices(product("p5.48xlarge", "us-east-1", "1.00", **{attribute: "something else"})) == {}


@pytest.mark.parametrize("attribute", PLAIN_LINUX)
def test_a_machine_without_one_of_these_attributes_is_not_trusted(attribute: str) -> None:
    with pytest.raises(Unreadable, match=f"{attribute} missing"):
        read_product(product("p5.48xlarge", "us-east-1", "1.00", **{attribute: None}), "us-east-1", AS_OF)


def test_the_region_is_the_code_not_the_name_of_the_place() -> None:
    assert prices(product("p5.48xlarge", "us-east-2", "1", location="US East (N. Virginia)")) == {}


def test_the_usage_type_must_be_of_this_very_machine() -> None:
    assert prices(product("g5.xlarge", "us-east-1", "1", usagetype="BoxUsage:g5.12xlarge")) == {}


def test_the_tenth_digit_counts() -> None:
    assert prices(product("p4d.24xlarge", "us-west-2", "21.95764"), region="us-west-2") == {
        "p4d.24xlarge": [Decimal("21.95764")]
    }


def test_the_same_price_twice_is_one_and_two_prices_are_both_told() -> None:
    one, other = product("g5.xlarge", "us-east-1", "1.006"), product("g5.xlarge", "us-east-1", "1.509")
    assert prices(one, one) == {"g5.xlarge": [Decimal("1.006")]}
    assert sorted(prices(one, other)["g5.xlarge"]) == sorted(prices(other, one)["g5.xlarge"])
    assert len(prices(one, other)["g5.xlarge"]) == 2


def test_reserved_terms_are_not_looked_at() -> None:
    only_reserved = product("g5.xlarge", "us-east-1", "1.006", reserved=True)
    del only_reserved["terms"]["OnDemand"]
    with pytest.raises(Unreadable, match="on-demand term missing"):
        read_product(only_reserved, "us-east-1", AS_OF)


def test_of_several_terms_the_latest_in_force_counts() -> None:
    now = product("g5.xlarge", "us-east-1", "1.006", effective="2026-09-01T00:00:00Z")
    later = product("g5.xlarge", "us-east-1", "0.5", effective="2026-10-01T00:00:00Z")
    before = product("g5.xlarge", "us-east-1", "2.0", effective="2026-08-01T00:00:00Z")
    now["terms"]["OnDemand"] |= later["terms"]["OnDemand"] | before["terms"]["OnDemand"]
    assert prices(now) == {"g5.xlarge": [Decimal("1.006")]}
    (row,) = read_product(now, "us-east-1", AS_OF)
    assert row.effective_at == datetime(2026, 9, 1, tzinfo=UTC)


def spoiled(change: str) -> dict[str, Any]:
    p = copy.deepcopy(product("g5.xlarge", "us-east-1", "1.006"))
    (term,) = p["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    if change == "currency":
        dimension["pricePerUnit"] = {"CNY": "7.1"}
    elif change == "nan":
        dimension["pricePerUnit"] = {"USD": "NaN"}
    elif change == "unit":
        dimension["unit"] = "Quantity"
    elif change == "part":
        dimension["endRange"] = "750"
    elif change == "no price":
        dimension["pricePerUnit"] = {}
    elif change == "no attributes":
        p["product"]["attributes"] = None
    elif change == "type":
        p["product"]["attributes"]["instanceType"] = 7
    elif change == "terms":
        p["terms"] = [1]
    return p


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("currency", "currency CNY"),
        ("nan", "price not a number"),
        ("unit", "unit is not hours"),
        ("part", "price holds for a part of the usage"),
        ("no price", "price missing"),
        ("no attributes", "attributes missing"),
        ("type", "instance type missing"),
        ("terms", "on-demand term missing"),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected_with_its_reason(change: str, reason: str) -> None:
    found, rejected = on_demand([spoiled(change), '{"product": {"attr'], "us-east-1", AS_OF, GPUS)
    assert found == []
    assert [one.reason for one in rejected] == [reason, "not JSON"]
    assert all(one.detail for one in rejected)


def test_a_zero_is_passed_on_for_the_gate_to_drop() -> None:
    assert prices(product("g5.xlarge", "us-east-1", "0")) == {"g5.xlarge": [Decimal(0)]}


def test_unknown_attributes_and_keys_change_nothing() -> None:
    p = product("g5.xlarge", "us-east-1", "1.006", futureAttribute="x")
    p["futureThing"] = {"a": [1, None]}
    assert prices(p) == {"g5.xlarge": [Decimal("1.006")]}
