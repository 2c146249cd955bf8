"""What can be rented, where, in which market, at what price, seen when? Offers, and the table a plan ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.errors import PricesUnavailable
from pricing.instances import InstanceType
from pricing.market import BOUGHT as BOUGHT
from pricing.market import Freshness as Freshness
from pricing.market import Market as Market
from pricing.market import Offer as Offer
from pricing.market import PriceState as PriceState
from pricing.market import iso as iso

if TYPE_CHECKING:
    from pricing.interruptions import InterruptionFact
    from pricing.sources.overrides import Overrides

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Texts = NDArray[np.object_]


# --- the table ------------------------------------------------------------------------------------------------------

TEXT_COLUMNS = ("cloud", "region", "zone", "zone_id", "instance_type", "market", "source", "state", "note")
TYPE_TEXTS = ("cloud", "instance_type", "gpu", "rdma", "gpu_interconnect", "accelerator")
TERMS = ("list_usd_per_hour", "term_hours", "break_even_hours")
TYPE_NUMBERS = ("gpus", "gpu_mem_gib", "vcpus", "mem_gib", "local_ssd_gb", "network_gbps")


@dataclass(frozen=True)
class InstanceTable:
    """Machine facts by column, one row a type. Numbers are float64 with nan for unknown; texts use "" for none."""

    texts: Mapping[str, tuple[str, ...]]  # by TYPE_TEXTS
    numbers: Mapping[str, Floats]  # by TYPE_NUMBERS

    def __len__(self) -> int:
        return len(self.texts["cloud"])

    @cached_property
    def position(self) -> dict[tuple[str, str], int]:
        """Row of (cloud, instance type)."""
        return {key: n for n, key in enumerate(zip(self.texts["cloud"], self.texts["instance_type"], strict=True))}


def instance_table(types: Iterable[InstanceType]) -> InstanceTable:
    """Columns of the given types, in their order."""
    rows = list(types)
    return InstanceTable(
        texts={name: tuple(getattr(row, name) or "" for row in rows) for name in TYPE_TEXTS},
        numbers={
            name: np.array([math.nan if (v := getattr(row, name)) is None else v for row in rows], dtype=np.float64)
            for name in TYPE_NUMBERS
        },
    )


def extended(facts: InstanceTable, more: Sequence[InstanceType]) -> InstanceTable:
    """The table with further types at its end."""
    if not more:
        return facts
    new = instance_table(more)
    return InstanceTable(
        texts={name: facts.texts[name] + new.texts[name] for name in TYPE_TEXTS},
        numbers={name: np.concatenate([facts.numbers[name], new.numbers[name]]) for name in TYPE_NUMBERS},
    )


@dataclass(frozen=True)
class OfferTable:
    """N offers by column, for a planner that looks at all of them at once.

    Texts are held as codes into short lists of names (`codes[column]`, `names[column]`; "" = none); `column(name)`
    and the properties decode them. `where(column, test)` runs a test once per distinct name. Machine facts come from
    `types`, one row per instance type, through `type_index`.
    """

    codes: Mapping[str, Codes]
    names: Mapping[str, tuple[str, ...]]
    usd_per_hour: Floats  # nan: unpriced
    observed: Floats  # seconds since 1970 UTC; nan: never seen
    ranked: Mask
    type_index: Codes
    types: InstanceTable
    warnings: tuple[str, ...] = field(default=())
    # What only negotiated, committed and prepaid offers have (see `Offer`); nan elsewhere, left out = nan everywhere.
    list_usd_per_hour: Floats = field(default_factory=lambda: np.empty(0))
    term_hours: Floats = field(default_factory=lambda: np.empty(0))
    break_even_hours: Floats = field(default_factory=lambda: np.empty(0))
    reclaims: Mapping[tuple[str, str, str], InterruptionFact] = field(default_factory=dict)  # fetched with the prices

    def __post_init__(self) -> None:
        for name in TERMS:
            if len(getattr(self, name)) != len(self):
                object.__setattr__(self, name, np.full(len(self), math.nan))

    def __len__(self) -> int:
        return len(self.usd_per_hour)

    def column(self, name: str) -> Texts:
        """A text column decoded: an object array of str, length N."""
        return np.array(self.names[name], dtype=object)[self.codes[name]]

    def where(self, name: str, test: Callable[[str], bool]) -> Mask:
        """The rows whose text in a column passes the test; the test runs once per distinct text."""
        return np.array([test(text) for text in self.names[name]], dtype=bool)[self.codes[name]]

    def where_type(self, name: str, test: Callable[[str], bool]) -> Mask:
        """As `where`, over a text column of the instance types (gpu, rdma, gpu_interconnect, accelerator)."""
        return np.array([test(text) for text in self.types.texts[name]], dtype=bool)[self.type_index]

    @property
    def cloud(self) -> Texts:
        """aws, gcp, azure or "own"."""
        return self.column("cloud")

    @property
    def region(self) -> Texts:
        """ "" = no region known."""
        return self.column("region")

    @property
    def zone(self) -> Texts:
        """ "" = regional."""
        return self.column("zone")

    @property
    def zone_id(self) -> Texts:
        """AWS zone id, "" = none."""
        return self.column("zone_id")

    @property
    def instance_type(self) -> Texts:
        """The cloud's name of the machine."""
        return self.column("instance_type")

    @property
    def market(self) -> Texts:
        """Values of `Market`."""
        return self.column("market")

    @property
    def source(self) -> Texts:
        """Who stated the price."""
        return self.column("source")

    @property
    def state(self) -> Texts:
        """Values of `PriceState`."""
        return self.column("state")

    @property
    def note(self) -> Texts:
        """Why stale or not ranked."""
        return self.column("note")

    @property
    def gpu(self) -> Texts:
        """Canonical GPU names, "" = unknown."""
        return self._type_text("gpu")

    @property
    def rdma(self) -> Texts:
        """As `InstanceType.rdma`."""
        return self._type_text("rdma")

    @property
    def gpu_interconnect(self) -> Texts:
        """As `InstanceType.gpu_interconnect`, "" = unknown or one GPU."""
        return self._type_text("gpu_interconnect")

    @property
    def accelerator(self) -> Texts:
        """As `InstanceType.accelerator`."""
        return self._type_text("accelerator")

    @property
    def gpus_per_node(self) -> Floats:
        """GPUs of one instance; nan = unknown."""
        return self.types.numbers["gpus"][self.type_index]

    @property
    def vcpus(self) -> Floats:
        """Virtual CPUs of one instance."""
        return self.types.numbers["vcpus"][self.type_index]

    @property
    def mem_gib(self) -> Floats:
        """Host memory, GiB."""
        return self.types.numbers["mem_gib"][self.type_index]

    @property
    def gpu_mem_gib(self) -> Floats:
        """One card's memory as the cloud states it, GiB."""
        return self.types.numbers["gpu_mem_gib"][self.type_index]

    @property
    def network_gbps(self) -> Floats:
        """Bandwidth between nodes, Gbit/s."""
        return self.types.numbers["network_gbps"][self.type_index]

    def _type_text(self, name: str) -> Texts:
        return np.array(self.types.texts[name], dtype=object)[self.type_index]

    def select(self, rows: Mask | Codes) -> OfferTable:
        """The rows of a mask or of indices, facts kept."""
        return replace(
            self,
            codes={name: codes[rows] for name, codes in self.codes.items()},
            usd_per_hour=self.usd_per_hour[rows],
            observed=self.observed[rows],
            ranked=self.ranked[rows],
            type_index=self.type_index[rows],
            list_usd_per_hour=self.list_usd_per_hour[rows],
            term_hours=self.term_hours[rows],
            break_even_hours=self.break_even_hours[rows],
        )

    def offer(self, row: int) -> Offer:
        """One row as a value."""
        text = {name: self.names[name][codes[row]] for name, codes in self.codes.items()}
        kind = int(self.type_index[row])
        gpus, usd, seen = (
            float(a) for a in (self.types.numbers["gpus"][kind], self.usd_per_hour[row], self.observed[row])
        )
        listed, term, even = (None if math.isnan(v := getattr(self, name)[row]) else float(v) for name in TERMS)
        return Offer(
            cloud=text["cloud"],
            region=text["region"] or None,
            zone=text["zone"] or None,
            zone_id=text["zone_id"] or None,
            instance_type=text["instance_type"],
            market=Market(text["market"]),
            gpu=self.types.texts["gpu"][kind] or None,
            gpus_per_node=None if math.isnan(gpus) else gpus,
            price_usd_per_hour=None if math.isnan(usd) else usd,
            source=text["source"],
            observed_at=None if math.isnan(seen) else datetime.fromtimestamp(seen, UTC),
            state=PriceState(text["state"]),
            ranked=bool(self.ranked[row]),
            note=text["note"],
            list_price_usd_per_hour=listed,
            term_hours=term,
            break_even_hours=even,
        )

    def offers(self) -> list[Offer]:
        """All rows as values, for listings."""
        return [self.offer(row) for row in range(len(self))]


