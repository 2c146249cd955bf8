"""What does the price database say? Current offers, offers as of a date, and the history of a price."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from pricing.instances import InstanceType
from pricing.interruptions import InterruptionFact
from pricing.offers import (
    Codes,
    Floats,
    Freshness,
    InstanceTable,
    Mask,
    Offer,
    OfferTable,
    PriceState,
    encode,
    extended,
)
from pricing.packing import pack, unpack, verify
from pricing.snapshot import snapshot_table
from pricing.store import INTERRUPTIONS, Row, Store, interruption_of, shape_of, utc

Scopes = set[tuple[str, str, str]]
SCOPES = """SELECT id, cloud, region, market, source, fetched_at, failed_at, failure, failure_detail
            FROM scopes WHERE fetched_at IS NOT NULL ORDER BY id"""
CURRENT = """SELECT scope_id, zone, zone_id, instance_type, usd_per_hour, kept_since, note FROM current_prices"""
AS_OF = """SELECT k.scope_id, k.zone, k.zone_id, k.instance_type, p.usd_per_hour, p.seen_at, p.source
           FROM price_keys k JOIN prices p ON p.id = (
               SELECT q.id FROM prices q WHERE q.key_id = k.id AND q.seen_at <= :at ORDER BY q.seen_at DESC, q.id DESC
               LIMIT 1)
           WHERE p.usd_per_hour IS NOT NULL"""
FIRST_SEEN = """SELECT k.scope_id, min(p.seen_at) FROM price_keys k JOIN prices p ON p.key_id = k.id
                GROUP BY k.scope_id"""


@dataclass(frozen=True)
class Rows:
    """Prices by column: `scope` are positions in `scope_ids`.

    `kept` are rows with a date (seconds, None = their scope's) or a note of their own.
    """

    scope: Codes
    scope_ids: tuple[int, ...]
    codes: dict[str, Codes]  # zone, zone_id, instance_type
    names: dict[str, tuple[str, ...]]
    usd: Floats
    kept: tuple[tuple[int, float | None, str | None], ...]


@dataclass(frozen=True)
class Current:
    """Everything that the current offers are made of, as it was read at one moment; ages are counted later."""

    scopes: tuple[Row, ...]
    rows: Rows
    shapes: tuple[InstanceType, ...]
    reclaims: Mapping[tuple[str, str, str], InterruptionFact]

    def current_table(self, *, now: datetime, freshness: Freshness) -> tuple[OfferTable, Scopes]:
        """The offers, aged to `now`, and which (cloud, region, market) these are."""
        table = replace(_table(self.scopes, self.rows, self.shapes, now, freshness), reclaims=self.reclaims)
        return table, {(s[1], s[2], s[3]) for s in self.scopes}


def read_current(store: Store) -> Current:
    """See Store.current. Packed rows are used while no switch has outdated them; dates and failures never are."""
    with store.reading() as ask:
        scopes = ask(SCOPES)
        packed = ask("SELECT p.content FROM packed p JOIN generation g ON g.n = p.generation")
        rows = unpack_rows(packed[0][0]) if packed else current_rows(ask)
        shapes = _shapes(ask)
        reclaims = {(row[0], row[1], row[2]): interruption_of(row) for row in ask(INTERRUPTIONS)}
    return Current(tuple(scopes), rows, tuple(shapes), reclaims)


def current_rows(ask: Callable[..., list[Row]]) -> Rows:
    """The current prices, row by row."""
    rows = ask(CURRENT)
    kept = tuple((n, row[5], row[6]) for n, row in enumerate(rows) if row[5] is not None or row[6] is not None)
    return _rows(rows, kept)


def _rows(rows: Sequence[Row], kept: tuple[tuple[int, float | None, str | None], ...]) -> Rows:
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [[]] * 7
    ids = tuple(sorted(set(columns[0])))
    place = {scope: n for n, scope in enumerate(ids)}
    encoded = {
        name: encode([text or "" for text in column])
        for name, column in zip(("zone", "zone_id", "instance_type"), columns[1:4], strict=True)
    }
    return Rows(
        scope=np.fromiter(map(place.__getitem__, columns[0]), dtype=np.int32, count=len(rows)),
        scope_ids=ids,
        codes={name: codes for name, (codes, _) in encoded.items()},
        names={name: names for name, (_, names) in encoded.items()},
        usd=np.array([math.nan if usd is None else usd for usd in columns[4]], dtype=np.float64),
        kept=kept,
    )


def pack_rows(rows: Rows) -> bytes:
    """Rows as bytes."""
    head = {"scope_ids": rows.scope_ids, "names": rows.names, "kept": rows.kept}
    codes = {f"codes.{name}": codes for name, codes in rows.codes.items()}
    return pack(head, {"scope": rows.scope, "usd": rows.usd, **codes})


def unpack_rows(content: bytes) -> Rows:
    """What `pack_rows` packed; ValueError where its bytes have changed since."""
    content = bytes(content)
    verify(content)
    head, arrays = unpack(content)
    return Rows(
        scope=arrays["scope"],
        scope_ids=tuple(head["scope_ids"]),
        codes={name: arrays[f"codes.{name}"] for name in head["names"]},
        names={name: tuple(names) for name, names in head["names"].items()},
        usd=arrays["usd"],
        kept=tuple((n, since, note) for n, since, note in head["kept"]),
    )


def table_as_of(store: Store, moment: datetime, freshness: Freshness) -> tuple[OfferTable, Scopes]:
    """See Store.table_as_of.

    A price is dated by the last fetch of its set where that is not after `moment`, else by the fetch that first saw
    it at this level: fetches in between that found no change are not written down.
    """
    at = moment.timestamp()
    with store.reading() as ask:
        every, rows = ask(SCOPES), ask(AS_OF, at=at)
        shapes = _shapes(ask)
        first = dict(ask(FIRST_SEEN))
    scopes = [(*s[:6], None, None, None) for s in every if first.get(s[0], math.inf) <= at]
    later = {s[0] for s in scopes if s[5] > at}
    kept = tuple((n, row[5], None) for n, row in enumerate(rows) if row[0] in later)
    return _table(scopes, _rows(rows, kept), shapes, moment, freshness), {(s[1], s[2], s[3]) for s in scopes}


def _shapes(ask: Callable[..., list[Row]]) -> list[InstanceType]:
    return [shape_of(text) for (text,) in ask("SELECT facts FROM instance_types")]


def _table(
    scopes: Sequence[Row], rows: Rows, shapes: Sequence[InstanceType], now: datetime, freshness: Freshness
) -> OfferTable:
    """The rows as offers, with what their scopes say."""
    order = {s[0]: n for n, s in enumerate(scopes)}
    scope = np.array([order[s] for s in rows.scope_ids], dtype=np.int32)[rows.scope]
    observed = np.array([s[5] for s in scopes], dtype=np.float64)[scope]
    notes = [_failure_note(s) for s in scopes]
    codes = dict(rows.codes)
    names = dict(rows.names)
    for column, texts in (("cloud", [s[1] for s in scopes]), ("region", [s[2] for s in scopes]),
                          ("market", [s[3] for s in scopes]), ("source", [s[4] or "" for s in scopes]),
                          ("note", notes)):  # fmt: skip
        by_scope, names[column] = encode(texts)
        codes[column] = by_scope[scope]
    note_names = list(names["note"])
    for n, since, note in rows.kept:
        observed[n] = since if since is not None else observed[n]
        if note:
            note_names.append(note)
            codes["note"][n] = len(note_names) - 1
    names["note"] = tuple(note_names)
    codes["state"], names["state"] = _states(scopes, scope, rows, observed, now, freshness)
    types, index = _types(codes, names, shapes)
    return OfferTable(
        codes=codes,
        names=names,
        usd_per_hour=rows.usd,
        observed=np.where(np.isnan(rows.usd), np.nan, observed),
        ranked=~np.isnan(rows.usd),
        type_index=index,
        types=types,
    )


def _failure_note(scope: Row) -> str:
    """Why the set is not renewed, "" if the last attempt went well."""
    fetched, failed, failure, detail = scope[5:9]
    if failed is None or failed < fetched:
        return ""
    return f"last refresh failed ({failure}): {detail}"[:300]


def _states(
    scopes: Sequence[Row], scope: Codes, rows: Rows, observed: Floats, now: datetime, freshness: Freshness
) -> tuple[Codes, tuple[str, ...]]:
    """Live within the limit of the market's kind; stale beyond it, after a failure, or where a price was kept."""
    limit = np.array([freshness.limit_hours(s[3]) * 3600 for s in scopes], dtype=np.float64)[scope]
    failed = np.array([bool(_failure_note(s)) for s in scopes], dtype=bool)[scope]
    stale: Mask = failed | (now.timestamp() - observed > limit)
    for n, since, note in rows.kept:
        stale[n] |= since is not None and note is not None
    codes = np.where(np.isnan(rows.usd), 2, stale).astype(np.int32)
    return codes, (PriceState.LIVE.value, PriceState.STALE.value, PriceState.UNPRICED.value)


def _types(
    codes: Mapping[str, Codes], names: Mapping[str, tuple[str, ...]], shapes: Sequence[InstanceType]
) -> tuple[InstanceTable, Codes]:
    """Shipped machine facts first, then those seen live, then bare names; and each row's place among them."""
    shipped = snapshot_table().types
    facts = extended(shipped, [s for s in shapes if (s.cloud, s.instance_type) not in shipped.position])
    width = max(len(names["instance_type"]), 1)
    pairs, place = np.unique(codes["cloud"].astype(np.int64) * width + codes["instance_type"], return_inverse=True)
    keys = [(names["cloud"][pair // width], names["instance_type"][pair % width]) for pair in pairs]
    bare = [InstanceType(*key, None, None) for key in keys if key not in facts.position]
    facts = extended(facts, bare)
    return facts, np.array([facts.position[key] for key in keys], dtype=np.int32)[place]


# --- history --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Series:
    """How one price moved: steps (from when, USD per hour or None while not offered), and its distribution.

    The figures weigh each price by the time it was in force inside the window; None where it never was.
    """

    cloud: str
    region: str
    zone: str | None
    zone_id: str | None
    instance_type: str
    market: str
    steps: tuple[tuple[datetime, float | None], ...]
    low: float | None
    p10: float | None
    median: float | None
    p90: float | None
    high: float | None
    mean: float | None
    changes: int

    def document(self) -> dict[str, object]:
        """JSON types only."""
        from pricing.offers import iso

        return {
            "cloud": self.cloud, "region": self.region, "zone": self.zone, "zone_id": self.zone_id,
            "instance_type": self.instance_type, "market": self.market, "min": self.low, "p10": self.p10,
            "median": self.median, "p90": self.p90, "max": self.high, "mean": self.mean, "changes": self.changes,
            "steps": [{"since": iso(t), "price_usd_per_hour": usd} for t, usd in self.steps],
        }  # fmt: skip


def price_history(
    store: Store,
    *,
    now: datetime,
    days: float = 30.0,
    instance_type: str | None = None,
    market: str | None = None,
    clouds: Sequence[str] = (),
    where: Callable[[str, str], bool] | None = None,
) -> list[Series]:
    """The prices of the last `days` by key, oldest step first; `where` tests (cloud, region).

    The step before the window is cut to its start. A key without any price in the window is left out.
    """
    start = now - timedelta(days=days)
    sql = """SELECT s.cloud, s.region, k.zone, k.zone_id, k.instance_type, s.market, k.id, p.seen_at, p.usd_per_hour
             FROM scopes s JOIN price_keys k ON k.scope_id = s.id JOIN prices p ON p.key_id = k.id
             WHERE p.seen_at <= :now AND (:name = '' OR lower(k.instance_type) = :name)
             AND (:market = '' OR s.market = :market) ORDER BY s.cloud, s.region, k.id, p.seen_at, p.id"""
    with store.reading() as ask:
        rows = ask(sql, now=now.timestamp(), name=(instance_type or "").casefold(), market=market or "")
    found = []
    for key, steps in _grouped(rows):
        if (clouds and key[0] not in clouds) or (where is not None and not where(key[0], key[1])):
            continue
        series = _series(key, steps, start, now)
        if series is not None:
            found.append(series)
    return found


def names_seen(store: Store) -> set[str]:
    """Every instance type that ever had a price."""
    with store.reading() as ask:
        return {name for (name,) in ask("SELECT DISTINCT instance_type FROM price_keys")}


def _grouped(rows: Sequence[Row]) -> Iterator[tuple[Row, list[tuple[float, float | None]]]]:
    from itertools import groupby

    for key, group in groupby(rows, key=lambda row: row[:7]):
        yield key, [(row[7], row[8]) for row in group]


def _series(key: Row, steps: list[tuple[float, float | None]], start: datetime, now: datetime) -> Series | None:
    low_end, high_end = start.timestamp(), now.timestamp()
    before = [step for step in steps if step[0] <= low_end]
    inside = [step for step in steps if step[0] > low_end]
    if before:
        inside.insert(0, (low_end, before[-1][1]))
    if not any(usd is not None for _, usd in inside):
        return None
    ends = [t for t, _ in inside[1:]] + [max(high_end, inside[-1][0])]
    spans = [(usd, max(end - t, 1.0)) for (t, usd), end in zip(inside, ends, strict=True) if usd is not None]
    usd = np.array([u for u, _ in spans])
    weight = np.array([w for _, w in spans])
    cloud, region, zone, zone_id, instance_type, market, _ = key
    return Series(
        cloud=cloud,
        region=region,
        zone=zone,
        zone_id=zone_id,
        instance_type=instance_type,
        market=market,
        steps=tuple((moment, usd) for t, usd in inside if (moment := utc(t)) is not None),
        low=float(usd.min()),
        p10=weighted_quantile(usd, weight, 0.1),
        median=weighted_quantile(usd, weight, 0.5),
        p90=weighted_quantile(usd, weight, 0.9),
        high=float(usd.max()),
        mean=float(np.average(usd, weights=weight)),
        changes=len(inside) - 1,
    )


def weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """The smallest value that at least `share` of the weight does not exceed.

    >>> weighted_quantile(np.array([3.0, 1.0]), np.array([1.0, 9.0]), 0.5)
    1.0
    """
    order = np.argsort(values)
    cumulated = np.cumsum(weights[order])
    place = int(np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12)))
    return float(values[order][min(place, len(values) - 1)])


# --- two dates ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """One offer that differs between two dates; None on the side where it is not offered."""

    cloud: str
    region: str | None
    zone: str | None
    zone_id: str | None
    instance_type: str
    market: str
    before: float | None
    after: float | None

    @property
    def percent(self) -> float | None:
        """Relative change, None where one side is missing."""
        if self.before is None or self.after is None:
            return None
        return 100 * (self.after / self.before - 1)


def differences(before: OfferTable, after: OfferTable, *, tolerance: float = 1e-6) -> list[Change]:
    """What was added, dropped or re-priced between two tables, largest relative change first."""

    def priced(table: OfferTable) -> dict[tuple[str | None, ...], Offer]:
        return {(o.cloud, o.region, o.zone or o.zone_id, o.instance_type, o.market): o for o in table.offers()
                if o.price_usd_per_hour is not None}  # fmt: skip

    old, new = priced(before), priced(after)
    found = []
    for key in old.keys() | new.keys():
        was, now = old.get(key), new.get(key)
        one, two = (o.price_usd_per_hour if o else None for o in (was, now))
        if one is not None and two is not None and math.isclose(one, two, rel_tol=tolerance):
            continue
        offer = now or was
        assert offer is not None
        found.append(
            Change(offer.cloud, offer.region, offer.zone, offer.zone_id, offer.instance_type, offer.market, one, two)
        )
    return sorted(
        found,
        key=lambda c: (-abs(c.percent if c.percent is not None else math.inf), c.cloud, c.region or "", c.instance_type,
                       c.market, c.zone or c.zone_id or ""),
    )  # fmt: skip
