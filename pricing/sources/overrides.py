"""What does *this* customer pay? Negotiated discounts, commitments and custom prices laid over the list prices.

A YAML file (or the same as a mapping):

    discounts:                     # each matching rule applies, one after the other, to what the rules before left
      - {name: EDP 2026, cloud: aws, percent: 12}                                       # on-demand, unless markets says
      - {name: EA, cloud: azure, instance_types: ['Standard_ND*'], markets: [on-demand, spot], percent: 20}
    commitments:                   # adds offers of the market `reserved` beside the on-demand ones
      - {name: 3-year CUD, cloud: gcp, instance_types: ['a3-*'], regions: ['us-*'], percent: 55}
      - {name: Savings Plan, cloud: aws, instance_types: [p5.48xlarge], usd_per_hour: 28.9}
    prices:                        # replaces the price, or adds an offer where there was none
      - {cloud: aws, region: us-east-1, instance_type: p5e.48xlarge, market: on-demand, usd_per_hour: 39.8}

A price of 0 is refused: only own machines may be free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from benchmarks_db.errors import WorkloadError
from pricing.offers import Market, Mask, Offer, OfferTable, PriceState, concatenate, table_of
from pricing.regions import region_filter, resolve_cloud

BUYABLE = (Market.ON_DEMAND, Market.SPOT, Market.RESERVED, Market.BLOCK)


@dataclass(frozen=True, slots=True)
class Matching:
    """Which offers a rule is about; empty = all."""

    cloud: str | None = None
    regions: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    markets: tuple[Market, ...] = (Market.ON_DEMAND,)

    def rows(self, table: OfferTable) -> Mask:
        """The rows of a table that the rule is about."""
        found = table.where("market", lambda market: market in self.markets)
        if self.cloud:
            found &= table.where("cloud", lambda cloud: cloud == self.cloud)
        if self.instance_types:
            globs = [g.casefold() for g in self.instance_types]
            found &= table.where("instance_type", lambda t: any(fnmatchcase(t.casefold(), g) for g in globs))
        if self.regions:
            seen = {(c, r) for c, r in zip(table.cloud, table.region, strict=True) if r}
            test = region_filter(self.regions, seen=seen)
            clouds = table.names["cloud"]
            found &= np.array(
                [found[n] and test(clouds[table.codes["cloud"][n]], r) for n, r in enumerate(table.region)], dtype=bool
            )
        return found


@dataclass(frozen=True, slots=True)
class Discount:
    """Percent off what matches."""

    name: str
    matching: Matching
    percent: float


@dataclass(frozen=True, slots=True)
class Commitment:
    """A reserved offer beside each matching on-demand one: percent off it, or a rate of its own."""

    name: str
    matching: Matching
    percent: float | None
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class CustomPrice:
    """A price of the customer's own for one instance type."""

    cloud: str
    region: str | None
    instance_type: str
    market: Market
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class Overrides:
    """Everything one customer pays otherwise than the list says."""

    discounts: tuple[Discount, ...] = ()
    commitments: tuple[Commitment, ...] = ()
    prices: tuple[CustomPrice, ...] = ()


def read_overrides(path: Path) -> Overrides:
    """The overrides of a YAML file; WorkloadError names the file and, for bad YAML, line and column."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror}", field="overrides", value=str(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise WorkloadError(f"{path} is not YAML{where}", field="overrides", value=str(path)) from None
    return overrides(content or {})


def overrides(content: object) -> Overrides:
    """The overrides of a mapping as in the module docstring; WorkloadError names the field."""
    entries = _mapping(content, "overrides", ("discounts", "commitments", "prices"))
    return Overrides(
        discounts=tuple(_discount(e, f) for e, f in _entries(entries, "discounts")),
        commitments=tuple(_commitment(e, f) for e, f in _entries(entries, "commitments")),
        prices=tuple(_price(e, f) for e, f in _entries(entries, "prices")),
    )


def apply_overrides(table: OfferTable, rules: Overrides, *, now: datetime) -> OfferTable:
    """The table as this customer pays it: custom prices first, then commitments, then discounts.

    Whatever is changed says so in `source`. A custom price has the state `own`; a discounted one keeps the state and
    the age of the list price under it.
    """
    for price in rules.prices:
        table = _set_price(table, price, now)
    for commitment in rules.commitments:
        table = _commit(table, commitment)
    for discount in rules.discounts:
        rows = discount.matching.rows(table) & ~np.isnan(table.usd_per_hour)
        factor = np.where(rows, 1 - discount.percent / 100, 1.0)
        table = _resourced(replace(table, usd_per_hour=table.usd_per_hour * factor), rows, discount.name)
    return table


def _resourced(table: OfferTable, rows: Mask, name: str) -> OfferTable:
    """Append the rule's name to the source of the rows."""
    codes = table.codes["source"].copy()
    names = list(table.names["source"])
    for code in np.unique(codes[rows]):
        names.append(f"{names[code]} - {name}")
        codes[rows & (table.codes["source"] == code)] = len(names) - 1
    return replace(table, codes={**table.codes, "source": codes}, names={**table.names, "source": tuple(names)})


def _commit(table: OfferTable, rule: Commitment) -> OfferTable:
    rows = rule.matching.rows(table) & ~np.isnan(table.usd_per_hour)
    offers = []
    for offer in table.select(rows).offers():
        usd = rule.usd_per_hour
        if usd is None:
            usd = (offer.price_usd_per_hour or 0.0) * (1 - (rule.percent or 0.0) / 100)
        offers.append(
            replace(offer, market=Market.RESERVED, price_usd_per_hour=usd, source=f"{offer.source} - {rule.name}")
        )
    return concatenate([table, table_of(offers, table.types)]) if offers else table


