"""Which rows of a region's offer file (CSV, up to 300 MB) are Linux on-demand machines? Pure: lines in, prices out."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from pricing.offers import Market
from pricing.sources.aws_price_list import FAMILY, PLAIN_LINUX, GpuOf, Listed, observation
from pricing.sources.base import FailureReason, Observation, Rejection
from pricing.sources.patience import WireFault
from pricing.sources.readings import Unreadable, quote, read_price, read_text, read_time

_HEADER_WITHIN = 20  # lines; the file begins with five of its own
_NEEDED = (b"OnDemand", b"Linux", b"Shared")  # every line that can matter has these words
_MOST_REJECTED = 1000

_COLUMN_OF = {
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "preInstalledSw": "Pre Installed S/W",
    "capacitystatus": "CapacityStatus",
    "marketoption": "MarketOption",
    "licenseModel": "License Model",
    "locationType": "Location Type",
    "operation": "operation",
}
_OTHERS = (
    "SKU",
    "TermType",
    "EffectiveDate",
    "StartingRange",
    "EndingRange",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Product Family",
    "Instance Type",
    "Instance Family",
    "usageType",
    "Region Code",
)


def on_demand(
    lines: Iterable[bytes], region: str, as_of: datetime, gpu_of: GpuOf
) -> tuple[list[Observation], list[Rejection]]:
    """On-demand observations of GPU machines in `region` from the lines of its offer file, and the unreadable rows.

    One pass, memory bounded by the GPU machines found. Raises WireFault when there is no header or the last line is
    cut off: such a file is not whole.
    """
    found: dict[str, tuple[datetime, dict[Decimal, Observation]]] = {}
    rejected: list[Rejection] = []
    header: dict[str, int] | None = None
    width = count = 0
    last = b""
    for line in lines:
        last = line
        if header is None:
            count += 1
            header, width = _header(line, count)
            continue
        if not all(word in line for word in _NEEDED):
            if line.endswith(b"\n") and line.count(b",") >= width - 1:
                continue
            if not line.strip() or b"ReservedInstances" in line:
                continue
        row = _split(line)
        if len(row) != width:
            if line.endswith(b"\n") and len(rejected) < _MOST_REJECTED:
                rejected.append(_rejection(region, "columns missing", None, line))
            continue
        cell = {name: row[at] for name, at in header.items()}
        try:
            listed = _read(cell, region, as_of)
        except Unreadable as error:
            if gpu_of(cell["Instance Type"], cell["Instance Family"]) and len(rejected) < _MOST_REJECTED:
                rejected.append(_rejection(region, str(error), cell["Instance Type"], line))
            continue
        if listed is None:
            continue
        gpu = gpu_of(listed.instance_type, listed.family)
        if gpu is None:
            continue
        in_force, prices = found.get(listed.instance_type, (listed.effective_at, {}))
        if listed.effective_at > in_force:
            in_force, prices = listed.effective_at, {}
        if listed.effective_at == in_force:
            prices.setdefault(listed.price_usd_per_hour, observation(listed, region, gpu))
            found[listed.instance_type] = (in_force, prices)
    if header is None:
        raise WireFault(FailureReason.NOT_THE_API, "no offer file: the header line is missing")
    if not last.endswith(b"\n") and len(_split(last)) != width:
        raise WireFault(FailureReason.MALFORMED, "offer file cut off in its last line", tries=WireFault.MANY)
    return [one for _, prices in found.values() for one in prices.values()], rejected


def _header(line: bytes, count: int) -> tuple[dict[str, int] | None, int]:
    names = _split(line)
    if names[:1] == ["SKU"]:
        wanted = (*_COLUMN_OF.values(), *_OTHERS)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise WireFault(FailureReason.MALFORMED, f"offer file lacks columns: {', '.join(missing)[:200]}")
        return {name: names.index(name) for name in wanted}, len(names)
    if count >= _HEADER_WITHIN:
        raise WireFault(FailureReason.NOT_THE_API, f"no offer file: no header within {count} lines")
    return None, 0


def _split(line: bytes) -> list[str]:
    """The cells of one line; a line that CSV cannot read has none."""
    try:
        return next(csv.reader([line.decode("utf-8", "replace").rstrip("\r\n")], strict=True), [])
    except csv.Error:
        return []


def _read(cell: dict[str, str], region: str, as_of: datetime) -> Listed | None:
    if cell["TermType"] != "OnDemand" or cell["Product Family"] != FAMILY or cell["Region Code"] != region:
        return None
    for attribute, column in _COLUMN_OF.items():
        value = cell[column] or ("NA" if attribute == "preInstalledSw" else "")
        if value != PLAIN_LINUX[attribute]:
            return None
    instance_type = read_text(cell["Instance Type"], "instance type")
    if not cell["usageType"].endswith(f"BoxUsage:{instance_type}"):
        return None
    if cell["Unit"] != "Hrs":
        raise Unreadable("unit is not hours")
    if cell["StartingRange"] not in ("", "0") or cell["EndingRange"] not in ("", "Inf"):
        raise Unreadable("price holds for a part of the usage")
    if cell["Currency"] != "USD":
        raise Unreadable(f"currency {cell['Currency'][:8]}" if cell["Currency"] else "currency missing")
    effective = read_time(cell["EffectiveDate"])
    if effective > as_of:
        raise Unreadable("on-demand term not yet in force")
    return Listed(instance_type, cell["Instance Family"], read_price(cell["PricePerUnit"]), cell["SKU"][:40], effective)


def _rejection(region: str, reason: str, instance_type: str | None, line: bytes) -> Rejection:
    detail = quote(line[:300].decode("utf-8", "replace").strip())
    return Rejection("aws", region, Market.ON_DEMAND, reason, instance_type=instance_type or None, detail=detail)
