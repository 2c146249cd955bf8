"""A list is read to its true end, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pricing.sources.base import FailureReason
from pricing.sources.paging import read_all
from pricing.sources.patience import TokenExpired, WireFault

Page = tuple[Sequence[int], str | None]


def pages(*of: Page) -> dict[str | None, Page]:
    return dict(zip([None, *(token for _, token in of)], of, strict=False))


def test_all_pages_are_read_in_order_and_an_empty_one_with_a_token_is_no_end() -> None:
    book = pages(([], "a"), ([1, 2], "b"), ([], "c"), ([3], ""))
    assert read_all(lambda token: book[token], max_pages=10) == [1, 2, 3]


@pytest.mark.parametrize("following", ["a", "b"])
def test_a_repeated_token_is_an_error_not_a_loop(following: str) -> None:
    book = pages(([1], "a"), ([2], "b"), ([3], following))
    with pytest.raises(WireFault, match="repeats") as fault:
        read_all(lambda token: book.get(token, ([4], following)), max_pages=1000)
    assert fault.value.reason is FailureReason.PAGING


def test_more_pages_than_the_cap_are_an_error_not_a_short_list() -> None:
    with pytest.raises(WireFault, match="more than 5 pages"):
        read_all(lambda token: ([1], str(int(token or 0) + 1)), max_pages=5)


def test_exactly_the_cap_is_fine() -> None:
    assert read_all(lambda token: ([1], "x" if token is None else None), max_pages=2) == [1, 1]


def test_a_token_that_expires_once_starts_the_listing_again() -> None:
    asked: list[str | None] = []

    def page(token: str | None) -> Page:
        asked.append(token)
        if token == "a" and asked.count("a") == 1:
            raise TokenExpired("gone")
        return ([1], "a") if token is None else ([2], None)

    assert read_all(page, max_pages=10) == [1, 2]
    assert asked == [None, "a", None, "a"]
