"""SKUs: which part, which market, what rate; whole words and full strings."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from pricing.offers import Market
from pricing.sources.gcp_skus import Part, RateTable, card, part_of, rates
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_gcp import SKUS_ON_DEMAND, SKUS_SPOT, money, sku

OD, SPOT = Market.ON_DEMAND, Market.SPOT
A100, A100_80, H100, MEGA = card("a100"), card("a100 80gb"), card("h100 80gb"), card("nvidia-h100-mega-80gb")


def known(description: str, group: str, usage: str = "OnDemand") -> tuple[Part, Market] | None:
    return part_of(description, sku(description, group, "1", usage=usage)["category"])


@pytest.mark.parametrize(
    ("description", "group", "usage", "part", "market"),
    [
        ("A2 Instance Core running in Americas", "CPU", "OnDemand", Part("core", "a2"), OD),
        ("A2 Instance Ram running in Americas", "RAM", "OnDemand", Part("ram", "a2"), OD),
        ("A3Plus Instance Core running in Americas", "CPU", "OnDemand", Part("core", "a3plus"), OD),
        ("N1 Predefined Instance Ram running in Tokyo", "N1Standard", "OnDemand", Part("ram", "n1"), OD),
        ("Spot Preemptible G2 Instance Ram running in Virginia", "RAM", "Preemptible", Part("ram", "g2"), SPOT),
        ("Preemptible N1 Predefined Instance Core running in Tokyo", "N1Standard", "Preemptible",
         Part("core", "n1"), SPOT),
        ("Nvidia Tesla A100 GPU running in Americas", "GPU", "OnDemand", Part("gpu", card=A100), OD),
        ("Nvidia Tesla A100 80GB GPU running in Americas", "GPU", "OnDemand", Part("gpu", card=A100_80), OD),
        ("Nvidia H100 80GB Gpu running in Netherlands", "GPU", "OnDemand", Part("gpu", card=H100), OD),
        ("Nvidia H100 80GB Plus GPU running in Americas", "GPU", "OnDemand", Part("gpu", card=MEGA), OD),
        ("Nvidia H100 80GB Mega GPU running in Seoul", "GPU", "OnDemand", Part("gpu", card=MEGA), OD),
        ("Nvidia H100 Mega 80GB GPU attached to Spot Preemptible VMs running in Seoul", "GPU", "Preemptible",
         Part("gpu", card=MEGA), SPOT),
        ("H200 141GB GPU running in Netherlands", "GPU", "OnDemand", Part("gpu", card=card("nvidia-h200-141gb")), OD),
        ("RTX 6000 96GB running in Americas", "GPU", "OnDemand", Part("gpu", card=card("nvidia-rtx-pro-6000")), OD),
        ("A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "OnDemand",
         Part("slice", "a4", card("nvidia-b200")), OD),
        ("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "OnDemand",
         Part("slice", "a4", card("nvidia-b200")), SPOT),
        ("SSD backed Local Storage", "LocalSSD", "OnDemand", Part("ssd"), OD),
        ("SSD backed Local Storage in Netherlands", "LocalSSD", "OnDemand", Part("ssd"), OD),
        ("SSD backed Local Storage attached to Spot Preemptible VMs in Turin", "LocalSSD", "Preemptible",
         Part("ssd"), SPOT),
    ],
)  # fmt: skip
def test_a_part_of_a_machine_is_recognised(
    description: str, group: str, usage: str, part: Part, market: Market
) -> None:
    assert known(description, group, usage) == (part, market)


@pytest.mark.parametrize(
    ("description", "group", "usage"),
    [
        ("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas", "GPU", "OnDemand"),
        ("Reserved Nvidia Tesla A100 GPU in Americas", "GPU", "OnDemand"),
        ("Reserved Nvidia H100 80GB GPU in Americas in Calendar Mode", "GPU", "OnDemand"),
        ("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Americas", "GPU", "OnDemand"),
        ("Nvidia Tesla T4 GPU attached to Sole Tenancy VMs running in Americas", "GPU", "OnDemand"),
        ("Nvidia Tesla T4 Virtual Workstation GPU running in Americas", "GPU", "OnDemand"),
        ("Custom Instance Core running in Americas", "N1Standard", "OnDemand"),
        ("Spot Preemptible Custom Instance Core running in Americas", "N1Standard", "Preemptible"),
        ("DWS Defined Duration A2 Core running in Americas", "CPU", "OnDemand"),
        ("Commitment v1: Nvidia Tesla A100 GPU running in Americas for 1 Year", "GPU", "Commit1Yr"),
        ("Commitment v1: G4 Core in Americas for 5 Years", "CPU", "Commit"),
        ("A2 Instance Core running in Americas", "CPU", "Commit3Yr"),
        ("A2 Instance Core running in Americas", "CPU", "Preemptible"),
        ("A2 Instance Core running in Americas", "GPU", "Preemptible"),
        ("N1 Instance Core running in Americas", "N1Standard", "OnDemand"),
        ("Sole Tenancy Premium for A2 Instance Core running in Americas", "CPU", "OnDemand"),
        ("TpuV5e running in Americas", "TPU", "OnDemand"),
        ("Licensing Fee for Windows Server", "License", "OnDemand"),
        ("A2 Instance Core", "CPU", "OnDemand"),
        ("", "CPU", "OnDemand"),
    ],
)
def test_what_is_no_plain_part_of_a_machine_is_left_out(description: str, group: str, usage: str) -> None:
    assert known(description, group, usage) is None


def rate(row: dict[str, Any]) -> tuple[Decimal | None, str]:
    (only,) = rates(row, AS_OF)
    return only.price, only.reason


RAM = "A2 Instance Ram running in Singapore"


def test_memory_per_gb_is_made_one_per_gib_and_disks_per_month_one_per_hour() -> None:
    one = ("asia-southeast1",)
    assert rate(sku(RAM, "RAM", "1", one))[0] == 1
    assert rate(sku(RAM, "RAM", "1", one, unit="ram-gb"))[0] == Decimal("1.073741824")
    assert rate(sku("SSD backed Local Storage in Turin", "LocalSSD", "73", one))[0] == Decimal("0.1")
    assert rate(sku(RAM, "RAM", "1", one, unit="h")) == (None, "unit h")
    assert rate(sku("A2 Instance Core running in X", "CPU", "1", one, unit="mo")) == (None, "unit mo")


def test_of_a_timeline_the_entry_in_force_counts() -> None:
    row = sku(RAM, "RAM", "2", ("r",), at="2026-09-12T07:00:00Z", older=("1", "2026-09-01T07:00:00Z"))
    assert rate(row)[0] == 2
    row["pricingInfo"].reverse()
    assert rate(row)[0] == 2
    row["pricingInfo"].append(copy.deepcopy(row["pricingInfo"][0]) | {"effectiveTime": "2026-10-01T00:00:00Z"})
    assert rate(row)[0] == 2
    assert rate(sku(RAM, "RAM", "2", ("r",), at="2027-01-01T00:00:00Z")) == (None, "no price in force")


def test_a_free_tier_is_not_the_price() -> None:
    row = sku(RAM, "RAM", "2", ("r",))
    tiers = row["pricingInfo"][0]["pricingExpression"]["tieredRates"]
    tiers.insert(0, {"startUsageAmount": 0, "unitPrice": money("0")})
    assert rate(row)[0] == 2


@pytest.mark.parametrize(
    ("unit_price", "reason"),
    [
        ({"currencyCode": "EUR", "units": "1"}, "currency EUR"),
        ({"units": "1"}, "currency None"),
        ({"currencyCode": "USD", "units": "-3", "nanos": -500000000}, "price negative"),
        ({"currencyCode": "USD", "units": "1.5"}, "price not a number"),
        ({"currencyCode": "USD", "units": "NaN"}, "price not a number"),
        ({"currencyCode": "USD", "nanos": 10**9}, "price not a number"),
        ({"currencyCode": "USD", "nanos": "5"}, "price not a number"),
        ({"currencyCode": "USD", "units": True}, "price not a number"),
        (None, "currency None"),
    ],
)
def test_an_amount_that_cannot_be_is_no_price(unit_price: object, reason: str) -> None:
    row = sku(RAM, "RAM", "2", ("r",))
    row["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"] = unit_price
    assert rate(row) == (None, reason)


def test_a_part_of_units_or_nanos_may_be_absent() -> None:
    row = sku(RAM, "RAM", "2", ("r",))
    for unit_price, price in (
        ({"currencyCode": "USD", "units": "2"}, Decimal(2)),
        ({"currencyCode": "USD", "nanos": 5}, Decimal("5E-9")),
    ):
        row["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"] = unit_price
        assert rate(row)[0] == price


def test_a_rate_holds_in_exactly_its_regions() -> None:
    table = RateTable(r for row in SKUS_ON_DEMAND + SKUS_SPOT for r in rates(row, AS_OF))
    l4 = Part("gpu", card=card("l4"))
    assert [r.price for r in table.get("europe-west12", OD, l4)] == [Decimal("0.9")]
    assert table.get("europe-west1", OD, l4) == []
    assert [r.price for r in table.get("us-west1", OD, l4)] == [Decimal("0.560040239")]
    assert len(table.get("us-east4", OD, l4)) == 1, "Virginia and Northern Virginia at one price"
    assert table.get("us-east4", SPOT, Part("ram", "g2")) == []
    assert table.why_not("us-east4", SPOT, Part("ram", "g2")) == "missing"


def test_two_prices_of_one_part_are_both_kept_and_an_unreadable_or_zero_one_spoils_the_part() -> None:
    part = Part("ram", "a2")
    one, other = sku(RAM, "RAM", "1", ("r",)), sku("A2 Instance Ram running in Malaya", "RAM", "1.5", ("r",))
    zero, odd = sku(RAM, "RAM", "0", ("r",)), sku(RAM, "RAM", "1", ("r",), unit="h")

    def table(*rows: dict[str, Any]) -> RateTable:
        return RateTable(r for row in rows for r in rates(row, AS_OF))

    assert [r.price for r in table(other, one, one).get("r", OD, part)] == [Decimal(1), Decimal("1.5")]
    assert table(one, zero).get("r", OD, part) == []
    assert table(one, zero).why_not("r", OD, part) == "zero"
    assert table(one, odd).get("r", OD, part) == []
    assert [r.reason for r in table(one, odd).unreadable("r", OD, part)] == ["unit h"]
