"""Numbers, times and JSON on the wire are read exactly or refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from pricing.sources.readings import NotJson, Unreadable, quote, read_json, read_price, read_text, read_time


@pytest.mark.parametrize("text", ["21.9576420000", "0", "0.0000000000", "1e-3", 5, Decimal("0.1"), "-3.5"])
def test_a_number_is_read_exactly(text: object) -> None:
    assert read_price(text) == Decimal(str(text))


NO_PRICES = [None, "", "NaN", "Infinity", "-inf", "1e400", Decimal("1E+400"), Decimal("NaN"), True, 0.1, [], {}]
ODD_TEXTS = ["soon", "1_000", "１", "9" * 50, 10**100, "0x10"]


@pytest.mark.parametrize("value", [*NO_PRICES, *ODD_TEXTS])
def test_what_is_no_price_is_refused(value: object) -> None:
    with pytest.raises(Unreadable):
        read_price(value)


def test_text_is_not_compared_as_text() -> None:
    assert read_price("10.1") > read_price("9.8")


BROKEN = [b"", b"<html>", b'{"a": 1', b"[" * 100_000, b"\xff\xfe{", b'{"a": ' + b"9" * 5000 + b"}"]


@pytest.mark.parametrize("body", BROKEN, ids=["empty", "html", "cut", "deep", "encoding", "long"])
def test_what_is_not_one_whole_json_text_is_refused(body: bytes) -> None:
    with pytest.raises(NotJson):
        read_json(body)


def test_nan_and_infinity_survive_json_only_to_be_refused_as_prices() -> None:
    page = read_json(b'{"a": NaN, "b": Infinity, "c": 1e400, "d": 0.1, "d": 0.2}')
    for key in "abc":
        with pytest.raises(Unreadable):
            read_price(page[key])
    assert page["d"] == Decimal("0.2"), "of a key twice the last one counts"


def test_a_byte_order_mark_does_no_harm() -> None:
    assert read_json(b"\xef\xbb\xbf{}") == {}


@pytest.mark.parametrize(
    "value", ["2026-09-15T10:00:00Z", "2026-09-15T10:00:00+00:00", "2026-09-15T12:00:00+02:00", "2026-09-15T10:00:00"]
)
def test_a_time_is_utc(value: str) -> None:
    assert read_time(value) == datetime(2026, 9, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize("value", [None, "", 5, "yesterday", "2026-13-01", "0001-01-01T00:00:00+23:59", "x" * 100])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(Unreadable):
        read_time(value)


def test_a_name_loses_the_blanks_around_it() -> None:
    assert read_text("Virtual Machines NC Series ", "product") == "Virtual Machines NC Series"
    for value in (None, "", "  ", 7, "x" * 500):
        with pytest.raises(Unreadable, match="product missing"):
            read_text(value, "product")


def test_a_quotation_is_short_whatever_it_quotes() -> None:
    deep: object = 1
    for _ in range(10_000):
        deep = [deep]
    for value in (deep, "x" * 10**6, {str(n): "y" * 1000 for n in range(1000)}, 10**10_000):
        assert len(quote(value)) <= 300
