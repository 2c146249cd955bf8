"""Where is the model wrong? Cross-validated errors drawn: predicted against measured, residuals by kind.

Plain SVG, written by hand: no drawing library is needed, and a drawing is the same file every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estimator.fitting.study import Bench, judged
from estimator.performance.intervals import weighted_quantile

Floats = NDArray[np.float64]
Names = NDArray[np.str_]

SPLIT = "lab"
"""Drawn: groups that were left out of a known laboratory, the usual case."""

WIDTH, HEIGHT, LEFT, TOP, ROOM = 760, 560, 70, 40, 60
MOST = 24  # categories of a residual plot, the largest first
FAR = 4.0  # ratios beyond a factor of this stand at the edge


@dataclass(frozen=True)
class Judged:
    """Rows that were predicted while left out: log(measured seconds / predicted), weight, and what to sort them by."""

    family: str
    rate: Floats  # measured, of all GPUs, in samples a second
    residual: Floats  # positive: predicted too fast
    weight: Floats
    kinds: dict[str, Names]  # axis -> category of each row


def judged_rows(family: str) -> Judged:
    """The rows of one family with their residuals; minutes, and once a process with `evaluate`."""
    data, _whole, left = judged(family)
    residual = left[SPLIT][1]
    there = np.isfinite(residual)
    layout = data.sample.layout
    samples = np.asarray(layout.micro_batch * layout.grad_accum * layout.data, float)
    return Judged(
        family,
        (samples / data.sample.seconds)[there],
        residual[there],
        data.even[there],
        {name: values[there] for name, values in _kinds(data).items()},
    )


def _kinds(data: Bench) -> dict[str, Names]:
    hardware = data.sample.hardware
    nodes = np.asarray(hardware.nodes, float) * np.ones(len(data))
    params = np.asarray(data.sample.work.params, float)
    return {
        "source": data.names("lab"),
        "GPU": data.names("gpu"),
        "precision": data.names("format"),
        "parameters": _stepped(params, (1e7, 1e8, 1e9, 1e10, 1e11), ("10M", "100M", "1B", "10B", "100B")),
        "nodes": _stepped(nodes, (1.5, 2.5, 8.5, 32.5, 128.5), ("1", "2", "8", "32", "128")),
        "year": np.array([row.date[:4] or "?" for row in data.rows], np.str_),
    }


def _stepped(values: Floats, edges: Sequence[float], names: Sequence[str]) -> Names:
    """Each value as the class it falls in: `up to 1B`, ..., `above 100B`."""
    words = np.array([f"up to {name}" for name in names] + [f"above {names[-1]}"], np.str_)
    return words[np.searchsorted(np.asarray(edges), values)]


def write_plots(folder: Path, families: Iterable[str] = ("language", "classic")) -> list[Path]:
    """Draw every family into `folder` (made where it is not): a scatter, a residual plot a kind; the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for family in families:
        rows = judged_rows(family)
        drawings = {f"{family}-scatter.svg": scatter(rows)}
        for kind in rows.kinds:
            drawings[f"{family}-residuals-by-{kind.lower()}.svg"] = residuals(rows, kind)
        for name, drawing in drawings.items():
            path = folder / name
            path.write_text(drawing, encoding="utf-8")
            written.append(path)
    return written


def scatter(rows: Judged) -> str:
    """Predicted against measured throughput, both logarithmic, with the lines of agreement and of a factor 1.5."""
    measured = np.log10(rows.rate)
    predicted = measured + rows.residual / np.log(10.0)
    low, high = (
        float(np.floor(min(measured.min(), predicted.min()))),
        float(np.ceil(max(measured.max(), predicted.max()))),
    )
    span = max(high - low, 1.0)
    wide, tall = WIDTH - LEFT - 20, HEIGHT - TOP - ROOM

    def x(value: Floats | float) -> Floats:
        return np.asarray(LEFT + (np.asarray(value) - low) / span * wide)

    def y(value: Floats | float) -> Floats:
        return np.asarray(TOP + (high - np.asarray(value)) / span * tall)

    parts = []
    for tick in range(int(low), int(high) + 1):
        parts.append(_line(x(tick), TOP, x(tick), TOP + tall, "grid"))
        parts.append(_line(LEFT, y(tick), LEFT + wide, y(tick), "grid"))
        parts.append(_text(x(tick), TOP + tall + 18, f"1e{tick}", "middle"))
        parts.append(_text(LEFT - 8, y(tick) + 4, f"1e{tick}", "end"))
    for shift, style in ((0.0, "even"), (np.log10(1.5), "band"), (-np.log10(1.5), "band")):
        begin, end = max(low, low - shift), min(high, high - shift)
        parts.append(_line(x(begin), y(begin + shift), x(end), y(end + shift), style))
    parts += [_dot(a, b) for a, b in zip(x(measured), y(predicted), strict=True)]
    parts.append(_text(LEFT + wide / 2, HEIGHT - 14, "measured, samples/s", "middle"))
    parts.append(f'<text x="18" y="{TOP + tall / 2:.0f}" transform="rotate(-90 18 {TOP + tall / 2:.0f})" '
                 'text-anchor="middle">predicted, samples/s</text>')  # fmt: skip
    error = 100.0 * weighted_quantile(np.abs(np.expm1(rows.residual)), rows.weight, 0.5)
    title = f"{rows.family}: {len(rows.rate):,} rows, groups left out; median error {error:.1f}%"
    return _page(title, parts, HEIGHT)


