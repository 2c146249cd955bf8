"""Which products of the AWS price list are Linux on-demand machines, and at what price? Pure: no network here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.offers import Market
from pricing.sources.base import Observation, Rejection
from pricing.sources.readings import (
    NotJson,
    Unreadable,
    mapping,
    quote,
    read_json,
    read_price,
    read_text,
    read_time,
)

GpuOf = Callable[[str, str], "tuple[str | None, float | None] | None"]
"""(instance type, family in the price list) -> (canonical GPU, GPUs per node), None where unknown; None = no GPU."""

PLAIN_LINUX: Mapping[str, str] = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
    "locationType": "AWS Region",
    "operation": "RunInstances",
}
"""The attributes that tell a plain Linux machine, pay as you go, from its twins.

Capacity Blocks differ in `marketoption` alone (and cost 0), unused reservations in `capacitystatus` (full price),
Dedicated Hosts in `tenancy`, licences in `preInstalledSw`, Local Zones in `locationType`.
"""
FAMILY = "Compute Instance"


@dataclass(frozen=True, slots=True)
class Listed:
    """One price that the list states for one plain Linux machine."""

    instance_type: str
    family: str
    price_usd_per_hour: Decimal
    sku: str
    effective_at: datetime


def read_product(item: object, region: str, as_of: datetime) -> list[Listed]:
    """The prices of one product: none if it is not a plain Linux machine of `region`, several if it states several.

    `item` is a JSON text (as GetProducts sends it) or the decoded object. Raises Unreadable for a product that
    should have been a price and cannot be read.
    """
    if isinstance(item, str | bytes):
        try:
            item = read_json(item)
        except NotJson as error:
            raise Unreadable("not JSON") from error
    product = mapping(mapping(item).get("product"))
    attributes = product.get("attributes")
    if not isinstance(attributes, dict):
        raise Unreadable("attributes missing")
    if product.get("productFamily") != FAMILY or attributes.get("regionCode") != region:
        return []
    if any(key in attributes and attributes[key] != value for key, value in PLAIN_LINUX.items()):
        return []
    if attributes.get("instanceType") is None and "BoxUsage:" not in str(attributes.get("usagetype")):
        return []
    for key in PLAIN_LINUX:
        if key not in attributes:
            raise Unreadable(f"{key} missing")
    instance_type = read_text(attributes.get("instanceType"), "instance type")
    if not str(attributes.get("usagetype")).endswith(f"BoxUsage:{instance_type}"):
        return []
    sku = product.get("sku")
    prices = _current(mapping(mapping(item).get("terms")).get("OnDemand"), as_of)
    return [
        Listed(
            instance_type,
            str(attributes.get("instanceFamily", ""))[:80],
            price,
            sku[:40] if isinstance(sku, str) else "",
            effective,
        )
        for price, effective in prices
    ]


def _current(terms: object, as_of: datetime) -> list[tuple[Decimal, datetime]]:
    """Hourly prices of the on-demand terms in force at `as_of`, the latest effective ones, exact repeats folded."""
    if not isinstance(terms, dict) or not terms:
        raise Unreadable("on-demand term missing")
    dated: list[tuple[datetime, Any]] = []
    for term in terms.values():
        effective = read_time(mapping(term).get("effectiveDate"))
        if effective <= as_of:
            dated.append((effective, term))
    if not dated:
        raise Unreadable("on-demand term not yet in force")
    newest = max(effective for effective, _ in dated)
    prices: dict[Decimal, datetime] = {}
    for effective, term in dated:
        dimensions = mapping(mapping(term).get("priceDimensions"))
        if effective == newest:
            for dimension in dimensions.values():
                prices[_hourly(mapping(dimension))] = effective
    if not prices:
        raise Unreadable("price dimension missing")
    return list(prices.items())


def _hourly(dimension: Mapping[str, Any]) -> Decimal:
    if dimension.get("unit") != "Hrs":
        raise Unreadable("unit is not hours")
    if str(dimension.get("beginRange", "0")) != "0" or str(dimension.get("endRange", "Inf")) != "Inf":
        raise Unreadable("price holds for a part of the usage")
    amounts = mapping(dimension.get("pricePerUnit"))
    if "USD" not in amounts:
        others = ", ".join(sorted(str(name)[:8] for name in list(amounts)[:3]))
        raise Unreadable(f"currency {others}" if others else "price missing")
    return read_price(amounts["USD"])


def on_demand(
    items: Iterable[object], region: str, as_of: datetime, gpu_of: GpuOf
) -> tuple[list[Observation], list[Rejection]]:
    """On-demand observations of GPU machines in `region`, and the rows that could not be read.

    `items` are products as `read_product` takes them. The same machine at the same price twice is folded; at two
    prices it comes out twice.
    """
    found: dict[tuple[str, Decimal], Observation] = {}
    rejected: list[Rejection] = []
    for item in items:
        try:
            rows = read_product(item, region, as_of)
        except Unreadable as error:
            rejected.append(rejection(region, str(error), item))
            continue
        for row in rows:
            gpu = gpu_of(row.instance_type, row.family)
            if gpu is not None:
                found.setdefault((row.instance_type, row.price_usd_per_hour), observation(row, region, gpu))
    return list(found.values()), rejected


def observation(row: Listed, region: str, gpu: tuple[str | None, float | None]) -> Observation:
    """The listed price of a GPU machine as an observation."""
    return Observation(
        cloud="aws",
        region=region,
        instance_type=row.instance_type,
        market=Market.ON_DEMAND,
        price_usd_per_hour=row.price_usd_per_hour,
        effective_at=row.effective_at,
        raw_id=row.sku or None,
        gpu=gpu[0],
        gpus_per_node=gpu[1],
    )


def rejection(region: str, reason: str, item: object) -> Rejection:
    """A product that could not be read, with a short quotation of it."""
    decoded = item
    if isinstance(item, str | bytes):
        try:
            decoded = read_json(item)
        except NotJson:
            decoded = item[:300].decode(errors="replace") if isinstance(item, bytes) else item
    attributes = mapping(mapping(mapping(decoded).get("product")).get("attributes"))
    name = attributes.get("instanceType")
    return Rejection(
        cloud="aws",
        region=region,
        market=Market.ON_DEMAND,
        reason=reason,
        instance_type=name if isinstance(name, str) else None,
        detail=quote(attributes or decoded),
    )
