"""The Spot Advisor: buckets by index, unknown stays unknown."""

from __future__ import annotations

import json

import pytest

from pricing.sources import aws
from pricing.sources.aws_spot_advisor import interruptions
from pricing.sources.base import InterruptionFact, Wanted
from pricing.sources.patience import WireFault
from tests.pricing.sources.clouds import Clouds
from tests.pricing.sources.reading import everything
from tests.pricing.sources.world import AS_OF
from tests.pricing.sources.world_aws import ADVISOR


def test_buckets_are_looked_up_by_index_for_linux() -> None:
    facts = {f.instance_type: (f.low_pct, f.high_pct) for f in interruptions(json.dumps(ADVISOR).encode(), AS_OF)
             if f.region == "us-east-1"}  # fmt: skip
    assert facts == {
        "p4d.24xlarge": (10.0, 15.0),
        "p5.48xlarge": (20.0, None),
        "p5en.48xlarge": (0.0, 5.0),
        "g4dn.xlarge": (15.0, 20.0),
        "g6e.xlarge": (5.0, 10.0),
        "m5.large": (5.0, 10.0),
    }


def test_only_gpu_machines_come_out_of_the_source_with_their_savings(clouds: Clouds) -> None:
    found = everything(aws, clouds.settings(), Wanted(regions=("us-*",)))
    facts = {f.instance_type: f for f in found if isinstance(f, InterruptionFact)}
    assert set(facts) == {"p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "g4dn.xlarge", "g6e.xlarge"}
    assert facts["p4d.24xlarge"].savings_pct == 67.0


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"spot_advisor": []}', b'{"spot_advisor": {}, "ranges": []}', b"<html>"]
)
def test_another_file_is_refused(body: bytes) -> None:
    with pytest.raises(WireFault):
        interruptions(body, AS_OF)


def test_odd_rows_are_left_out() -> None:
    rows = {"a": None, "b": {"r": True}, "c": {"r": "1"}, "d": {"r": 1}}
    odd = {**ADVISOR, "spot_advisor": {"us-east-1": {"Linux": rows}, "x": None, "y": {"Linux": 3}}}
    (fact,) = interruptions(json.dumps(odd).encode(), AS_OF)
    assert (fact.instance_type, fact.savings_pct) == ("d", None)