def residuals(rows: Judged, kind: str) -> str:
    """Predicted over measured throughput by category: every row, the weighted median and the middle 80%."""
    names = rows.kinds[kind]
    every, inverse = np.unique(names, return_inverse=True)
    weights = np.bincount(inverse, rows.weight)
    chosen = np.argsort(-weights, kind="stable")[:MOST]
    chosen = np.array(sorted(chosen, key=lambda i: _natural(str(every[i]))))
    height = TOP + ROOM + 22 * len(chosen)
    left, wide = 240, WIDTH - 240 - 90
    limit = np.log(FAR)

    def x(value: Floats | float) -> Floats:
        return np.asarray(left + (np.clip(value, -limit, limit) / limit + 1.0) / 2.0 * wide)

    bottom = height - ROOM
    parts = []
    for ratio, name in ((0.25, "/4"), (0.5, "/2"), (1.0, "1"), (2.0, "x2"), (4.0, "x4")):
        parts.append(_line(x(np.log(ratio)), TOP, x(np.log(ratio)), bottom, "even" if ratio == 1.0 else "grid"))
        parts.append(_text(x(np.log(ratio)), bottom + 18, name, "middle"))
    for place, code in enumerate(chosen):
        here, middle = inverse == code, TOP + 22 * place + 11
        values, weight = rows.residual[here], rows.weight[here]
        parts.append(_text(left - 8, middle + 4, f"{every[code]}"[:32], "end"))
        parts += [_dot(a, middle + 6.0 * (k % 3 - 1)) for k, a in enumerate(x(values))]
        low, half, high = (weighted_quantile(values, weight, q) for q in (0.1, 0.5, 0.9))
        parts.append(_line(x(low), middle, x(high), middle, "middle"))
        parts.append(f'<circle class="median" cx="{x(half):.1f}" cy="{middle}" r="4"/>')
        parts.append(_text(WIDTH - 84, middle + 4, f"{int(here.sum()):,}  {100.0 * np.expm1(half):+.0f}%", "start"))
    parts.append(_text(left + wide / 2, height - 14, "predicted over measured throughput", "middle"))
    left_over = f", the {MOST} largest of {len(every)}" if len(every) > MOST else ""
    return _page(f"{rows.family}: residuals by {kind}{left_over}; rows and median at the right", parts, height)


def _natural(name: str) -> tuple[bool, float, str]:
    """`up to 10B` after `up to 1B`, `above` last, everything else by its letters."""
    number = name.removeprefix("up to ").removeprefix("above ")
    scale = {"M": 1e6, "B": 1e9}.get(number[-1:], 1.0)
    try:
        return name.startswith("above"), float(number.rstrip("MB")) * scale, name
    except ValueError:
        return False, 0.0, name


_STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-size:14px;font-weight:600}.grid{stroke:#ddd}.even{stroke:#222}"
    ".band{stroke:#888;stroke-dasharray:4 4}.dot{fill:#1f5fa8;fill-opacity:.25}.median{fill:#b3261e}"
    ".middle{stroke:#b3261e;stroke-width:2}"
)


def _page(title: str, parts: Iterable[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    lines = [head, f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>",
             f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>',
             f'<text class="title" x="12" y="22">{escape(title)}</text>', *parts, "</svg>"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _line(x1: object, y1: object, x2: object, y2: object, style: str) -> str:
    a, b, c, d = (f"{float(str(v)):.1f}" for v in (x1, y1, x2, y2))
    return f'<line class="{style}" x1="{a}" y1="{b}" x2="{c}" y2="{d}"/>'


def _dot(x: object, y: object) -> str:
    return f'<circle class="dot" cx="{float(str(x)):.1f}" cy="{float(str(y)):.1f}" r="2"/>'


def _text(x: object, y: object, words: str, anchor: str) -> str:
    return f'<text x="{float(str(x)):.1f}" y="{float(str(y)):.1f}" text-anchor="{anchor}">{escape(words)}</text>'
