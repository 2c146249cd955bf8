"""Can a freshly fetched set of prices be believed? The one gate between every source and the store.

A set is judged whole: all prices of one (cloud, region, market). It is compared with the last good set of the same
source, never with the shipped snapshot. Three things can happen to a row: it is accepted; it is dropped and counted
(price 0, unreadable); or it is quarantined with a reason, and the last good price of its key stays, marked stale.
And the whole set can be suspect (shrunk, changed en masse, too many unreadable rows, nothing left): then nothing of
it is used, the last good set stays, and the suspicion is recorded.

What is confirmed: a price that jumped is accepted when a second fetch states it again. A suspect shrink or mass
change is accepted when a person says so, or when the same picture was seen `suspect_fetches` times over at least
`suspect_hours`. Spot above on-demand is never confirmed by repetition.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pricing.offers import Market
from pricing.sources.base import Observation, PriceSet, Rejection


class PriceKey(NamedTuple):
    """What a price belongs to within its set: the zone's name (else its id, else "") and the instance type."""

    place: str
    instance_type: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Where doubt begins. The factors hold both ways (dearer or cheaper)."""

    on_demand_jump: float = 3.0
    spot_jump: float = 10.0
    on_demand_mass: float = 1.5  # a change that one row may make, and most rows together may not
    spot_mass: float = 3.0
    mass_share: float = 0.5
    mass_rows: int = 5  # fewer rows than this are judged one by one
    shrink: float = 0.20
    rejected_share: float = 0.05
    rejected_rows: int = 2  # one odd row never fails a set, however small
    spot_tolerance: float = 1e-4  # spot above on-demand by less is equality
    same_price: float = 1e-6  # relative: two statements of one price
    confirm_tolerance: float = 0.01  # relative: a jump seen again
    ceiling_usd_per_hour: float = 5000.0  # no machine costs more; term totals and monthly prices do
    future: timedelta = timedelta(minutes=5)
    suspect_fetches: int = 3
    suspect_hours: float = 24.0


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A doubt about a whole set, as recorded at earlier fetches."""

    fingerprint: str
    since: datetime
    fetches: int


