"""How do prices look on a screen? Columns of offers, sets and histories, and a plot of one price over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from estimator.cli.numbers import UNKNOWN, figure
from estimator.cli.output import Column

if TYPE_CHECKING:
    from pricing.store_queries import Series


def usd(value: float | None) -> str:
    """A price per hour with the digits that tell prices apart.

    >>> usd(0.0934), usd(21.957642)
    ('0.0934', '21.9576')
    """
    return UNKNOWN if value is None else f"{value:.4f}"


def age(moment: datetime | str | None, now: datetime) -> str:
    """How long ago, in the unit that reads best."""
    if moment is None:
        return UNKNOWN
    seen = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    hours = (now - seen).total_seconds() / 3600
    if hours < 0:
        return "ahead of the clock"
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} d"


def short_source(text: str) -> str:
    """The beginning of a source, and in full what became of its price.

    >>> short_source("aws:pricing | negotiated -12% (EDP)")
    'aws:pricing | negotiated -12% (EDP)'
    """
    head, mark, tail = text.partition(" | ")
    return head[:40] + mark + tail


def offer_columns(now: datetime, rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Columns of offer documents; those of negotiated and committed prices only where there are any."""
    negotiated = (
        ("list_price_usd_per_hour", Column("list", lambda r: usd(r["list_price_usd_per_hour"]), right=True)),
        ("term_hours", Column("term h", lambda r: figure(r["term_hours"]), right=True)),
        ("break_even_hours", Column("cheaper after h", lambda r: figure(r["break_even_hours"]), right=True)),
        ("upfront_usd", Column("upfront USD", lambda r: figure(r["upfront_usd"]), right=True)),
    )
    return (
        Column("cloud", lambda r: r["cloud"]),
        Column("region", lambda r: r["region"] or UNKNOWN),
        Column("zone", lambda r: r["zone"] or r["zone_id"] or ""),
        Column("instance", lambda r: r["instance_type"]),
        Column("GPUs", lambda r: f"{figure(r['gpus_per_node'])} x {r['gpu'] or UNKNOWN}"),
        Column("market", lambda r: r["market"]),
        Column("USD/h", lambda r: usd(r["price_usd_per_hour"]), right=True),
        *(column for name, column in negotiated if any(row[name] is not None for row in rows)),
        Column("state", lambda r: r["state"]),
        Column("age", lambda r: age(r["observed_at"], now), right=True),
        Column("source", lambda r: short_source(r["source"])),
        Column("note", lambda r: r["note"] or ""),
    )


def scope_columns(now: datetime) -> tuple[Column, ...]:
    """Columns of the sets of a store."""
    return (
        Column("cloud", lambda r: r["cloud"]),
        Column("region", lambda r: r["region"] or "all"),
        Column("market", lambda r: r["market"] or "all"),
        Column("prices", lambda r: str(r["prices"]), right=True),
        Column("state", lambda r: r["state"]),
        Column("age", lambda r: age(r["fetched_at"], now), right=True),
        Column("source", lambda r: r["source"] or UNKNOWN),
        Column("why", lambda r: r["why"] or ""),
    )


QUARANTINE_COLUMNS = (
    Column("cloud", lambda r: r["cloud"]),
    Column("region", lambda r: r["region"]),
    Column("market", lambda r: r["market"]),
    Column("place", lambda r: r["place"]),
    Column("instance", lambda r: r["instance_type"] or UNKNOWN),
    Column("price", lambda r: r["price"], right=True),
    Column("reason", lambda r: r["reason"]),
    Column("detail", lambda r: r["detail"]),
    Column("fetches", lambda r: str(r["fetches"]), right=True),
    Column("resolution", lambda r: r["resolution"] or ""),
)

HISTORY_COLUMNS = (
    Column("cloud", lambda r: r["cloud"]),
    Column("region", lambda r: r["region"]),
    Column("zone", lambda r: r["zone"] or r["zone_id"] or ""),
    Column("instance", lambda r: r["instance_type"]),
    Column("market", lambda r: r["market"]),
    *(
        Column(title, lambda r, key=key: usd(r[key]), right=True)  # type: ignore[misc]
        for title, key in (("min", "min"), ("p10", "p10"), ("median", "median"), ("p90", "p90"), ("max", "max"))
    ),
    Column("changes", lambda r: str(r["changes"]), right=True),
)

CHANGE_COLUMNS = (
    Column("cloud", lambda r: r["cloud"]),
    Column("region", lambda r: r["region"] or UNKNOWN),
    Column("zone", lambda r: r["zone"] or r["zone_id"] or ""),
    Column("instance", lambda r: r["instance_type"]),
    Column("market", lambda r: r["market"]),
    Column("before", lambda r: usd(r["before"]), right=True),
    Column("after", lambda r: usd(r["after"]), right=True),
    Column("change", lambda r: UNKNOWN if r["percent"] is None else f"{r['percent']:+.1f} %", right=True),
)

REFRESH_COLUMNS = (
    Column("cloud", lambda r: r["cloud"]),
    *(
        Column(title, lambda r, key=key: str(r.get(key, 0)), right=True)  # type: ignore[misc]
        for title, key in (
            ("switched", "switched"),
            ("unchanged", "unchanged"),
            ("partial", "partial"),
            ("suspect", "suspect"),
            ("failed", "failed"),
            ("not enabled", "region-off"),
            ("skipped", "skipped"),
        )
    ),
)


# --- a plot ---------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 900, 420, 70, 40, 30, 20
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")
MOST_LINES = len(COLOURS)


def plot(series: Sequence[Series], *, start: datetime, now: datetime, title: str) -> str:
    """An SVG of prices over time, one step line per series (the first few; the caption says how many are left out)."""
    shown = list(series[:MOST_LINES])
    top = max((price for s in shown for _, price in s.steps if price is not None), default=1.0) * 1.05
    span = (now - start).total_seconds()

    def x(moment: datetime) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (moment - start).total_seconds() / span

    def y(price: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * price / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT + 18 * len(shown)}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
    ]
    for n in range(5):
        price = top * n / 4
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(price):.1f}" y2="{y(price):.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{y(price) + 4:.1f}" text-anchor="end">{price:.4g}</text>'
        )
        moment = start + (now - start) * n / 4
        parts.append(
            f'<text x="{x(moment):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{moment:%Y-%m-%d %H:%M}</text>'
        )
    for n, one in enumerate(shown):
        colour = COLOURS[n]
        ends = [moment for moment, _ in one.steps[1:]] + [now]
        path: list[str] = []
        for (moment, level), end in zip(one.steps, ends, strict=True):
            if level is not None:
                pen = "L" if path and path[-1] != "gap" else "M"
                path += [f"{pen}{x(moment):.1f},{y(level):.1f}", f"L{x(end):.1f},{y(level):.1f}"]
            elif path and path[-1] != "gap":
                path.append("gap")
        line = " ".join(p for p in path if p != "gap")
        where = " ".join(filter(None, (one.cloud, one.region, one.zone or one.zone_id, one.instance_type, one.market)))
        below = HEIGHT + 18 * n
        parts.append(
            f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<rect x="{LEFT}" y="{below - 9}" width="10" height="10" fill="{colour}"/>'
            f'<text x="{LEFT + 16}" y="{below}">{escape(where)}</text>'
        )
    if len(series) > len(shown):
        more = f"and {len(series) - len(shown)} more"
        parts.append(f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end">{more}</text>')
    parts.append("</svg>")
    return "\n".join(parts)
