"""What does *this* customer pay? Negotiated discounts, commitments, prepaid blocks and custom prices over list prices.

Rules come from a YAML file (`pricing.sources.overrides_file` reads it). They apply in this order, whatever the file's:

1. `prices` replace a price, or add an offer where there was none (state `own`: it is what the customer said);
2. `commitments` add offers of the market `reserved`, `blocks` offers of the market `block`, beside the on-demand ones;
3. `discounts` take percents off what is left, one rule after the other; never off a price that the customer stated.

Whatever a rule touches says so in `source`, and keeps the list price beside it. Rules outside their dates are not
applied; those that match nothing, or have ended, are warnings: no rule fails in silence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase

import numpy as np

from benchmarks_db.errors import UnknownName, WorkloadError
from pricing.offers import Market, Mask, Offer, OfferTable, PriceState, concatenate, table_of
from pricing.regions import region_filter


@dataclass(frozen=True, slots=True)
class Matching:
    """Which offers a rule is about; empty = all."""

    cloud: str | None = None
    regions: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    markets: tuple[Market, ...] = (Market.ON_DEMAND,)

    def rows(self, table: OfferTable) -> Mask:
        """The rows of a table that the rule is about; UnknownName for a region that nothing answers to."""
        found = table.where("market", lambda market: market in self.markets)
        if self.cloud:
            found &= table.where("cloud", lambda cloud: cloud == self.cloud)
        if self.instance_types:
            globs = [g.casefold() for g in self.instance_types]
            found &= table.where("instance_type", lambda t: any(fnmatchcase(t.casefold(), g) for g in globs))
        if self.regions:
            found &= self._in_regions(table)
        return found

    def _in_regions(self, table: OfferTable) -> Mask:
        """Each (cloud, region) pair is tested once."""
        places = len(table.names["region"])
        codes = table.codes["cloud"].astype(np.int64) * places + table.codes["region"]
        pairs, of_row = np.unique(codes, return_inverse=True)
        named = [(table.names["cloud"][pair // places], table.names["region"][pair % places]) for pair in pairs]
        test = region_filter(self.regions, seen=[pair for pair in named if pair[1]])
        return np.array([bool(region) and test(cloud, region) for cloud, region in named], dtype=bool)[of_row]


@dataclass(frozen=True, slots=True)
class Rule:
    """What every rule has: a name that is printed beside its prices, its place in the file, and its dates."""

    name: str
    field: str  # discounts[0]
    since: date | None = None
    until: date | None = None  # the last day

    def in_force(self, now: datetime) -> bool:
        """Whether the rule's dates (UTC) contain this moment."""
        today = now.astimezone(UTC).date()
        return (self.since is None or self.since <= today) and (self.until is None or today <= self.until)


@dataclass(frozen=True, slots=True)
class Discount:
    """Percent off what matches."""

    rule: Rule
    matching: Matching
    percent: float


@dataclass(frozen=True, slots=True)
class Commitment:
    """A reserved or prepaid offer beside each matching on-demand one: percent off its list price, or a rate of its own.

    `term_hours` is how long it is committed; None = not said (a block always has one).
    """

    rule: Rule
    matching: Matching
    market: Market  # RESERVED or BLOCK
    percent: float | None
    usd_per_hour: float | None
    term_hours: float | None


@dataclass(frozen=True, slots=True)
class CustomPrice:
    """A price of the customer's own for one instance type."""

    rule: Rule
    cloud: str
    region: str
    instance_type: str
    market: Market
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class Overrides:
    """Everything one customer pays otherwise than the list says. `places` tells errors where each rule stands."""

    discounts: tuple[Discount, ...] = ()
    commitments: tuple[Commitment, ...] = ()
    prices: tuple[CustomPrice, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)  # by field: "prices.yaml, line 3"

    def place(self, name: str) -> str:
        """Where a field stands, as the beginning of a sentence; "" where rules came from no file."""
        while name and name not in self.places:
            name = name.rpartition(".")[0]
        return f"{self.places[name]}: " if name else ""

    def error(self, message: str, name: str, value: object = None, nearest: Sequence[str] = ()) -> WorkloadError:
        """A refusal that says in which line of which file."""
        return WorkloadError(f"{self.place(name)}{message}", field=name, value=value, nearest=nearest)


