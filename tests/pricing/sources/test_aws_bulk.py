"""The public offer file gives the same on-demand prices, line by line, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from decimal import Decimal

import pytest

from pricing.offers import Market
from pricing.sources import aws, aws_bulk
from pricing.sources.aws_machines import GpuCatalogue
from pricing.sources.base import FailureReason
from pricing.sources.patience import WireFault
from tests.pricing.sources.clouds import Clouds, offer_file
from tests.pricing.sources.reading import EVERYWHERE, assert_no_wrong_price, everything, expected, failures, prices
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_aws import product

GPUS = GpuCatalogue().gpu_of


def read(body: bytes, region: str = "us-east-1") -> tuple[dict[str, set[Decimal]], list[str]]:
    found, rejected = aws_bulk.on_demand(body.splitlines(keepends=True), region, AS_OF, GPUS)
    out: dict[str, set[Decimal]] = {}
    for one in found:
        out.setdefault(one.instance_type, set()).add(one.price_usd_per_hour)
    return out, [one.reason for one in rejected]


def test_without_credentials_on_demand_is_right_and_spot_says_what_is_missing(clouds: Clouds) -> None:
    found = everything(aws, clouds.settings(credentials=False), EVERYWHERE)
    assert_no_wrong_price(found)
    right = {key for key in expected() if key[0] == "aws" and key[4] is Market.ON_DEMAND}
    assert set(prices(found)) == right
    assert {(f.market, f.reason) for f in failures(found)} == {(Market.SPOT, FailureReason.NOT_CONFIGURED)}
    assert all("AWS_ACCESS_KEY_ID" in f.detail for f in failures(found))


def test_software_is_na_or_empty_and_windows_twins_are_left_out() -> None:
    found, rejected = read(offer_file("us-east-1"))
    assert found["p4d.24xlarge"] == {Decimal("21.957642")}
    assert found["p5.48xlarge"] == {Decimal("55.04")}
    assert found["g6.xlarge"] == {Decimal("0.8048")}
    assert not {"inf2.xlarge", "m5.large", "p5e.48xlarge", "g4dn.metal"} & set(found)
    assert rejected == []


def test_a_file_cut_off_within_its_last_line_is_not_whole() -> None:
    body = offer_file("us-east-1")
    with pytest.raises(WireFault, match="cut off"):
        read(body[: len(body) * 3 // 5].rstrip(b"\n")[:-3])


def test_a_last_line_without_a_line_end_is_whole_when_its_cells_are() -> None:
    body = offer_file("us-east-1")
    assert read(body.rstrip(b"\n"))[0] == read(body)[0]


def test_a_line_with_too_few_cells_is_rejected_and_the_rest_is_read() -> None:
    body = offer_file("us-east-1")
    found, rejected = read(body + b'"BROKENROW","JRTCKXETXF"\n' + b'"\xff\xfe broken "quotes",OnDemand,Linux,Shared\n')
    assert found == read(body)[0]
    assert rejected == ["columns missing", "columns missing"]


def test_a_web_page_or_another_table_is_no_offer_file() -> None:
    for body in (b"", b"<html>\n</html>\n", b"a,b\n" * 100):
        with pytest.raises(WireFault, match="header"):
            read(body)
    with pytest.raises(WireFault, match="lacks columns"):
        read(b'"SKU","Price"\n"1","2"\n')


def test_of_two_terms_the_later_in_force_counts_and_two_prices_at_once_are_both_told() -> None:
    older = product("g5.xlarge", "us-east-1", "2.0", effective="2026-08-01T00:00:00Z")
    newer = product("g5.xlarge", "us-east-1", "1.006", effective="2026-09-01T00:00:00Z")
    again = product("g5.xlarge", "us-east-1", "2.0", effective="2026-09-01T00:00:00Z")
    future = product("g5.xlarge", "us-east-1", "0.1", effective="2026-12-01T00:00:00Z")
    for order in ([older, newer], [newer, older]):
        assert read(offer_file("us-east-1", order))[0] == {"g5.xlarge": {Decimal("1.006")}}
    assert read(offer_file("us-east-1", [older, newer, again]))[0] == {"g5.xlarge": {Decimal("1.006"), Decimal(2)}}
    assert read(offer_file("us-east-1", [newer, future])) == (
        {"g5.xlarge": {Decimal("1.006")}},
        ["on-demand term not yet in force"],
    )


def test_another_currency_or_an_odd_number_is_rejected() -> None:
    yuan = product("g5.xlarge", "us-east-1", "7.1", currency="CNY")
    assert read(offer_file("us-east-1", [yuan])) == ({}, ["currency CNY"])
    body = offer_file("us-east-1", [product("g5.xlarge", "us-east-1", "1.006")])
    assert read(body.replace(b"1.0060000000", b"NaN")) == ({}, ["price not a number"])


def test_a_file_of_any_length_is_read_in_little_memory() -> None:
    plain = product("m5.large", "us-east-1", "0.096", instanceFamily="General purpose")
    head, *rows = offer_file("us-east-1", [plain] * 50).splitlines(keepends=True)

    def lines() -> Iterator[bytes]:
        yield head
        yield from rows[:5]
        for _ in range(400):
            yield from rows[5:]
        yield from offer_file("us-east-1", [product("g5.xlarge", "us-east-1", "1.006")]).splitlines(keepends=True)[6:]

    tracemalloc.start()
    found, _ = aws_bulk.on_demand(lines(), "us-east-1", AS_OF, GPUS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.instance_type for one in found] == ["g5.xlarge"]
    assert peak < 2 * 2**20
