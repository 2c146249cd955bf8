"""What does a spot machine cost now, by zone? The latest change of each, out of a price history. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pricing.offers import Market
from pricing.sources.base import Observation, Rejection
from pricing.sources.readings import Unreadable, quote, read_price, read_text, read_time

LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_AHEAD = timedelta(minutes=5)  # a clock may be off that much; later than that is not believed


@dataclass(frozen=True, slots=True)
class _Record:
    at: datetime
    price: Decimal | None  # None: stated, yet not readable
    reason: str
    row: Mapping[str, Any]


def latest(
    records: Iterable[object],
    region: str,
    as_of: datetime,
    gpu_of: Callable[[str], tuple[str | None, float | None] | None],
) -> tuple[list[Observation], list[Rejection]]:
    """Spot observations by (type, zone) of `region`: the change with the greatest Timestamp not after `as_of`.

    `records` are entries of SpotPriceHistory as botocore gives them, in any order. Other systems than Linux, other
    machines than `gpu_of` knows and Local Zones are left out. A record up to five minutes ahead counts only where
    there is no earlier one. Where the latest record cannot be read there is no price: an older one would be wrong.
    """
    changes: dict[tuple[str, str], list[_Record]] = {}
    zone_ids: dict[str, str] = {}
    rejected: list[Rejection] = []
    spoiled: set[tuple[str, str]] = set()
    standard_zone = re.compile(re.escape(region) + "[a-z]")
    for row in records:
        if not isinstance(row, Mapping):
            rejected.append(_rejection(region, "record missing", {}))
            continue
        if row.get("ProductDescription") not in LINUX:
            if not isinstance(row.get("ProductDescription"), str):
                rejected.append(_rejection(region, "product missing", row))
            continue
        try:
            instance_type = read_text(row.get("InstanceType"), "instance type")
            zone = read_text(row.get("AvailabilityZone"), "zone")
        except Unreadable as error:
            rejected.append(_rejection(region, str(error), row))
            continue
        if gpu_of(instance_type) is None or not standard_zone.fullmatch(zone):
            continue
        if isinstance(row.get("AvailabilityZoneId"), str) and row["AvailabilityZoneId"]:
            zone_ids[zone] = row["AvailabilityZoneId"]
        try:
            at = read_time(row.get("Timestamp"))
        except Unreadable as error:
            spoiled.add((instance_type, zone))
            rejected.append(_rejection(region, str(error), row))
            continue
        if at > as_of + _AHEAD:
            continue
        try:
            record = _Record(at, read_price(row.get("SpotPrice")), "", row)
        except Unreadable as error:
            record = _Record(at, None, str(error), row)
        changes.setdefault((instance_type, zone), []).append(record)

    found: list[Observation] = []
    for (instance_type, zone), several in sorted(changes.items()):
        past = [record.at for record in several if record.at <= as_of]
        newest = max(past) if past else min(record.at for record in several)
        current = {record.price: record for record in several if record.at == newest}
        if None in current:
            rejected.append(_rejection(region, current[None].reason, current[None].row))
        if None in current or (instance_type, zone) in spoiled:
            continue
        gpu = gpu_of(instance_type)
        assert gpu is not None
        found.extend(
            Observation(
                cloud="aws",
                region=region,
                instance_type=instance_type,
                market=Market.SPOT,
                price_usd_per_hour=price,
                zone=zone,
                zone_id=zone_ids.get(zone),
                effective_at=newest,
                gpu=gpu[0],
                gpus_per_node=gpu[1],
            )
            for price in current
            if price is not None
        )
    return found, rejected


def _rejection(region: str, reason: str, row: Mapping[str, Any]) -> Rejection:
    name, zone = row.get("InstanceType"), row.get("AvailabilityZone")
    return Rejection(
        cloud="aws",
        region=region,
        market=Market.SPOT,
        reason=reason,
        instance_type=name if isinstance(name, str) else None,
        zone=zone if isinstance(zone, str) else None,
        detail=quote(dict(row)),
    )