def apply_overrides(table: OfferTable, rules: Overrides, *, now: datetime) -> OfferTable:
    """The table as this customer pays it (see above), with a warning for every rule that changes nothing.

    Raises UnknownName for a custom price of an instance type that nobody knows.
    """
    warnings: list[str] = []
    for price in rules.prices:
        if _in_force(price.rule, now, rules, warnings):
            table = _set_price(table, price, rules, now)
    for commitment in rules.commitments:
        if _in_force(commitment.rule, now, rules, warnings):
            more = _committed(table, commitment, _rows(commitment, table, rules), now)
            if not len(more):
                warnings.append(_idle(commitment.rule, rules))
            table = concatenate([table, more])
    for discount in rules.discounts:
        if _in_force(discount.rule, now, rules, warnings):
            rows = _rows(discount, table, rules) & ~np.isnan(table.usd_per_hour)
            rows &= table.where("state", lambda state: state != PriceState.OWN)
            if not rows.any():
                warnings.append(_idle(discount.rule, rules))
            table = _discounted(table, rows, discount)
    table = _with_break_even(table)
    return replace(table, warnings=(*table.warnings, *warnings)) if warnings else table


def _in_force(rule: Rule, now: datetime, rules: Overrides, warnings: list[str]) -> bool:
    if rule.in_force(now):
        return True
    ended = rule.until is not None and rule.until < now.astimezone(UTC).date()
    when = f"ended on {rule.until}" if ended else f"begins on {rule.since}"
    warnings.append(f"{rules.place(rule.field)}{rule.name!r} {when} and is not applied")
    return False


def _rows(rule: Discount | Commitment, table: OfferTable, rules: Overrides) -> Mask:
    """The rows that a rule is about; an unknown region is an error of the rule's own field."""
    try:
        return rule.matching.rows(table)
    except UnknownName as error:
        raise rules.error(error.message, f"{rule.rule.field}.regions", error.value, error.nearest) from None


def _idle(rule: Rule, rules: Overrides) -> str:
    return f"{rules.place(rule.field)}{rule.name!r} matches no offer"


def _discounted(table: OfferTable, rows: Mask, rule: Discount) -> OfferTable:
    """Percent off the rows; the list price is what stood there before the first rule."""
    listed = np.where(rows & np.isnan(table.list_usd_per_hour), table.usd_per_hour, table.list_usd_per_hour)
    factor = np.where(rows, 1 - rule.percent / 100, 1.0)
    table = replace(table, usd_per_hour=table.usd_per_hour * factor, list_usd_per_hour=listed)
    return _resourced(table, rows, f"negotiated -{rule.percent:g}% ({rule.rule.name})")


def _resourced(table: OfferTable, rows: Mask, words: str) -> OfferTable:
    """Append to the source of the rows what became of their price."""
    codes = table.codes["source"].copy()
    names = list(table.names["source"])
    for code in np.unique(codes[rows]):
        names.append(f"{names[code]} | {words}")
        codes[rows & (table.codes["source"] == code)] = len(names) - 1
    return replace(table, codes={**table.codes, "source": codes}, names={**table.names, "source": tuple(names)})


