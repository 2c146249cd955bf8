"""What does a core, a GiB, a GPU or a local disk cost in each Google Cloud region? Rates out of the SKU list. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pricing.offers import Market
from pricing.sources.readings import Unreadable, listing, mapping, quote, read_price, read_time

_GIB_PER_GB = Decimal(2**30) / Decimal(10**9)
_HOURS_A_MONTH = Decimal(730)
_AHEAD = timedelta(minutes=5)
_NANO = Decimal(10**9)

_SPOT = r"(?:spot\s+)?preemptible"
_PLACE = r"(?:\s+(?:running\s+)?in\s+(?P<place>[^()]+))"
_HOST = re.compile(
    rf"(?P<spot>{_SPOT}\s+)?(?P<series>[a-z]\d+[a-z]*)(?P<predefined>\s+predefined)?\s+instance\s+(?P<what>core|ram){_PLACE}"
)
_SLICE = re.compile(
    rf"(?P<spot>{_SPOT}\s+)?(?P<series>[a-z]\d+[a-z]*)\s+(?P<gpu>[a-z0-9 ]+?)\s+\(1 gpu slice\){_PLACE}"
)
_GPU = re.compile(rf"(?P<gpu>[a-z0-9 ]+?)(?:\s+gpu)?(?P<spot>\s+attached\s+to\s+{_SPOT}\s+vms)?{_PLACE}")
_SSD = re.compile(rf"ssd\s+backed\s+local\s+storage(?P<spot>\s+attached\s+to\s+{_SPOT}\s+vms)?{_PLACE}?")
_OTHER_WAYS = re.compile(
    r"\b(dws|defined duration|calendar mode|reserved|reservation|commitment|committed|sole tenancy|custom|premium|"
    r"virtual workstation|upgrade|extended|flex)\b"
)
"""Words of SKUs that are no plain on-demand or spot machine, though their usage type may say OnDemand."""

_FILLERS = frozenset({"nvidia", "tesla", "gpu", "attached"})
_SAME_CARD: Mapping[str, frozenset[str]] = {
    "rtx-6000-96gb": frozenset({"rtx", "pro", "6000"}),
}
"""SKU wordings (tokens joined by -) that do not carry the tokens of the accelerator's API name."""


def card(name: str) -> frozenset[str]:
    """The words that tell one accelerator from another, the same for an API name and a SKU description.

    "Plus" is what one place calls the H100 "Mega" of the others; A100 is not A100 80GB.

    >>> sorted(card("nvidia-h100-mega-80gb")) == sorted(card("Nvidia H100 80GB Plus"))
    True
    """
    words = [word for word in re.split(r"[\s\-_]+", name.casefold()) if word]
    kept = [("mega" if word == "plus" else word) for word in words if word not in _FILLERS]
    return _SAME_CARD.get("-".join(kept), frozenset(kept))


@dataclass(frozen=True, slots=True)
class Part:
    """What a rate is for: `core`, `ram` (per GiB), `gpu`, `slice` (a GPU with its share of the machine) or `ssd`
    (per GiB), of a machine series and a card where that matters."""

    kind: str
    series: str = ""
    card: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rate:
    """The hourly price of a part in one region and market, in USD; `price` None: stated, yet not readable."""

    region: str
    market: Market
    part: Part
    price: Decimal | None
    sku: str
    reason: str = ""


def part_of(description: object, category: Mapping[str, Any]) -> tuple[Part, Market] | None:
    """Which part a SKU prices, and in which market; None for everything else (licences, reservations, flex-start...).

    The text decides, whole words and the full string: some spot SKUs have usage type OnDemand, and many that are
    neither spot nor plain on-demand have it too.
    """
    if not isinstance(description, str) or len(description) > 256:
        return None
    usage = category.get("usageType")
    if usage not in ("OnDemand", "Preemptible"):
        return None
    text = " ".join(description.casefold().split())
    if _OTHER_WAYS.search(text):
        return None
    family, group = category.get("resourceFamily"), category.get("resourceGroup")
    part: Part | None = None
    match: re.Match[str] | None = None
    if family == "Compute" and group in ("CPU", "RAM", "N1Standard"):
        match = _HOST.fullmatch(text)
        if match and (match["series"] == "n1") == bool(match["predefined"]):
            part = Part("core" if match["what"] == "core" else "ram", series=match["series"])
    elif family == "Compute" and group == "GPU":
        if match := _SLICE.fullmatch(text):
            part = Part("slice", series=match["series"], card=card(match["gpu"]))
        elif match := _GPU.fullmatch(text):
            part = Part("gpu", card=card(match["gpu"]))
    elif group == "LocalSSD" and family in ("Storage", "Compute"):
        match = _SSD.fullmatch(text)
        part = Part("ssd") if match else None
    if part is None or match is None:
        return None
    spot = bool(match["spot"])
    if usage == "Preemptible" and not spot:
        return None
    return part, Market.SPOT if spot else Market.ON_DEMAND