def listed(table: OfferTable, *, every: bool = False) -> list[Offer]:
    """The offers of a listing, one a market: those with a price and a known GPU, or `every` row there is."""
    if every:
        return table.offers()
    known = ~np.isnan(table.usd_per_hour) & table.where_type("gpu", bool)
    return table.select(known).offers()


def usable(table: OfferTable) -> int:
    """How many offers a plan may use."""
    return int(np.count_nonzero(table.ranked))


def encode(values: Sequence[str]) -> tuple[Codes, tuple[str, ...]]:
    """Texts as codes into the tuple of distinct ones, in order of first sight."""
    names = tuple(dict.fromkeys(values))
    places = dict(zip(names, range(len(names)), strict=True))
    return np.fromiter(map(places.__getitem__, values), dtype=np.int32, count=len(values)), names


def table_of(
    offers: Sequence[Offer], types: Iterable[InstanceType] | InstanceTable, *, warnings: tuple[str, ...] = ()
) -> OfferTable:
    """A table of offers; a type without facts gets a row with the offer's own GPU and count and unknowns."""
    facts = types if isinstance(types, InstanceTable) else instance_table(types)
    bare = {(o.cloud, o.instance_type): o for o in offers if (o.cloud, o.instance_type) not in facts.position}
    facts = extended(facts, [InstanceType(*key, o.gpu, o.gpus_per_node) for key, o in bare.items()])
    encoded = {name: encode([getattr(offer, name) or "" for offer in offers]) for name in TEXT_COLUMNS}
    nan = math.nan

    def numbers(name: str) -> Floats:
        return np.array([nan if (v := getattr(o, name)) is None else v for o in offers], dtype=np.float64)

    return OfferTable(
        codes={name: codes for name, (codes, _) in encoded.items()},
        names={name: names for name, (_, names) in encoded.items()},
        usd_per_hour=numbers("price_usd_per_hour"),
        observed=np.array([o.observed_at.timestamp() if o.observed_at else nan for o in offers], dtype=np.float64),
        ranked=np.array([o.ranked for o in offers], dtype=bool),
        type_index=np.array([facts.position[o.cloud, o.instance_type] for o in offers], dtype=np.int32),
        types=facts,
        warnings=warnings,
        list_usd_per_hour=numbers("list_price_usd_per_hour"),
        term_hours=numbers("term_hours"),
        break_even_hours=numbers("break_even_hours"),
    )


