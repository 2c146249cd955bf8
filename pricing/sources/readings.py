"""How is what stands on the wire read as JSON, a price, a time or a name, without trusting it?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

_MOST_DIGITS = 40  # more is no price; also keeps arithmetic cheap
_HIGHEST_EXPONENT = 9


class Unreadable(Exception):  # noqa: N818  (reads as what happened)
    """A value that cannot be what it should be; the text is short and countable ("price missing")."""


class NotJson(Exception):  # noqa: N818
    """A body that is not (whole) JSON, or nested beyond reason."""


def read_json(body: bytes | str) -> Any:
    """JSON with exact decimals; NaN and Infinity come out as `Decimal` specials, which `read_price` refuses.

    Raises NotJson for anything else than one whole JSON text (cut off, HTML, wrong encoding, nested too deep).

    >>> read_json('{"a": 0.1, "b": NaN}')
    {'a': Decimal('0.1'), 'b': Decimal('NaN')}
    """
    try:
        return json.loads(body, parse_float=Decimal, parse_constant=Decimal)
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise NotJson(f"not JSON: {type(error).__name__} {error}"[:200]) from None


def read_price(value: object) -> Decimal:
    """An amount of money as an exact decimal; zero and negative pass (others judge them), everything odd raises.

    >>> read_price("21.9576420000")
    Decimal('21.9576420000')

    Raises Unreadable: "price missing", "price not a number", "price out of range".
    """
    if value is None or value == "":
        raise Unreadable("price missing")
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise Unreadable("price not a number")
    if isinstance(value, str) and (len(value) > _MOST_DIGITS or "_" in value or not value.isascii()):
        raise Unreadable("price not a number")
    if isinstance(value, int) and value.bit_length() > 4 * _MOST_DIGITS:
        raise Unreadable("price out of range")
    try:
        price = Decimal(value)
    except InvalidOperation:
        raise Unreadable("price not a number") from None
    if not price.is_finite():
        raise Unreadable("price not a number")
    if price and (price.adjusted() > _HIGHEST_EXPONENT or len(price.as_tuple().digits) > _MOST_DIGITS):
        raise Unreadable("price out of range")
    return price


def read_time(value: object) -> datetime:
    """An instant in UTC from ISO 8601 text or a datetime; a date alone is its first moment; no zone means UTC.

    >>> read_time("2026-09-15T10:21:07.331Z").isoformat()
    '2026-09-15T10:21:07.331000+00:00'

    Raises Unreadable("time ...").
    """
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise Unreadable("time not readable") from None
    if not isinstance(value, datetime):
        raise Unreadable("time missing")
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise Unreadable("time out of range") from None


def read_text(value: object, what: str) -> str:
    """A short non-empty text with the blanks around it taken off; raises Unreadable("<what> missing")."""
    if not isinstance(value, str) or len(value) > 400:
        raise Unreadable(f"{what} missing")
    text = value.strip()
    if not text:
        raise Unreadable(f"{what} missing")
    return text


def mapping(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one (for walking into replies of unsure shape)."""
    return value if isinstance(value, dict) else {}


def listing(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def quote(value: object, most: int = 300) -> str:
    """A short printable form of a row for a person who looks closer; never longer than `most`."""
    text = value if isinstance(value, str) else _shallow(value, 3)
    return text if len(text) <= most else text[: most - 3] + "..."


def _shallow(value: object, depth: int) -> str:
    if isinstance(value, dict):
        if not depth:
            return "{...}"
        return "{" + ", ".join(f"{str(k)[:60]}: {_shallow(v, depth - 1)}" for k, v in list(value.items())[:40]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shallow(v, depth - 1) for v in value[:5]) + "]" if depth else "[...]"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "huge number"
    return str(value)[:120]
