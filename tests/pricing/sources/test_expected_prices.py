"""Read over the wire from servers that speak the clouds' protocols, every price is the right one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pricing.offers import Market
from pricing.sources import aws, azure, gcp
from pricing.sources.base import Fetched
from tests.pricing.sources.clouds import sky
from tests.pricing.sources.reading import (
    EVERYWHERE,
    TOLERANCE,
    Key,
    assert_no_wrong_price,
    everything,
    expected,
    expected_rows,
    failures,
    prices,
)

ROWS = expected_rows()


@pytest.fixture(scope="module")
def found() -> Iterator[list[Fetched]]:
    with sky() as up:
        yield [each for source in (aws, gcp, azure) for each in everything(source, up.settings(), EVERYWHERE)]


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{r['cloud']}-{r['zone'] or r['region']}-{r['instance_type']}" for r in ROWS]
)
def test_a_row_of_the_right_answers_is_read_right(found: list[Fetched], row: dict[str, str]) -> None:
    got, right = prices(found), expected()
    for market in (Market.ON_DEMAND, Market.SPOT):
        regional = row["cloud"] == "aws" and market is Market.ON_DEMAND
        key: Key = row["cloud"], row["region"], "" if regional else row["zone"], row["instance_type"], market
        if key not in right:
            assert not {price for price in got.get(key, set()) if price}, "there is no such price"
        else:
            (price,) = got[key]
            assert abs(price - right[key]) <= TOLERANCE


def test_there_is_no_other_price_than_the_right_ones(found: list[Fetched]) -> None:
    assert_no_wrong_price(found)


def test_nothing_fails(found: list[Fetched]) -> None:
    assert failures(found) == []
