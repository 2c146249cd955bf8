"""Reclaim statistics stay shares of a month, unknown stays unknown."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from pricing.interruptions import interruption, reclaimed_shares, shipped_interruptions
from pricing.offers import current_offers


def test_every_bucket_is_one_of_the_five_published() -> None:
    assert {f.label for f in shipped_interruptions().values()} == {"<5%", "5-10%", "10-15%", "15-20%", ">20%"}


def test_an_unknown_type_has_no_statistic() -> None:
    assert interruption("aws", "us-east-1", "p6-b300.48xlarge") is None
    assert interruption("gcp", "us-central1", "a2-highgpu-1g") is None


def test_a_fetched_statistic_wins_over_the_shipped_one() -> None:
    shipped = interruption("aws", "us-east-1", "g5.xlarge")
    assert shipped is not None
    fetched = replace(shipped, low_pct=5.0, high_pct=10.0, observed_at=datetime(2026, 9, 1, tzinfo=UTC))
    key = ("aws", "us-east-1", "g5.xlarge")
    assert interruption(*key, fetched={key: fetched}) is fetched


def test_only_spot_offers_get_shares_and_open_buckets_have_no_upper_bound() -> None:
    table = current_offers(now=datetime(2026, 9, 1, tzinfo=UTC))
    low, high = reclaimed_shares(table)
    known = ~np.isnan(low)
    assert known.any()
    assert set(table.market[known]) == {"spot"}
    assert set(table.cloud[known]) == {"aws"}
    assert ((low[known] >= 0) & (low[known] <= 0.2)).all()
    assert np.isnan(high[low == 0.2]).all()
