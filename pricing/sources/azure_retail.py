"""Which rows of Azure's retail prices are Linux GPU machines, on demand or spot, in force now? Pure: no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

from pricing.instances import InstanceType, instance_types
from pricing.offers import Market
from pricing.sources.base import Observation, Rejection
from pricing.sources.readings import Unreadable, mapping, quote, read_price, read_text, read_time

SERVICE = "Virtual Machines"
_GPU_SIZE = re.compile(r"Standard_N(?![PM]\d)\w+", re.IGNORECASE)
"""Azure names its accelerated sizes N...; NP has FPGAs, NM media encoders."""
_OTHER_PRODUCT = re.compile(r"\b(windows|win|cloud\s*services|dedicated\s+host)\b")
_OTHER_METER = re.compile(r"\b(low\s+priority|expired|free|promo)\b")
_SPOT = re.compile(r"\sspot\Z")


@dataclass(frozen=True, slots=True)
class Meter:
    """A row that is a price of a Linux machine and in force; `price` None: stated, yet not readable (`reason`)."""

    size: str
    market: Market
    price: Decimal | None
    start: datetime
    primary: bool
    meter_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Spoiled:
    """A row so broken that it could have been the price of `size` (None: of anything)."""

    size: str | None
    rejection: Rejection


def read_row(row: object, region: str, as_of: datetime) -> Meter | Spoiled | None:
    """One item of a page: a meter, nothing (another system, kind, region or window), or why it cannot be read."""
    item = mapping(row)
    size = item.get("armSkuName")
    try:
        if not item:
            raise Unreadable("row missing")
        if size == "" or (isinstance(size, str) and not _GPU_SIZE.fullmatch(size.strip())):
            return None
        return _meter(item, region, as_of)
    except Unreadable as error:
        name = size.strip() if isinstance(size, str) else None
        return Spoiled(name, _rejection(region, str(error), item))


def _meter(item: Mapping[str, Any], region: str, as_of: datetime) -> Meter | None:
    if read_text(item.get("type"), "type") != "Consumption" or item.get("reservationTerm"):
        return None
    if read_text(item.get("serviceName"), "service") != SERVICE:
        return None
    if read_text(item.get("armRegionName"), "region").casefold() != region.casefold():
        return None
    size = read_text(item.get("armSkuName"), "size")
    product = read_text(item.get("productName"), "product").casefold()
    sku = read_text(item.get("skuName"), "sku name").casefold()
    meter = read_text(item.get("meterName"), "meter name").casefold()
    if _OTHER_PRODUCT.search(product) or _OTHER_METER.search(sku) or _OTHER_METER.search(meter):
        return None
    if size.casefold().endswith("_promo"):
        return None
    spot = bool(_SPOT.search(sku))
    if spot != bool(_SPOT.search(meter)):
        raise Unreadable("sku and meter disagree on spot")
    minimum = read_price(item.get("tierMinimumUnits", 0))
    if minimum != 0:
        return None
    start = read_time(item.get("effectiveStartDate"))
    end = read_time(item["effectiveEndDate"]) if item.get("effectiveEndDate") else None
    if start > as_of or (end is not None and not start <= as_of <= end):
        return None
    if item.get("unitOfMeasure") != "1 Hour":
        raise Unreadable("unit is not one hour")
    price: Decimal | None = None
    reason = ""
    try:
        currency = item.get("currencyCode")
        if currency != "USD":
            raise Unreadable(f"currency {str(currency)[:8]}")
        price = read_price(item.get("retailPrice"))
    except Unreadable as error:
        reason = str(error)
    return Meter(
        size,
        Market.SPOT if spot else Market.ON_DEMAND,
        price,
        start,
        item.get("isPrimaryMeterRegion") is True,
        str(item.get("meterId", ""))[:60],
        reason,
    )


def observations(
    rows: Iterable[Meter | Spoiled], region: str
) -> dict[Market, tuple[list[Observation], list[Rejection]]]:
    """By market: the prices in force, and the rows that could not be read.

    Several meters of one size: the primary ones where there are any, of these the latest start; should two prices be
    left, both come out (ambiguous). Where the chosen one cannot be read there is no price: another would be wrong.
    """
    out: dict[Market, tuple[list[Observation], list[Rejection]]] = {
        Market.ON_DEMAND: ([], []),
        Market.SPOT: ([], []),
    }
    several: dict[tuple[str, Market], list[Meter]] = {}
    spoiled: set[str] = set()
    for row in rows:
        if isinstance(row, Spoiled):
            spoiled.add((row.size or "").casefold())
            out[row.rejection.market][1].append(row.rejection)
        else:
            several.setdefault((row.size.casefold(), row.market), []).append(row)
    for (folded, market), meters in sorted(several.items()):
        best = max((meter.primary, meter.start) for meter in meters)
        chosen = {meter.price: meter for meter in meters if (meter.primary, meter.start) == best}
        found, rejected = out[market]
        if None in chosen:
            bad = chosen[None]
            rejected.append(Rejection("azure", region, market, bad.reason, instance_type=bad.size, detail=bad.meter_id))
        if None in chosen or folded in spoiled:
            continue
        for price, meter in chosen.items():
            assert price is not None
            machine = known_size(meter.size)
            found.append(
                Observation(
                    cloud="azure",
                    region=region,
                    instance_type=machine.instance_type if machine else meter.size,
                    market=market,
                    price_usd_per_hour=price,
                    effective_at=meter.start,
                    raw_id=meter.meter_id or None,
                    gpu=machine.gpu if machine else None,
                    gpus_per_node=machine.gpus if machine else None,
                )
            )
    return out


@cache
def _sizes() -> dict[str, InstanceType]:
    return {name.casefold(): machine for (cloud, name), machine in instance_types().items() if cloud == "azure"}


def known_size(size: str) -> InstanceType | None:
    """The machine of the shipped table, whatever the case of its name."""
    return _sizes().get(size.casefold())


def new_machine(size: str) -> InstanceType:
    """A size that the table lacks: the price API tells nothing but its name, so nothing is guessed."""
    return InstanceType(
        cloud="azure",
        instance_type=size,
        gpu=None,
        gpus=None,
        notes="known by its size name alone",
        source="azure:retail",
    )


def _rejection(region: str, reason: str, item: Mapping[str, Any]) -> Rejection:
    size, sku = item.get("armSkuName"), item.get("skuName")
    spot = isinstance(sku, str) and bool(_SPOT.search(sku.strip().casefold()))
    return Rejection(
        cloud="azure",
        region=region,
        market=Market.SPOT if spot else Market.ON_DEMAND,
        reason=reason,
        instance_type=size[:80] if isinstance(size, str) else None,
        detail=quote(dict(item)),
    )