def concatenate(tables: Sequence[OfferTable]) -> OfferTable:
    """The rows of all tables, in order; machine facts of a type come from the first table that has them."""
    if len(tables) == 1:
        return tables[0]
    places: dict[tuple[str, str], int] = {}
    picks: list[tuple[int, int]] = []  # (table, row of its types) of each merged type
    index = []
    for n, table in enumerate(tables):
        moved = np.empty(len(table.types), dtype=np.int32)
        for key, row in table.types.position.items():
            if key not in places:
                places[key] = len(places)
                picks.append((n, row))
            moved[row] = places[key]
        index.append(moved[table.type_index])
    types = InstanceTable(
        texts={name: tuple(tables[n].types.texts[name][row] for n, row in picks) for name in TYPE_TEXTS},
        numbers={name: np.array([tables[n].types.numbers[name][row] for n, row in picks]) for name in TYPE_NUMBERS},
    )
    codes: dict[str, Codes] = {}
    names: dict[str, tuple[str, ...]] = {}
    for column in TEXT_COLUMNS:
        merged: dict[str, int] = {}
        parts = []
        for table in tables:
            moved = np.array([merged.setdefault(text, len(merged)) for text in table.names[column]], dtype=np.int32)
            parts.append(moved[table.codes[column]] if len(table) else table.codes[column])
        codes[column], names[column] = np.concatenate(parts), tuple(merged)
    return OfferTable(
        codes=codes,
        names=names,
        usd_per_hour=np.concatenate([t.usd_per_hour for t in tables]),
        observed=np.concatenate([t.observed for t in tables]),
        ranked=np.concatenate([t.ranked for t in tables]),
        type_index=np.concatenate(index),
        types=types,
        warnings=tuple(w for t in tables for w in t.warnings),
        reclaims={key: fact for t in reversed(tables) for key, fact in t.reclaims.items()},
        **{name: np.concatenate([getattr(t, name) for t in tables]) for name in TERMS},
    )


# --- what is on offer now -------------------------------------------------------------------------------------------


class FetchedOffers(Protocol):
    """What `current_offers` needs of a store (`pricing.store.Store` is one)."""

    def current_table(self, *, now: datetime, freshness: Freshness) -> tuple[OfferTable, set[tuple[str, str, str]]]:
        """The current fetched offers with their reclaim statistics, and every (cloud, region, market) fetched."""

    def table_as_of(self, moment: datetime, *, freshness: Freshness) -> tuple[OfferTable, set[tuple[str, str, str]]]:
        """The same as it was known at a moment."""