@dataclass(frozen=True, slots=True)
class LastGood:
    """What the store holds for the set's (cloud, region, market)."""

    source: str = ""  # "" = never fetched
    prices: Mapping[PriceKey, float] = field(default_factory=dict)
    jumped: Mapping[PriceKey, float] = field(default_factory=dict)  # quarantined jumps of earlier fetches
    suspicion: Suspicion | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A price that was believed."""

    usd_per_hour: float
    zone: str | None
    zone_id: str | None
    effective_at: datetime | None
    raw_id: str | None
    gpu: str | None
    gpus_per_node: float | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that was not used, and why; `resolution` is set where the doubt was resolved at once."""

    place: str
    instance_type: str | None
    price: str  # as text: it may be anything
    reason: str  # short and countable
    detail: str
    resolution: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of a set is used. `suspect` is the reason why nothing is, None otherwise.

    `kept` are keys whose last good price stays although the set has no usable one, with the reason;
    `unpriced` are machines the cloud lists without a (whole) price.
    """

    accepted: Mapping[PriceKey, Accepted]
    kept: Mapping[PriceKey, str]
    unpriced: Mapping[PriceKey, str]
    quarantined: tuple[Quarantined, ...]
    confirmed: tuple[PriceKey, ...]
    counts: Mapping[str, int]
    suspect: str | None = None
    fingerprint: str | None = None  # of the suspicion


NOT_A_FAULT = "no price"  # how the reason of a Rejection begins that does not count as unreadable
ZERO = "price 0"


def judge(
    fetched: PriceSet,
    last: LastGood,
    *,
    on_demand: Mapping[PriceKey, float] | None = None,
    limits: Limits = Limits(),
    accept_suspect: bool = False,
) -> Verdict:
    """The verdict on one set.

    `on_demand` are the on-demand prices of the same region, to hold spot prices against: of the same refresh where
    it has them, else the last good ones.
    """
    counts: Counter[str] = Counter()
    quarantined: list[Quarantined] = []
    unpriced: dict[PriceKey, str] = {}
    unreadable = _rejections(fetched.rejected, counts, quarantined, unpriced)
    zeros: list[PriceKey] = []
    readable: dict[PriceKey, list[Observation]] = defaultdict(list)
    for seen in fetched.observations:
        if problem := _problem(fetched, seen, limits):
            counts[problem] += 1
            place = _text(seen.zone) or _text(seen.zone_id)
            quarantined.append(Quarantined(place, _text(seen.instance_type) or None, _text(seen.price_usd_per_hour),
                                           problem, _text(seen.raw_id)))  # fmt: skip
            (zeros if problem == ZERO else unreadable).append(PriceKey(place, _text(seen.instance_type)))
            continue
        readable[PriceKey(seen.zone or seen.zone_id or "", seen.instance_type)].append(seen)

    silent = {key for key in last.prices if key.place in fetched.silent_zones}
    comparable = (
        {key: usd for key, usd in last.prices.items() if key not in silent} if last.source == fetched.source else {}
    )
    accepted = {key: _fold(rows, comparable.get(key), limits, counts, quarantined) for key, rows in readable.items()}
    suspect, fingerprint = _suspect(fetched, accepted, unreadable, comparable, counts, limits)
    if suspect and fingerprint and (accept_suspect or _persistent(last.suspicion, fingerprint, fetched, limits)):
        suspect = fingerprint = None
        counts["suspect set accepted"] += 1
    if suspect:
        counts["suspect"] = 1
        return Verdict({}, {}, {}, tuple(quarantined), (), dict(counts), suspect, fingerprint)

    believed_whole = bool(counts["suspect set accepted"])
    kept: dict[PriceKey, str] = {}
    confirmed: list[PriceKey] = []
    for key in list(accepted):
        usd = accepted[key].usd_per_hour
        reason, detail = _doubt(key, usd, fetched.market, comparable, on_demand or {}, limits)
        if reason == JUMP and (believed_whole or _same(last.jumped.get(key), usd, limits.confirm_tolerance)):
            confirmed.append(key)
            counts["jump confirmed"] += 1
            note = "accepted with its set" if believed_whole else "confirmed by a second fetch"
            quarantined.append(Quarantined(key.place, key.instance_type, repr(usd), JUMP, detail, note))
            continue
        if reason:
            counts[reason] += 1
            quarantined.append(Quarantined(key.place, key.instance_type, repr(usd), reason, detail))
            del accepted[key]
            if key in last.prices:
                kept[key] = f"{reason}: {detail}"
    unpriced.update(dict.fromkeys(zeros, ZERO))
    for key in (*unreadable, *zeros):
        for mine in last.prices:
            hit = key.instance_type in ("", mine.instance_type) and key.place in ("", mine.place)
            if hit and mine not in accepted and mine not in kept:
                kept[mine] = "the fetched price could not be used"
    kept |= dict.fromkeys(silent - accepted.keys(), "its zone gave no answer")
    for key in accepted.keys() | kept.keys():
        unpriced.pop(key, None)
    counts["accepted"] = len(accepted)
    return Verdict(accepted, kept, unpriced, tuple(quarantined), tuple(confirmed), dict(counts))


JUMP = "price jumped"
SPOT_ABOVE = "spot above on-demand"
CONFLICT = "two prices for one key"


def _text(value: object, length: int = 200) -> str:
    """Any value as short printable text ("" for None)."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else " " for c in text[:length])


def _rejections(
    rejected: Iterable[Rejection],
    counts: Counter[str],
    quarantined: list[Quarantined],
    unpriced: dict[PriceKey, str],
) -> list[PriceKey]:
    """Count what the source could not read; returns the keys of real faults."""
    faults = []
    for row in rejected:
        key = PriceKey(_text(row.zone), _text(row.instance_type))
        reason = _text(row.reason, 80) or "unreadable"
        if reason.startswith(NOT_A_FAULT):
            counts["without a price"] += 1
            if key.instance_type:
                unpriced[key] = reason
            continue
        counts[reason] += 1
        faults.append(key)
        quarantined.append(Quarantined(key.place, key.instance_type or None, "", reason, _text(row.detail, 500)))
    return faults


def _problem(fetched: PriceSet, seen: Observation, limits: Limits) -> str | None:
    """Why a row cannot be used whatever the others say; None if it can."""
    if (seen.cloud, seen.region, seen.market) != (fetched.cloud, fetched.region, fetched.market):
        return "of another region or market"
    name = seen.instance_type
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        return "instance type unreadable"
    try:
        usd = float(seen.price_usd_per_hour)
    except (TypeError, ValueError, OverflowError):
        return "not a number"
    if isinstance(seen.price_usd_per_hour, bool) or not math.isfinite(usd):
        return "not a number"
    if usd == 0:
        return ZERO
    if usd < 0:
        return "negative price"
    if usd > limits.ceiling_usd_per_hour:
        return "absurd price"
    if seen.effective_at is not None and seen.effective_at > fetched.fetched_at + limits.future:
        return "stamped in the future"
    return None


def _same(one: float | None, other: float, tolerance: float) -> bool:
    return one is not None and math.isclose(one, other, rel_tol=tolerance)


