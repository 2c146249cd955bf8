"""Which part of a listing is on this page? Filters by pattern, cursors that survive new rows, and ETags."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Literal, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import Gpu, card_test, gpus_named

Row = TypeVar("Row")
Key = tuple[str, ...]


class PageQuery(BaseModel):
    """The part of a listing that is asked for; a parameter that no listing has is refused by name."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=1000, description="rows of a page")
    cursor: str | None = Field(None, max_length=2000, description="`next` of the page before")


class Page(BaseModel):
    """One page of a listing."""

    version: Literal["1"] = "1"
    total: int = Field(description="rows that the filters leave, over all pages")
    next: str | None = Field(description="`cursor` of the following page; null on the last one")


def matching(rows: Iterable[Row], patterns: Mapping[str, str | None]) -> list[Row]:
    """The rows whose attributes match every given pattern (`us-*`; case does not matter).

    `gpu` may also be a name as people write it, with a count: `H100:8` is every H100 with 8 of them in the row.
    EstimatorError for a GPU that nobody knows.
    """
    tests = [
        _card(pattern) if name == "gpu" else _like(name, pattern)
        for name, pattern in patterns.items()
        if pattern is not None
    ]
    return [row for row in rows if all(test(row) for test in tests)]


def _like(name: str, pattern: str) -> Callable[[object], bool]:
    glob = pattern.casefold()
    return lambda row: fnmatchcase(str(getattr(row, name) or "").casefold(), glob)


def cards(rows: Iterable[Gpu], text: str | None) -> list[Gpu]:
    """The cards that a person's text names, a pattern (`A100*`) or any name as elsewhere (`a100 80gb`).

    EstimatorError for a card that nobody knows.
    """
    if text is None:
        return list(rows)
    named = gpus_named(text)
    return [row for row in rows if row in named]


def _card(text: str) -> Callable[[object], bool]:
    """Rows with the card that the text names; a count is of an instance type's own cards, or of a measurement's."""
    test = card_test(text)
    return lambda row: test(
        getattr(row, "gpu", None), getattr(row, "gpus_per_node", None) or getattr(row, "gpus", None)
    )


def encode_cursor(key: Key) -> str:
    """The place after the row of `key`, as text that fits in a query."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> Key:
    """The key of the last row seen; WorkloadError for text that `encode_cursor` did not write."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if not isinstance(key, list) or not all(isinstance(part, str) for part in key):
        raise WorkloadError(
            "not a cursor of this listing; take `next` of the page before", field="cursor", value=cursor
        )
    return tuple(key)


def cut(rows: Iterable[Row], key: Callable[[Row], Key], query: PageQuery) -> tuple[list[Row], int, str | None]:
    """The rows of one page in the order of `key` (unique per row), how many there are in all, and the next cursor."""
    ordered = sorted(rows, key=key)
    start = bisect_right(ordered, decode_cursor(query.cursor), key=key) if query.cursor is not None else 0
    page = ordered[start : start + query.limit]
    more = start + len(page) < len(ordered)
    return page, len(ordered), encode_cursor(key(page[-1])) if page and more else None


def past(text: str | None, now: datetime) -> datetime | None:
    """A moment that a request names, UTC; WorkloadError for one that is none or still to come."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"(?<=:\d\d) (?=\d\d:\d\d$)", "+", text))  # a bare + is a space
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        utc.timestamp()
    except (OverflowError, ValueError):
        raise WorkloadError(
            "not a date that can be looked up", field="as_of", value=text, nearest=("2026-07-01",)
        ) from None
    if utc > now:
        raise WorkloadError("that moment is still to come", field="as_of", value=text)
    return utc


def aged(observed: datetime | None, now: datetime) -> dict[str, str]:
    """Headers of prices: `Age` is that of the newest one, in seconds; a client may keep them but has to ask again."""
    headers = {"cache-control": "private, no-cache", "vary": "Authorization, X-API-Key"}
    if observed is None:
        return headers
    return headers | {"age": str(max(0, int((now - observed).total_seconds())))}


def tag_of(body: bytes) -> str:
    """The ETag of a page."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def respond(request: Request, page: BaseModel, headers: Mapping[str, str] | None = None) -> Response:
    """The page with its ETag, or 304 when the client has it already."""
    body = page.model_dump_json().encode()
    return tagged(request, body, tag_of(body), headers)


def tagged(request: Request, body: bytes, tag: str, headers: Mapping[str, str] | None = None) -> Response:
    """The bytes of a page with their ETag, or 304 when the client has them already."""
    told = {"etag": tag, "cache-control": "no-cache", **(headers or {})}  # keep it, but ask whether it still holds
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=told)
    return Response(body, media_type="application/json", headers=told)