def current_offers(
    *,
    now: datetime,
    store: FetchedOffers | None = None,
    max_age_hours: float | None = None,
    offline: bool = False,
    accelerators: Literal["gpu", "any"] = "gpu",
    freshness: Freshness = Freshness(),
    as_of: datetime | None = None,
    overrides: Overrides | None = None,
) -> OfferTable:
    """Every current offer: the store's where a (cloud, region, market) has been fetched, else the shipped snapshot's.

    Reads only what is stored or shipped, whatever `offline` says; it only words the hint of a warning. Rows that must
    not be planned with (unpriced, or shipped prices a year older than the newest of their cloud and market) have
    `ranked` False. `accelerators="gpu"` leaves out Trainium and TPU machines. `as_of` gives the offers as they were
    known at an earlier moment (ages then count to it). `overrides` lays what one customer pays over the list prices.

    Raises PricesUnavailable when `max_age_hours` leaves nothing to rank.
    """
    from pricing.snapshot import snapshot_table

    table = snapshot_table()
    if as_of is not None:
        now = as_of
        table = table.select(~(table.observed > as_of.timestamp()))
    if store is not None:
        if as_of is None:
            fetched, scopes = store.current_table(now=now, freshness=freshness)
        else:
            fetched, scopes = store.table_as_of(as_of, freshness=freshness)
        if scopes:
            table = concatenate([_without(table, scopes), replace(fetched, warnings=_stale(fetched, now, freshness))])
    if overrides is not None:
        from pricing.sources.overrides import apply_overrides

        table = apply_overrides(table, overrides, now=now)
    if accelerators == "gpu":
        table = table.select(table.where_type("accelerator", lambda kind: kind == "gpu"))
    if max_age_hours is not None:
        table = _at_most(table, now, max_age_hours, offline)
    return table


def _stale(table: OfferTable, now: datetime, freshness: Freshness) -> tuple[str, ...]:
    """One warning for each cloud and market with stale prices: how many, how old, beyond the limit or not renewed."""
    stale = table.where("state", lambda state: state == PriceState.STALE)
    found = []
    for c, cloud in enumerate(table.names["cloud"]):
        for m, market in enumerate(table.names["market"]):
            rows = stale & (table.codes["cloud"] == c) & (table.codes["market"] == m)
            if count := int(np.count_nonzero(rows)):
                hours = (now.timestamp() - float(table.observed[rows].min())) / 3600
                limit = freshness.limit_hours(market)
                what = f"{count} {market} prices of {cloud}"
                if hours > limit:
                    found.append(f"{what} are stale: the oldest is {hours:.1f} h old (limit {limit:g} h)")
                else:
                    found.append(f"{what} could not be renewed, the oldest is {hours:.1f} h old: see prices status")
    return tuple(found)


def _without(table: OfferTable, scopes: set[tuple[str, str, str]]) -> OfferTable:
    """The snapshot's rows that no fetched (cloud, region, market) replaces."""
    columns = ("cloud", "region", "market")
    names = [table.names[column] for column in columns]
    sizes = [len(n) for n in names]
    present, place = np.unique(
        np.ravel_multi_index([table.codes[column] for column in columns], sizes), return_inverse=True
    )
    keep = [
        (names[0][cloud], names[1][region], names[2][market]) not in scopes
        for cloud, region, market in zip(*np.unravel_index(present, sizes), strict=True)
    ]
    return table.select(np.array(keep, dtype=bool)[place])


def _at_most(table: OfferTable, now: datetime, hours: float, offline: bool) -> OfferTable:
    """Rank only what was observed within the last `hours`; own machines have no age."""
    age = (now.timestamp() - table.observed) / 3600.0
    own = table.where("state", lambda state: state == PriceState.OWN)
    young = own | (age <= hours)
    ranked = table.ranked & young
    if not ranked.any() and table.ranked.any():
        newest = float(np.nanmin(np.where(table.ranked, age, np.nan)))
        hint = "" if offline else "; `estimator prices refresh` fetches today's"
        raise PricesUnavailable(
            f"no price is at most {_age(hours)} old: the newest is {_age(newest)} old{hint}",
            field="max_age",
            value=hours,
            nearest=(f"{math.ceil(newest / 24.0)}d" if newest > 48.0 else f"{math.ceil(newest)}h",),
        )
    return replace(table, ranked=ranked)


def _age(hours: float) -> str:
    """As people say it: hours up to two days, then days.

    >>> _age(1.0), _age(2421.3)
    ('1 h', '101 days')
    """
    return f"{hours:.3g} h" if hours < 48 else f"{hours / 24:.0f} days"