def _fold(
    rows: list[Observation],
    before: float | None,
    limits: Limits,
    counts: Counter[str],
    quarantined: list[Quarantined],
) -> Accepted:
    """One price out of several statements of one key, the same whatever their order.

    Equal prices fold. Different ones are a conflict, recorded: the one that equals the last good price, else the
    lowest (the twins seen in the wild, Windows, dedicated or licensed, are dearer; free ones are gone by now).
    """
    rows = sorted(rows, key=lambda r: (r.price_usd_per_hour, r.raw_id or "", str(r.effective_at)))
    chosen = next((r for r in rows if _same(before, float(r.price_usd_per_hour), limits.same_price)), rows[0])
    usd = float(chosen.price_usd_per_hour)
    for row in rows:
        if not _same(usd, float(row.price_usd_per_hour), limits.same_price):
            counts[CONFLICT] += 1
            quarantined.append(
                Quarantined(row.zone or row.zone_id or "", row.instance_type, str(row.price_usd_per_hour), CONFLICT,
                            f"{usd!r} was chosen; {row.raw_id or 'no id'}", "the other price was chosen")
            )  # fmt: skip
    counts["folded"] += len(rows) - 1
    zone_id = next((r.zone_id for r in (chosen, *rows) if r.zone_id), None)
    return Accepted(usd, chosen.zone, zone_id, chosen.effective_at, chosen.raw_id, chosen.gpu, chosen.gpus_per_node)


def _suspect(
    fetched: PriceSet,
    accepted: Mapping[PriceKey, Accepted],
    unreadable: list[PriceKey],
    comparable: Mapping[PriceKey, float],
    counts: Counter[str],
    limits: Limits,
) -> tuple[str | None, str | None]:
    """The reason to doubt the whole set, and a fingerprint of the picture where seeing it again would tell."""
    total = len(accepted) + len(unreadable)
    if len(unreadable) >= limits.rejected_rows and len(unreadable) > limits.rejected_share * total:
        worst = Counter(
            {reason: n for reason, n in counts.items() if reason not in ("folded", "without a price", ZERO)}
        )
        reason = worst.most_common(1)[0][0] if worst else "unreadable"
        return f"{len(unreadable)} of {total} rows could not be used ({reason})", None
    unusable = len(unreadable) + counts[ZERO]
    if not accepted and unusable and (comparable or unusable >= limits.rejected_rows):
        return "no usable price is left", None
    if comparable and len(accepted) + len(unreadable) < (1 - limits.shrink) * len(comparable):
        keys = "\n".join(sorted("\t".join(key) for key in accepted))
        shape = hashlib.sha256(keys.encode()).hexdigest()[:16]
        return f"shrunk from {len(comparable)} to {len(accepted)} prices", f"shrunk:{shape}"
    factor = limits.spot_mass if fetched.market is Market.SPOT else limits.on_demand_mass
    common = [(comparable[key], accepted[key].usd_per_hour) for key in accepted.keys() & comparable.keys()]
    moved = sum(max(old / new, new / old) > factor for old, new in common)
    if len(common) >= limits.mass_rows and moved > limits.mass_share * len(common):
        up = sum(new > old for old, new in common) * 2 > len(common)
        return f"{moved} of {len(common)} prices changed by more than a factor of {factor:g}", f"moved:{up}"
    return None, None


def _persistent(before: Suspicion | None, fingerprint: str, fetched: PriceSet, limits: Limits) -> bool:
    """Whether the same suspicious picture has been seen often enough for long enough."""
    if before is None or before.fingerprint != fingerprint:
        return False
    long = fetched.fetched_at - before.since >= timedelta(hours=limits.suspect_hours)
    return long and before.fetches + 1 >= limits.suspect_fetches


def _doubt(
    key: PriceKey,
    usd: float,
    market: Market,
    comparable: Mapping[PriceKey, float],
    on_demand: Mapping[PriceKey, float],
    limits: Limits,
) -> tuple[str | None, str]:
    """Reason and detail why one price is not believed."""
    if market is Market.SPOT:
        ceiling = _on_demand(key, on_demand)
        if ceiling is not None and usd > ceiling * (1 + limits.spot_tolerance):
            return SPOT_ABOVE, f"{usd:g} against {ceiling:g} USD per hour on demand"
    factor = limits.spot_jump if market is Market.SPOT else limits.on_demand_jump
    before = comparable.get(key)
    if before is not None and max(usd / before, before / usd) > factor:
        return JUMP, f"{before:g} to {usd:g} USD per hour, more than a factor of {factor:g}"
    return None, ""


def _on_demand(key: PriceKey, prices: Mapping[PriceKey, float]) -> float | None:
    """The on-demand price in the same zone, else the region's, else the dearest zone's."""
    for place in (key.place, ""):
        if (found := prices.get(PriceKey(place, key.instance_type))) is not None:
            return found
    return max((usd for other, usd in prices.items() if other.instance_type == key.instance_type), default=None)
