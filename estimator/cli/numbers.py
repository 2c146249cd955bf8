"""How do numbers read in a table: three figures, units people use, intervals in brackets?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNKNOWN = "-"


def figure(value: float | None, digits: int = 3) -> str:
    """A number with about `digits` figures and thousands marked.

    >>> figure(1234.5), figure(0.01234), figure(None), figure(56.0), figure(float("nan"))
    ('1,234', '0.0123', '-', '56', '-')
    """
    if value is None or value != value:
        return UNKNOWN
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):.10f}".rstrip("0").rstrip(".") if "e" in text else text


def usd(value: float | None) -> str:
    """Dollars: cents below 100, whole dollars from there.

    >>> usd(6.015), usd(1234567.8), usd(0.004), usd(None)
    ('6.01', '1,234,568', '0.0040', '-')
    """
    if value is None or value != value:
        return UNKNOWN
    if value == 0:
        return "0"
    if abs(value) < 0.1:
        return f"{value:.4f}"
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def count(value: float | None) -> str:
    """A large count in K, M, B or T.

    >>> count(50e6), count(1.5e12), count(950), count(None)
    ('50M', '1.5T', '950', '-')
    """
    if value is None or value != value:
        return UNKNOWN
    for scale, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "K")):
        if abs(value) >= scale:
            return f"{value / (1e3 if letter == 'K' else scale):.4g}{letter}"
    return f"{value:.6g}"


def hours(value: float | None) -> str:
    """A duration in hours; minutes below one hour, days beyond a fortnight.

    >>> hours(0.25), hours(4.12), hours(1000), hours(None)
    ('15 min', '4.12 h', '41.7 d', '-')
    """
    if value is None or value != value:
        return UNKNOWN
    if value < 1 / 60:
        return f"{figure(value * 3600)} s"
    if value < 1:
        return f"{figure(value * 60)} min"
    return f"{figure(value)} h" if value <= 336 else f"{figure(value / 24)} d"


def span(interval: Mapping[str, Any] | None, unit: str) -> str:
    """A p50 with its p10 and p90: `4.1 (3.2-5.6)`; `unit` is usd or hours."""
    if interval is None:
        return UNKNOWN
    read = usd if unit == "usd" else figure
    return f"{read(interval['p50'])} ({read(interval['p10'])}-{read(interval['p90'])})"


def age(value: float | None) -> str:
    """How old a price is.

    >>> age(0.2), age(30), age(24 * 90)
    ('0.2 h', '30 h', '90 d')
    """
    if value is None or value != value:
        return UNKNOWN
    if value < 0:
        return "0 h"
    return f"{figure(value, 2)} h" if value < 72 else f"{value / 24:.0f} d"
