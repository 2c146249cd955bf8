"""Retail prices: Linux, one hour, in force now, the right meter; everything else is left out or rejected."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pricing.offers import Market
from pricing.sources.azure_retail import observations, read_row
from pricing.sources.readings import read_json
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_azure import ITEMS, item, spot

T4, NEW = "Standard_NC4as_T4_v3", "Standard_NZ99_v9"
OD, SPOT = Market.ON_DEMAND, Market.SPOT


def read(*rows: object, region: str = "eastus") -> tuple[dict[tuple[str, Market], set[Decimal]], list[str]]:
    out: dict[tuple[str, Market], set[Decimal]] = {}
    reasons: list[str] = []
    on_the_wire = [read_json(json.dumps(row, default=str)) for row in rows]
    understood = [one for one in (read_row(row, region, AS_OF) for row in on_the_wire) if one is not None]
    for market, (found, rejected) in observations(understood, region).items():
        reasons += [one.reason for one in rejected]
        for one in found:
            out.setdefault((one.instance_type, market), set()).add(one.price_usd_per_hour)
    return out, reasons


def usd(text: str) -> set[Decimal]:
    return {Decimal(text)}


def test_each_size_has_its_linux_price_on_demand_and_spot() -> None:
    found, reasons = read(*ITEMS)
    assert reasons == []
    assert found[T4, OD] == usd("0.526")
    assert found[T4, SPOT] == usd("0.0943")
    assert found["Standard_ND96isr_H100_v5", OD] == usd("98.32")
    assert found["Standard_ND96asr_v4", OD] == usd("27.197")
    assert found["Standard_NV6ads_A10_v5", OD] == usd("0.454")
    assert not [size for size, _ in found if "NP10s" in size or "D2s" in size or size.startswith("NCads")]


@pytest.mark.parametrize(
    "row",
    [
        item(T4, 1.0, product="Virtual Machines NCasT4 v3 Series Windows"),
        item(T4, 1.0, product="Virtual Machines NCasT4 v3 Srs Win"),
        item(T4, 1.0, product="Virtual Machines NCasT4 v3 Series Cloud Services"),
        item(T4, 1.0, product="NCasT4 v3 Series Dedicated Host"),
        item(T4, 1.0, name="NC4as T4 v3 Low Priority"),
        item(T4, 1.0, meter="NC4as T4 v3 - Expired"),
        item(T4, 1.0, meter="NC4as T4 v3 - Free"),
        item(T4, 1.0, kind="Reservation", reservationTerm="1 Year"),
        item(T4, 1.0, kind="DevTestConsumption"),
        item(T4, 1.0, region="westus3"),
        item(T4, 1.0, start="2026-10-01"),
        item(T4, 1.0, start="2023-01-01", end="2026-08-31"),
        item(T4, 1.0, start="2026-08-01", end="2026-07-31"),
        item(T4, 1.0, tierMinimumUnits=100.0),
        item(T4, 1.0, serviceName="Virtual Machines Licenses"),
        item("", 1.0),
        item("Standard_NP10s", 1.0),
        item("Standard_NC6_Promo", 1.0),
    ],
)
def test_what_is_no_linux_machine_by_the_hour_is_left_out(row: dict[str, Any]) -> None:
    assert read(row) == ({}, [])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"unitOfMeasure": "1 GB/Month"}, "unit is not one hour"),
        ({"currencyCode": "EUR"}, "currency EUR"),
        ({"retailPrice": None}, "price missing"),
        ({"retailPrice": "soon"}, "price not a number"),
        ({"retailPrice": Decimal("NaN")}, "price not a number"),
        ({"skuName": None}, "sku name missing"),
        ({"productName": 7}, "product missing"),
        ({"meterName": "NC4as T4 v3 Spot"}, "sku and meter disagree on spot"),
        ({"effectiveStartDate": "soon"}, "time not readable"),
        ({"type": None}, "type missing"),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected_with_its_reason(change: dict[str, Any], reason: str) -> None:
    assert read(item(T4, 0.526, **change)) == ({}, [reason])


def test_where_the_right_meter_cannot_be_read_another_is_not_taken_for_it() -> None:
    bad, other = item(T4, 0.526, retailPrice=None), item(T4, 0.6, primary=False)
    assert read(bad, other) == ({}, ["price missing"])
    assert read(item(T4, 0.526, productName=None), other) == ({}, ["product missing"]), "it may have been the right one"
    old = item(T4, 0.9, retailPrice=None, start="2020-01-01")
    assert read(old, item(T4, 0.526)) == ({(T4, OD): usd("0.526")}, []), "an older one does not matter"


def test_the_primary_meter_wins_then_the_latest_start_and_a_size_may_have_none_that_is_primary() -> None:
    primary, other = item(T4, 0.526, start="2020-01-01"), item(T4, 0.6, start="2025-01-01", primary=False)
    assert read(other, primary)[0] == {(T4, OD): usd("0.526")}
    assert read(item(T4, 0.5, start="2021-01-01"), primary)[0] == {(T4, OD): usd("0.5")}
    assert read(other)[0] == {(T4, OD): usd("0.6")}


def test_the_same_row_twice_is_one_and_two_prices_are_both_told() -> None:
    row, dearer = item(T4, 0.526), item(T4, 0.789)
    assert read(row, row)[0] == {(T4, OD): usd("0.526")}
    assert read(row, dearer)[0] == read(dearer, row)[0] == {(T4, OD): {Decimal("0.526"), Decimal("0.789")}}


def test_last_month_s_spot_row_is_not_this_month_s() -> None:
    assert read(spot(T4, 0.09, month=8), spot(T4, 0.0943))[0] == {(T4, SPOT): usd("0.0943")}
    assert read(spot(T4, 0.09, month=8)) == ({}, [])


def test_a_zero_is_passed_on_for_the_gate_to_drop() -> None:
    assert read(spot(T4, 0.0))[0] == {(T4, SPOT): {Decimal(0)}}


def test_a_size_that_no_table_knows_keeps_its_price() -> None:
    row = read_row(read_json(json.dumps(item(NEW, 9.0))), "eastus", AS_OF)
    assert row is not None
    (found,) = observations([row], "eastus")[OD][0]
    assert (found.instance_type, found.gpu, found.gpus_per_node) == (NEW, None, None)


def test_the_case_of_region_and_size_does_not_matter() -> None:
    assert read(item("standard_nc4as_t4_v3", 0.526, region="EastUS"))[0] == {(T4, OD): usd("0.526")}