def rates(sku: Mapping[str, Any], as_of: datetime) -> Iterator[Rate]:
    """The rate of one SKU in each of its regions; nothing for a SKU that prices no part of a GPU machine.

    `sku` has the JSON shape of the Cloud Billing Catalog API.
    """
    known = part_of(sku.get("description"), mapping(sku.get("category")))
    if known is None:
        return
    part, market = known
    price: Decimal | None = None
    reason = ""
    try:
        price = _hourly(sku, part, as_of)
    except Unreadable as error:
        reason = str(error)
    name = str(sku.get("skuId", ""))[:40]
    for region in listing(sku.get("serviceRegions")):
        if isinstance(region, str) and region:
            yield Rate(region, market, part, price, name, reason)


def _hourly(sku: Mapping[str, Any], part: Part, as_of: datetime) -> Decimal:
    """The price in force: the entry with the greatest effectiveTime not after now, its first tier above 0."""
    entries = [(read_time(mapping(e).get("effectiveTime")), mapping(e)) for e in listing(sku.get("pricingInfo"))]
    dated = [(at, entry) for at, entry in entries if at <= as_of + _AHEAD]
    if not dated:
        raise Unreadable("no price in force" if entries else "price missing")
    newest = max(at for at, _ in dated)
    prices = {_entry(entry, part) for at, entry in dated if at == newest}
    if len(prices) > 1:
        raise Unreadable("two prices at one time")
    return prices.pop()


def _entry(entry: Mapping[str, Any], part: Part) -> Decimal:
    expression = mapping(entry.get("pricingExpression"))
    tiers = [mapping(tier) for tier in listing(expression.get("tieredRates"))]
    if not tiers:
        raise Unreadable("price missing")
    amounts = [_money(mapping(tier.get("unitPrice"))) for tier in tiers]
    price = next((amount for amount in amounts if amount != 0), Decimal(0))
    unit = expression.get("usageUnit")
    factors = {
        "ram": {"GiBy.h": Decimal(1), "GBy.h": _GIB_PER_GB},
        "ssd": {"GiBy.mo": 1 / _HOURS_A_MONTH, "GBy.mo": _GIB_PER_GB / _HOURS_A_MONTH, "GiBy.h": Decimal(1)},
    }.get(part.kind, {"h": Decimal(1)})
    if not isinstance(unit, str) or unit not in factors:
        raise Unreadable(f"unit {str(unit)[:20]}")
    return price * factors[unit]


def _money(unit_price: Mapping[str, Any]) -> Decimal:
    currency = unit_price.get("currencyCode")
    if currency != "USD":
        raise Unreadable(f"currency {str(currency)[:8]}")
    units, nanos = unit_price.get("units", 0), unit_price.get("nanos", 0)
    if isinstance(units, bool) or isinstance(nanos, bool) or not isinstance(nanos, int) or abs(nanos) >= 10**9:
        raise Unreadable("price not a number")
    whole = read_price(units if units != "" else 0)
    if whole != whole.to_integral_value():
        raise Unreadable("price not a number")
    amount = whole + nanos / _NANO
    if amount < 0:
        raise Unreadable("price negative")
    return amount


class RateTable:
    """Rates by region, market and part. Several SKUs for one part: equal prices fold, different ones are kept."""

    def __init__(self, found: Iterable[Rate] = ()) -> None:
        self._rates: dict[tuple[str, Market, Part], dict[Decimal | None, Rate]] = {}
        for rate in found:
            self.add(rate)

    def add(self, rate: Rate) -> None:
        """Takes in one rate."""
        self._rates.setdefault((rate.region, rate.market, rate.part), {}).setdefault(rate.price, rate)

    def unreadable(self, region: str, market: Market, part: Part) -> list[Rate]:
        """The rates of a part that are stated, yet cannot be read."""
        found = self._rates.get((region, market, part), {})
        return [found[None]] if None in found else []

    def get(self, region: str, market: Market, part: Part) -> list[Rate]:
        """The readable rates of a part, cheapest first; none where one of them cannot be read or costs nothing."""
        found = self._rates.get((region, market, part), {})
        if None in found or any(price is not None and price <= 0 for price in found):
            return []
        return sorted(found.values(), key=lambda rate: rate.price or Decimal(0))

    def why_not(self, region: str, market: Market, part: Part) -> str:
        """Why `get` is empty: "missing", "zero" or what could not be read."""
        found = self._rates.get((region, market, part), {})
        if not found:
            return "missing"
        unreadable = found.get(None)
        return unreadable.reason if unreadable else "zero"


def describe(rate: Rate) -> str:
    """For a person who looks closer."""
    return quote(f"{rate.sku} {rate.part.kind} {rate.part.series} {' '.join(sorted(rate.part.card))}: {rate.reason}")
