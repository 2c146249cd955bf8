"""Spot prices: the latest change of each zone and type, whatever the order of the records."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from pricing.sources.aws_machines import GpuCatalogue
from pricing.sources.aws_spot import latest
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_aws import INSTANCE_TYPES, SPOT, VPC, record

GPUS = GpuCatalogue(INSTANCE_TYPES).gpu_of


def current(records: Sequence[object], region: str = "us-east-1") -> dict[tuple[str, str], set[Decimal]]:
    out: dict[tuple[str, str], set[Decimal]] = {}
    for one in latest(records, region, AS_OF, GPUS)[0]:
        out.setdefault((one.zone or "", one.instance_type), set()).add(one.price_usd_per_hour)
    return out


ALL = [row for page in SPOT["us-east-1"] for row in page]


@given(st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(rng: random.Random) -> None:
    shuffled = list(ALL)
    rng.shuffle(shuffled)
    assert current(shuffled) == current(ALL)
    assert current(ALL)["us-east-1a", "p4d.24xlarge"] == {Decimal("9.8765")}


def test_windows_suse_and_machines_without_gpus_are_left_out() -> None:
    found = current(ALL)
    assert found["us-east-1b", "p4d.24xlarge"] == {Decimal("10.35")}
    assert not [key for key in found if key[1] == "m5.large"]


def test_the_vpc_product_counts_where_it_is_the_only_or_the_latest_one() -> None:
    assert current(ALL)["us-east-1c", "p4d.24xlarge"] == {Decimal("11.0023")}
    older = record("us-east-1a", "g5.xlarge", "0.5", "15T08:00")
    newer = record("us-east-1a", "g5.xlarge", "0.6", "15T09:00", product_description=VPC)
    assert current([newer, older]) == {("us-east-1a", "g5.xlarge"): {Decimal("0.6")}}


def test_a_zone_id_is_taken_from_the_other_records_of_the_zone() -> None:
    ids = {(one.zone, one.instance_type): one.zone_id for one in latest(ALL, "us-east-1", AS_OF, GPUS)[0]}
    assert ids["us-east-1b", "g6.xlarge"] == "use1-az1"


def test_a_local_zone_is_not_the_region() -> None:
    assert set(current(SPOT["us-west-2"][0], "us-west-2")) == {
        ("us-west-2a", "p5.48xlarge"),
        ("us-west-2b", "p4d.24xlarge"),
    }


def test_what_is_to_come_is_not_the_price_now() -> None:
    now = record("us-east-1a", "g5.xlarge", "0.5", "15T11:59")
    soon = record("us-east-1a", "g5.xlarge", "0.6", "15T12:03")
    later = record("us-east-1a", "g5.xlarge", "0.7", "15T13:00")
    assert current([later, soon, now]) == {("us-east-1a", "g5.xlarge"): {Decimal("0.5")}}
    assert current([later, soon]) == {("us-east-1a", "g5.xlarge"): {Decimal("0.6")}}, "clocks may differ by minutes"
    assert current([later]) == {}


def test_a_price_that_has_not_changed_for_weeks_is_still_the_price() -> None:
    (one,) = latest([record("us-east-1a", "g5.xlarge", "0.5", "01T00:00")], "us-east-1", AS_OF, GPUS)[0]
    assert one.effective_at == datetime(2026, 9, 1, tzinfo=UTC)


def test_where_the_latest_record_cannot_be_read_the_one_before_is_not_taken_for_it() -> None:
    old = record("us-east-1a", "g5.xlarge", "0.5", "15T08:00")
    for price in ("", "n/a", "NaN"):
        bad = record("us-east-1a", "g5.xlarge", price, "15T09:00")
        found, rejected = latest([old, bad], "us-east-1", AS_OF, GPUS)
        assert found == []
        assert [(one.instance_type, one.zone) for one in rejected] == [("g5.xlarge", "us-east-1a")]
        assert current([old, record("us-east-1a", "g5.xlarge", price, "14T09:00")]) != {}, "an old one does not matter"
    undated = {**old, "Timestamp": "soon"}
    assert latest([old, undated], "us-east-1", AS_OF, GPUS)[0] == []


def test_two_prices_at_one_moment_are_both_told() -> None:
    one = record("us-east-1a", "g5.xlarge", "0.5", "15T08:00")
    other = record("us-east-1a", "g5.xlarge", "0.75", "15T08:00", product_description=VPC)
    assert current([one, other]) == {("us-east-1a", "g5.xlarge"): {Decimal("0.5"), Decimal("0.75")}}
    assert current([one, one]) == {("us-east-1a", "g5.xlarge"): {Decimal("0.5")}}
