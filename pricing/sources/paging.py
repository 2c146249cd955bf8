"""How is a list read to its true end: no page twice, no endless loop, never a short list?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pricing.sources.base import FailureReason
from pricing.sources.patience import TokenExpired, WireFault

Row = TypeVar("Row")


def read_all(page: Callable[[str | None], tuple[Sequence[Row], str | None]], *, max_pages: int) -> list[Row]:
    """The rows of all pages. `page(token)` gives the rows of one page and the next token; none or "" is the end.

    An empty page with a token is normal. Raises WireFault(PAGING) for a token seen before, for more than `max_pages`
    pages and for a token that expired twice (the first time the listing starts again).
    """
    for start in (1, 2):
        rows: list[Row] = []
        seen: set[str] = set()
        token: str | None = None
        try:
            for _ in range(max_pages):
                found, token = page(token)
                rows.extend(found)
                if not token:
                    return rows
                if token in seen:
                    raise WireFault(FailureReason.PAGING, f"the page token repeats: {token[:80]}")
                seen.add(token)
            raise WireFault(FailureReason.PAGING, f"more than {max_pages} pages")
        except TokenExpired:
            if start == 2:
                raise
    raise AssertionError("unreachable")
