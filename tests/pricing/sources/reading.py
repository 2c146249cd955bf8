"""Helpers of the source tests: what a source gave, in the form of `fixtures/expected.csv`."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from pricing.offers import Market
from pricing.sources.base import Failure, Fetched, PriceSet, SourceSettings, Wanted

Key = tuple[str, str, str, str, Market]  # cloud, region, zone or "", instance type, market
TOLERANCE = Decimal("0.0000006")


EVERYWHERE = Wanted(
    regions=("us-east-1", "us-west-2", "eu-west-1", "us-central1", "europe-west4", "asia-southeast1", "us-east4",
             "europe-west1", "eastus", "westeurope", "westus3")
)  # fmt: skip
"""The regions that the small world has (Azure has many more to ask)."""


def everything(source: ModuleType, settings: SourceSettings, wanted: Wanted | None = None) -> list[Fetched]:
    """All that a source gives, scope by scope."""
    found: list[Fetched] = []
    for scope in source.scopes(wanted or Wanted(), settings):
        found.extend(source.fetch(scope, settings))
    return found


def prices(found: Iterable[Fetched]) -> dict[Key, set[Decimal]]:
    """Prices by key; several where the source calls it ambiguous."""
    out: dict[Key, set[Decimal]] = {}
    for each in found:
        if isinstance(each, PriceSet):
            for one in each.observations:
                assert (one.cloud, one.region, one.market) == (each.cloud, each.region, each.market)
                key = one.cloud, one.region, one.zone or "", one.instance_type, one.market
                out.setdefault(key, set()).add(one.price_usd_per_hour)
    return out


def failures(found: Iterable[Fetched]) -> list[Failure]:
    return [each for each in found if isinstance(each, Failure)]


def expected_rows() -> list[dict[str, str]]:
    text = (Path(__file__).parent / "fixtures" / "expected.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def expected() -> dict[Key, Decimal]:
    """What a right reader makes of the world; AWS on-demand is regional."""
    out: dict[Key, Decimal] = {}
    for row in expected_rows():
        for market, column in (
            (Market.ON_DEMAND, "on_demand_usd_per_hour"),
            (Market.SPOT, "spot_usd_per_hour"),
        ):
            regional = row["cloud"] == "aws" and market is Market.ON_DEMAND
            zone = "" if regional else row["zone"]
            if row[column]:
                out[row["cloud"], row["region"], zone, row["instance_type"], market] = Decimal(row[column])
    return out


def assert_no_wrong_price(found: Iterable[Fetched]) -> None:
    """Every price is the right one of its key or (zero, left to the gate) none at all."""
    right = expected()
    for key, values in prices(found).items():
        for value in values - {Decimal(0)}:
            if key in right:
                assert abs(value - right[key]) <= TOLERANCE, (key, value, right[key])
            else:
                attached = key[0] == "gcp" and "+" in key[3]  # other counts of GPUs than the table lists
                assert attached, (key, value)
