"""Where does everything stand in a drawing? Geometry only, computed here; the templates draw it as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from api.web import words
from estimator.cli.numbers import usd

TONES = 10  # colours of a stacked bar
SHAPES = {"aws": "circle", "gcp": "triangle", "azure": "square", "own": "diamond"}


@dataclass(frozen=True)
class Tick:
    """A line of the grid with its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value stands, kept inside the drawing."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values inside: 1, 2, 5 of each decade; powers of ten alone where those are too many."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [
                step * 10.0**power
                for power in range(first, last + 1)
                for step in steps
                if self.low <= step * 10.0**power <= self.high
            ]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def hour_ticks(axis: Axis, most: int = 6) -> list[float]:
    """Round durations inside: minutes, hours, days."""
    minute, day = 1 / 60, 24.0
    steps = [
        *(m * minute for m in (1, 2, 5, 10, 20, 30)), 1, 2, 4, 8, 12,
        *(d * day for d in (1, 2, 4, 7, 14, 30, 60, 120, 365, 730, 1825, 3650, 7300)),
    ]  # fmt: skip
    found = [step for step in steps if axis.low <= step <= axis.high] or axis.ticks(most)
    while len(found) > most:
        found = found[::2]
    return found


def _log_axis(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = min(values), max(values)
    margin = max((high / low) ** 0.08, 1.15)
    return Axis(low / margin, high * margin, start, end)


@dataclass(frozen=True)
class Mark:
    """One plan in the drawing."""

    x: float
    y: float
    cloud: str
    market: str
    shape: str
    key: str
    label: str
    rank: int | None
    picked: bool
    front: bool
    quiet: bool  # beaten in both time and cost


@dataclass(frozen=True)
class Scatter:
    """Time against cost: the plans, the front, the limits."""

    width: int
    height: int
    marks: list[Mark]
    front: str
    across: list[Tick]
    up: list[Tick]
    deadline: float | None
    budget: float | None
    whiskers: tuple[float, float, float, float, float, float] | None
    left: int
    bottom: int


@dataclass(frozen=True)
class Point:
    """A plan as the drawing needs it."""

    key: str
    cloud: str
    market: str
    name: str
    hours: float
    cost: float
    rank: int | None = None
    front: bool = False


def scatter(
    points: Sequence[Point],
    *,
    width: int,
    height: int,
    picked: str,
    deadline: float | None,
    budget: float | None,
    whiskers: tuple[float, float, float, float] | None,
) -> Scatter | None:
    """The drawing of time against cost; None where fewer than two plans have both. Free plans stand at the bottom."""
    known = [p for p in points if p.hours > 0]
    paid = [p.cost for p in known if p.cost > 0]
    if len(known) < 2 or not paid:
        return None
    floor = min(paid)
    left, right, top, bottom = 58, width - 16, 16, height - 46
    span_hours, span_usd = [p.hours for p in known], list(paid)
    if deadline and min(span_hours) / 3 < deadline < max(span_hours) * 3:
        span_hours.append(deadline)
    if budget and min(span_usd) / 3 < budget < max(span_usd) * 3:
        span_usd.append(budget)
    if whiskers is not None:
        span_hours += [h for h in whiskers[:2] if min(span_hours) / 2 < h < max(span_hours) * 2]
        span_usd += [usd_ for usd_ in whiskers[2:] if floor / 2 < usd_ < max(span_usd) * 2]
    across, up = _log_axis(span_hours, left, right), _log_axis(span_usd, bottom, top)
    front = sorted((p for p in known if p.front), key=lambda p: p.hours)
    marks = [
        Mark(
            x=across.at(p.hours),
            y=up.at(max(p.cost, floor)),
            cloud=p.cloud,
            market=p.market,
            shape=SHAPES.get(p.cloud, "diamond"),
            key=p.key,
            label=f"{p.name}: {words.hours(p.hours)}, {words.money(p.cost)}",
            rank=p.rank,
            picked=p.key == picked,
            front=p.front,
            quiet=not p.front,
        )
        for p in known
    ]
    marks.sort(key=lambda mark: (mark.picked, mark.front))  # what matters is drawn last, on top
    path = "".join(
        (f"M{across.at(p.hours)} {up.at(max(p.cost, floor))}" if not i
         else f"H{across.at(p.hours)}V{up.at(max(p.cost, floor))}")
        for i, p in enumerate(front)
    )  # fmt: skip
    lines = None
    if whiskers is not None and all(w > 0 for w in whiskers):
        mark = next((m for m in marks if m.picked), None)
        if mark is not None:
            low_h, high_h, low_usd, high_usd = whiskers
            lines = (across.at(low_h), across.at(high_h), mark.y, up.at(low_usd), up.at(high_usd), mark.x)
    room = max(3, (right - left) // 90)
    return Scatter(
        width=width,
        height=height,
        marks=marks,
        front=path,
        across=[Tick(across.at(h), words.limit(h)) for h in hour_ticks(across, room)],
        up=[Tick(up.at(v), f"${usd_tick(v)}") for v in up.ticks()],
        deadline=across.at(deadline) if deadline and across.low < deadline < across.high else None,
        budget=up.at(budget) if budget and up.low < budget < up.high else None,
        whiskers=lines,
        left=left,
        bottom=bottom,
    )


def usd_tick(value: float) -> str:
    """A round amount, short.

    >>> usd_tick(0.5), usd_tick(2000.0), usd_tick(3e6)
    ('0.5', '2k', '3M')
    """
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


@dataclass(frozen=True)
class Part:
    """One part of a stacked bar, in per mille of its length."""

    name: str
    value: float
    share: float  # of the whole, 0 to 1
    x: float
    width: float
    tone: int  # which of the bar's colours


@dataclass(frozen=True)
class Bar:
    """A stacked bar of 1000 units."""

    parts: list[Part]
    limit: float | None = None  # where the limit stands
    beyond: bool = False  # the parts reach over the limit


def bar(parts: Mapping[str, float], *, limit: float | None = None, order: Sequence[str] = ()) -> Bar:
    """The parts in their order, those of no size left out; with a limit the bar is as long as the larger of both.

    `order` names the parts whose colours stay the same whichever of them there are.
    """
    shown = {name: value for name, value in parts.items() if value > 0}
    total = sum(shown.values())
    whole = max(total, limit or 0.0)
    if not whole or not math.isfinite(whole):
        return Bar([])
    tones = {name: tone for tone, name in enumerate(dict.fromkeys([*order, *parts]))}
    x, found = 0.0, []
    for name, value in shown.items():
        width = 1000.0 * value / whole
        found.append(Part(name, value, value / total, round(x, 2), round(width, 2), tones[name] % TONES))
        x += width
    mark = None if limit is None else round(1000.0 * limit / whole, 2)
    return Bar(found, mark, limit is not None and total > limit)


@dataclass(frozen=True)
class Steps:
    """A price over time as a line of steps, with its extremes and its days."""

    path: str
    width: int
    height: int
    up: list[Tick]
    across: list[Tick]
    left: int
    bottom: int
    low: str
    high: str


def steps(series: Iterable[tuple[float, float | None]], end: float, *, width: int = 460, height: int = 150) -> Steps:
    """Steps of (seconds since 1970, price or None) until `end`; a price of None is a gap."""
    known = [(t, usd_) for t, usd_ in series]
    prices = [price for _, price in known if price is not None]
    low, high = min(prices), max(prices)
    pad = (high - low) * 0.15 or high * 0.05 or 1.0
    start = known[0][0]
    long = max(end - start, 1.0)
    left, right, top, bottom = 52, width - 6, 6, height - 24

    def x(t: float) -> float:
        return round(left + (t - start) / long * (right - left), 1)

    def y(price: float) -> float:
        return round(bottom - (price - low + pad) / (high - low + 2 * pad) * (bottom - top), 1)

    path, open_ = "", False
    for (t, price), following in zip(known, [*(t for t, _ in known[1:]), end], strict=True):
        if price is None:
            open_ = False
            continue
        path += f"{'L' if open_ else 'M'}{x(t)} {y(price)}H{x(following)}"
        open_ = True
    return Steps(
        path,
        width,
        height,
        up=[Tick(y(price), words.money(price)) for price in sorted({low, high})],
        across=[Tick(x(t), f"{datetime.fromtimestamp(t, UTC):%-d %b}") for t in (start, (start + end) / 2, end)],
        left=left,
        bottom=bottom,
        low=usd(low),
        high=usd(high),
    )


@dataclass(frozen=True)
class Residuals:
    """Predicted over measured throughput against the measured one: dots, the line of 1, the middle 80%."""

    width: int
    height: int
    dots: list[tuple[float, float]]
    even: float
    band: tuple[float, float]  # its top and bottom
    across: list[Tick]
    up: list[Tick]
    low: float  # the ratio that 10% are below
    high: float


RATIOS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)


def residuals(points: Sequence[tuple[float, float]], *, width: int = 560, height: int = 300) -> Residuals:
    """The drawing of n (measured throughput, log of predicted over measured); ratios beyond a factor 4 at the edge."""
    left, right, top, bottom = 48, width - 12, 12, height - 40
    across = _log_axis([throughput for throughput, _ in points], left, right)
    up = Axis(RATIOS[0], RATIOS[-1], bottom, top)
    ratios = sorted(math.exp(log) for _, log in points)
    low, high = ratios[int(0.1 * (len(ratios) - 1))], ratios[int(0.9 * (len(ratios) - 1))]
    return Residuals(
        width=width,
        height=height,
        dots=[(across.at(throughput), up.at(math.exp(log))) for throughput, log in points],
        even=up.at(1.0),
        band=(up.at(high), up.at(low)),
        across=[Tick(across.at(v), usd_tick(v)) for v in across.ticks()],
        up=[Tick(up.at(ratio), f"{ratio:g}×") for ratio in RATIOS],
        low=low,
        high=high,
    )