def _committed(table: OfferTable, rule: Commitment, rows: Mask, now: datetime) -> OfferTable:
    """The offers that a commitment adds; a percentage needs a list price, a rate of its own only a machine."""
    if rule.usd_per_hour is None:
        rows &= ~np.isnan(table.usd_per_hour)
    templates = table.select(rows).offers()
    if rule.usd_per_hour is not None and not templates:
        templates = _named_machines(table, rule.matching, rule.market)
    how = f"-{rule.percent:g}%" if rule.percent is not None else "rate"
    kind = "prepaid" if rule.market is Market.BLOCK else "committed"
    offers = []
    for offer in templates:
        usd, listed = rule.usd_per_hour, offer.price_usd_per_hour
        if usd is None:
            usd = (listed or 0.0) * (1 - (rule.percent or 0.0) / 100)
        said = rule.usd_per_hour is not None
        source = f"{kind} {how} ({rule.rule.name})"
        offers.append(
            replace(
                offer,
                market=rule.market,
                price_usd_per_hour=usd,
                list_price_usd_per_hour=listed,
                term_hours=rule.term_hours,
                source=source if said else f"{offer.source} | {source}",
                observed_at=now if said else offer.observed_at,
                state=PriceState.OWN if said else offer.state,
                ranked=said or offer.ranked,
                note="" if said else offer.note,
            )
        )
    return table_of(offers, table.types)


def _with_break_even(table: OfferTable) -> OfferTable:
    """Hours of use within the term above which a commitment is cheaper than on demand, as this customer pays it."""
    rows = np.flatnonzero(~np.isnan(table.term_hours) & ~np.isnan(table.usd_per_hour))
    if not len(rows):
        return table
    plain = table.where("market", lambda market: market == Market.ON_DEMAND) & ~np.isnan(table.usd_per_hour)
    beside: dict[tuple[int, int], float] = {}
    for row in np.flatnonzero(plain):
        key = (int(table.type_index[row]), int(table.codes["region"][row]))
        beside[key] = min(beside.get(key, math.inf), float(table.usd_per_hour[row]))
    even = table.break_even_hours.copy()
    for row in rows:
        usd = beside.get((int(table.type_index[row]), int(table.codes["region"][row])), math.nan)
        even[row] = table.term_hours[row] * table.usd_per_hour[row] / usd
    return replace(table, break_even_hours=even)


def _set_price(table: OfferTable, rule: CustomPrice, rules: Overrides, now: datetime) -> OfferTable:
    matching = Matching(rule.cloud, (rule.region,), (rule.instance_type,), (rule.market,))
    try:
        rows = matching.rows(table)
    except UnknownName as error:
        raise rules.error(error.message, f"{rule.rule.field}.region", error.value, error.nearest) from None
    templates = table.select(rows).offers() or _named_machines(table, matching, rule.market)
    if not templates:
        known = [name for cloud, name in table.types.position if cloud == rule.cloud]
        near = get_close_matches(rule.instance_type, known, n=3, cutoff=0.5)
        if rule.instance_type not in known:
            message = f"unknown instance type {rule.instance_type!r} of {rule.cloud}"
            raise rules.error(message, f"{rule.rule.field}.instance_type", rule.instance_type, near)
        raise rules.error(f"unknown region {rule.region!r} of {rule.cloud}", f"{rule.rule.field}.region", rule.region)
    changed = [
        replace(
            offer,
            price_usd_per_hour=rule.usd_per_hour,
            list_price_usd_per_hour=offer.price_usd_per_hour,
            source=f"own price ({rule.rule.name})",
            observed_at=now,
            state=PriceState.OWN,
            ranked=True,
            note="",
        )
        for offer in templates
    ]
    return concatenate([table.select(~rows), table_of(changed, table.types)])


def _named_machines(table: OfferTable, matching: Matching, market: Market) -> list[Offer]:
    """Unpriced offers of the known machines that a rule names in full, in the regions that it names in full."""
    from pricing.regions import regions

    known = set(regions()) | {(c, r) for c, r in zip(table.cloud, table.region, strict=True) if r}
    found = []
    for (cloud, name), row in table.types.position.items():
        if name not in matching.instance_types or matching.cloud not in (None, cloud):
            continue
        gpus = float(table.types.numbers["gpus"][row])
        found += [
            Offer(
                cloud=cloud,
                region=region,
                zone=None,
                zone_id=None,
                instance_type=name,
                market=market,
                gpu=table.types.texts["gpu"][row] or None,
                gpus_per_node=None if math.isnan(gpus) else gpus,
                price_usd_per_hour=None,
                source="",
                observed_at=None,
                state=PriceState.OWN,
            )
            for region in matching.regions
            if (cloud, region) in known
        ]
    return found