def _set_price(table: OfferTable, rule: CustomPrice, now: datetime) -> OfferTable:
    matching = Matching(rule.cloud, (rule.region,) if rule.region else (), (rule.instance_type,), (rule.market,))
    rows = matching.rows(table)
    types = {key: n for key, n in table.types.position.items() if key[0] == rule.cloud}
    kind = types.get((rule.cloud, rule.instance_type))
    templates = table.select(rows).offers()
    if not templates:
        if kind is None:
            near = get_close_matches(rule.instance_type, [name for _, name in types], n=3, cutoff=0.5)
            raise WorkloadError(
                f"unknown instance type {rule.instance_type!r} of {rule.cloud}",
                field="prices.instance_type",
                value=rule.instance_type,
                nearest=near,
            )
        gpus = float(table.types.numbers["gpus"][kind])
        templates = [
            Offer(
                cloud=rule.cloud,
                region=rule.region,
                zone=None,
                zone_id=None,
                instance_type=rule.instance_type,
                market=rule.market,
                gpu=table.types.texts["gpu"][kind] or None,
                gpus_per_node=None if math.isnan(gpus) else gpus,
                price_usd_per_hour=None,
                source="",
                observed_at=now,
                state=PriceState.OWN,
            )
        ]
    changed = [
        replace(
            offer,
            price_usd_per_hour=rule.usd_per_hour,
            source="override:price",
            observed_at=now,
            state=PriceState.OWN,
            ranked=True,
            note="",
        )
        for offer in templates
    ]
    return concatenate([table.select(~rows), table_of(changed, table.types)])


# --- reading --------------------------------------------------------------------------------------------------------

_MATCH_KEYS = ("name", "cloud", "regions", "instance_types", "markets")


def _mapping(value: object, field: str, known: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise WorkloadError("must be a mapping", field=field, value=value)
    for key in value:
        if key not in known:
            near = get_close_matches(str(key), known, n=2)
            raise WorkloadError(f"unknown key {key!r}; known are {', '.join(known)}", field=field, nearest=near)
    return value


def _entries(content: Mapping[str, object], kind: str) -> list[tuple[object, str]]:
    entries = content.get(kind) or []
    if not isinstance(entries, list):
        raise WorkloadError("must be a list", field=kind, value=entries)
    return [(entry, f"{kind}[{n}]") for n, entry in enumerate(entries)]


def _discount(entry: object, field: str) -> Discount:
    values = _mapping(entry, field, (*_MATCH_KEYS, "percent"))
    return Discount(_name(values, field), _matching(values, field), _percent(values.get("percent"), f"{field}.percent"))


def _commitment(entry: object, field: str) -> Commitment:
    values = _mapping(entry, field, (*_MATCH_KEYS, "percent", "usd_per_hour"))
    percent, usd = values.get("percent"), values.get("usd_per_hour")
    if (percent is None) == (usd is None):
        raise WorkloadError("needs either percent or usd_per_hour", field=field)
    return Commitment(
        _name(values, field),
        replace(_matching(values, field), markets=(Market.ON_DEMAND,)),
        None if percent is None else _percent(percent, f"{field}.percent"),
        None if usd is None else _usd(usd, f"{field}.usd_per_hour"),
    )


def _price(entry: object, field: str) -> CustomPrice:
    values = _mapping(entry, field, ("cloud", "region", "instance_type", "market", "usd_per_hour"))
    for key in ("cloud", "region", "instance_type", "usd_per_hour"):
        if values.get(key) in (None, ""):
            raise WorkloadError("is needed", field=f"{field}.{key}")
    return CustomPrice(
        resolve_cloud(str(values["cloud"]), field=f"{field}.cloud"),
        str(values["region"]),
        str(values["instance_type"]),
        _market(values.get("market", Market.ON_DEMAND), f"{field}.market"),
        _usd(values["usd_per_hour"], f"{field}.usd_per_hour"),
    )


def _name(values: Mapping[str, object], field: str) -> str:
    name = str(values.get("name") or "").strip()
    if not name:
        raise WorkloadError("is needed: it is printed beside every price that it changes", field=f"{field}.name")
    return name


def _matching(values: Mapping[str, object], field: str) -> Matching:
    cloud = values.get("cloud")
    markets = _texts(values.get("markets"), f"{field}.markets")
    regions = _texts(values.get("regions"), f"{field}.regions")
    if regions:
        region_filter(regions, field=f"{field}.regions")
    return Matching(
        cloud=resolve_cloud(str(cloud), field=f"{field}.cloud") if cloud else None,
        regions=regions,
        instance_types=_texts(values.get("instance_types"), f"{field}.instance_types"),
        markets=tuple(_market(m, f"{field}.markets") for m in markets) or (Market.ON_DEMAND,),
    )


def _texts(value: object, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise WorkloadError("must be a text or a list of texts", field=field, value=value)
    return tuple(value)


def _market(value: object, field: str) -> Market:
    names = [m.value for m in BUYABLE]
    if value not in names:
        near = get_close_matches(str(value), names, n=2)
        raise WorkloadError(f"{value!r} is not one of {', '.join(names)}", field=field, value=value, nearest=near)
    return Market(str(value))


def _percent(value: object, field: str) -> float:
    number = _number(value, field)
    if not 0 < number < 100:
        raise WorkloadError("is percent off the list price, between 0 and 100", field=field, value=value)
    return number


def _usd(value: object, field: str) -> float:
    number = _number(value, field)
    if not 0 < number <= 1e6:
        raise WorkloadError("must be above 0 USD per hour (only own machines may be free)", field=field, value=value)
    return number


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkloadError(f"{value!r} is not a number", field=field, value=value)
    return float(value)
