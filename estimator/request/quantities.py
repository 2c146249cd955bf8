"""What number did the person mean: `50M`, `1.5T tokens`, `24h`, `3 days`, `$500`, `80GB`?

Every parser takes what YAML, JSON, a flag or a spreadsheet cell may hold and answers a finite float in one stated
unit, or raises `WorkloadError` that names the field and shows a spelling that works. Signs and limits are the
caller's business, except that NaN and infinity never pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, time

from benchmarks_db.errors import WorkloadError

_NUMBER = r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[^\d\s].*)?", re.DOTALL | re.ASCII)

_SCALES: Mapping[str, float] = {
    "": 1.0,
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "mio": 1e6,
    "million": 1e6,
    "millions": 1e6,
    "g": 1e9,
    "b": 1e9,
    "bn": 1e9,
    "billion": 1e9,
    "billions": 1e9,
    "t": 1e12,
    "tn": 1e12,
    "trillion": 1e12,
    "trillions": 1e12,
    "p": 1e15,
    "quadrillion": 1e15,
}
_COUNT_NOUNS = (
    "token", "tokens", "tok", "sample", "samples", "image", "images", "example", "examples", "row", "rows",
    "sequence", "sequences", "record", "records", "item", "items", "param", "params", "parameter", "parameters",
    "flop", "flops", "byte", "bytes", "epoch", "epochs", "step", "steps", "px", "pixels",
)  # fmt: skip
_HOURS: Mapping[str, float] = {
    "": 1.0,
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1 / 3600),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 1 / 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 1.0),
    **dict.fromkeys(("d", "day", "days"), 24.0),
    **dict.fromkeys(("w", "wk", "week", "weeks"), 168.0),
    **dict.fromkeys(("mo", "month", "months"), 730.0),  # 730 h a month, as cloud bills and infracost count
}
_GIB: Mapping[str, float] = {
    "": 1.0,
    **dict.fromkeys(("b", "byte", "bytes"), 2.0**-30),
    **dict.fromkeys(("kb",), 1e3 / 2**30),
    **dict.fromkeys(("mb",), 1e6 / 2**30),
    **dict.fromkeys(("gb",), 1e9 / 2**30),
    **dict.fromkeys(("tb",), 1e12 / 2**30),
    **dict.fromkeys(("kib",), 2.0**-20),
    **dict.fromkeys(("mib",), 2.0**-10),
    **dict.fromkeys(("gib", "g"), 1.0),
    **dict.fromkeys(("tib", "t"), 1024.0),
}


def parse_count(value: object, *, field: str | None = None) -> float:
    """A number of things (tokens, samples, parameters); K, M, B or G, T and words scale it, a noun may follow.

    >>> parse_count("1.5T tokens"), parse_count("50_000"), parse_count("2 million"), parse_count(1e9)
    (1500000000000.0, 50000.0, 2000000.0, 1000000000.0)
    """
    number, unit = _split(value, field, "a count such as 50M, 1.5T or 1e9")
    words = [word for word in re.split(r"[\s]+", unit.casefold()) if word]
    if words and words[-1] in _COUNT_NOUNS:
        words.pop()
    scale = _SCALES.get("".join(words)) if len(words) <= 1 else None
    if scale is None:
        raise WorkloadError(
            f"{_shown(value)} has an unknown unit {unit!r}; write a count such as 50M, 1.5T or 1e9",
            field=field,
            value=value,
            nearest=(),
        )
    return _finite(number * scale, value, field)


def parse_share(value: object, *, field: str | None = None) -> float:
    """A part of a whole: 0.95, or 95%.

    >>> parse_share("95%"), parse_share(0.95)
    (0.95, 0.95)
    """
    return parse_percent(value, field=field) / 100.0 if _in_percent(value) else parse_count(value, field=field)


def parse_percent(value: object, *, field: str | None = None) -> float:
    """Per cent, with or without the sign.

    >>> parse_percent("19%"), parse_percent(19)
    (19.0, 19.0)
    """
    return parse_count(value.strip().removesuffix("%") if isinstance(value, str) else value, field=field)


def _in_percent(value: object) -> bool:
    return isinstance(value, str) and value.strip().endswith("%")


def parse_hours(value: object, *, field: str | None = None) -> float:
    """A duration in hours; a bare number is hours, `m` is minutes, parts add up.

    >>> parse_hours("24h"), parse_hours("3 days"), parse_hours("1d 12h"), parse_hours("90 min"), parse_hours(8)
    (24.0, 72.0, 36.0, 1.5, 8.0)
    """
    shape = "a duration such as 24h, 90 min or 3 days"
    if isinstance(value, date | time):
        raise WorkloadError(f"a date cannot be used here; write {shape} from now", field=field, value=str(value))
    if isinstance(value, str) and (clock := re.fullmatch(r"\s*(\d+):([0-5]\d)(?::([0-5]\d))?\s*", value)):
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return _finite(hours + minutes / 60 + seconds / 3600, value, field)
    if isinstance(value, str):
        parts = re.findall(r"[+-]?[\d.,_]+(?:[eE][+-]?\d+)?\s*[^\d\s.,+-]*", value)
        if len(parts) > 1 and "".join("".join(parts).split()) == "".join(value.split()):
            if any(not re.search(r"[a-zA-Z]\s*$", part) for part in parts):
                raise WorkloadError(f"{_shown(value)} is not {shape}", field=field, value=value)
            return _finite(sum(parse_hours(part, field=field) for part in parts), value, field)
    number, unit = _split(value, field, shape)
    scale = _HOURS.get(unit.casefold().strip().rstrip("."))
    if scale is None:
        raise WorkloadError(f"{_shown(value)} has an unknown unit {unit!r}; write {shape}", field=field, value=value)
    return _finite(number * scale, value, field)


def parse_usd(value: object, *, field: str | None = None) -> float:
    """An amount of US dollars; other currencies are refused, because no rate is known here.

    >>> parse_usd("$500"), parse_usd("1.2k USD"), parse_usd("$1,500.50"), parse_usd("3 million")
    (500.0, 1200.0, 1500.5, 3000000.0)
    """
    shape = "dollars such as 500, $1,500 or 2k"
    text: object = value
    if isinstance(value, str):
        if re.search(r"[€£¥₹]|\b(eur|euros?|gbp|jpy|inr|chf|cny)\b", value, re.IGNORECASE):
            raise WorkloadError(f"{_shown(value)} is not in US dollars; write {shape}", field=field, value=value)
        text = re.sub(r"(?i)us\$|\$|usd|us dollars?|dollars?|/\s*(h|hr|hour)\b", " ", value).strip()
        text = re.sub(r"^([+-])\s+", r"\1", str(text))
    number, unit = _split(text, field, shape, shown=value)
    scale = _SCALES.get(unit.casefold().strip())
    if scale is None:
        raise WorkloadError(f"{_shown(value)} has an unknown unit {unit!r}; write {shape}", field=field, value=value)
    return _finite(number * scale, value, field)


def parse_gib(value: object, *, field: str | None = None) -> float:
    """An amount of memory in GiB (2^30 bytes); a bare number is GiB, `GB` is 10^9 bytes.

    >>> parse_gib("80GiB"), round(parse_gib("80GB"), 2), parse_gib("512 MiB")
    (80.0, 74.51, 0.5)
    """
    shape = "memory such as 80GB, 74.5GiB or 512MiB"
    number, unit = _split(value, field, shape)
    scale = _GIB.get(unit.casefold().strip())
    if scale is None:
        raise WorkloadError(f"{_shown(value)} has an unknown unit {unit!r}; write {shape}", field=field, value=value)
    return _finite(number * scale, value, field)


def parse_bool(value: object, *, field: str | None = None) -> bool:
    """Yes or no as people write it in flags, cells and files.

    >>> parse_bool("yes"), parse_bool("off"), parse_bool(True)
    (True, False, True)
    """
    if isinstance(value, bool):
        return value
    word = str(value).strip().casefold()
    if word in ("true", "yes", "y", "on", "1"):
        return True
    if word in ("false", "no", "n", "off", "0"):
        return False
    raise WorkloadError(
        f"{_shown(value)} is neither true nor false", field=field, value=value, nearest=("true", "false")
    )


def _split(value: object, field: str | None, shape: str, *, shown: object = None) -> tuple[float, str]:
    """The number and what stands behind it; refuses what is not a quantity at all."""
    shown = value if shown is None else shown
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WorkloadError(f"{_shown(shown)} is not {shape}", field=field, value=shown)
    if not isinstance(value, str):
        try:
            return _finite(float(value), shown, field), ""
        except OverflowError:
            raise WorkloadError(f"{_shown(shown)} is too large to be real", field=field, value=shown) from None
    text = value.replace("\xa0", " ").strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= 64 else None
    digits = match["number"].replace(",", "").replace("_", "") if match else ""
    if match is None or not any(c.isdigit() for c in digits):
        raise WorkloadError(f"{_shown(shown)} is not {shape}", field=field, value=shown)
    return _finite(float(digits), shown, field), (match["unit"] or "").strip()


def _finite(number: float, value: object, field: str | None) -> float:
    if not math.isfinite(number):
        raise WorkloadError(f"{_shown(value)} is not a finite number", field=field, value=str(value))
    return number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
