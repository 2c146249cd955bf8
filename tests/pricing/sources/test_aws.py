"""The AWS source as a whole: what it asks, and how it finds regions and machines."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pricing.instances import InstanceType
from pricing.offers import Market
from pricing.sources import aws
from pricing.sources.base import FailureReason, Scope, Wanted
from tests.pricing.sources import clouds as sky
from tests.pricing.sources import world_aws
from tests.pricing.sources.clouds import Clouds
from tests.pricing.sources.loopback import changed_json, instead, only
from tests.pricing.sources.reading import EVERYWHERE, everything, expected, failures, prices

AWS = {key for key in expected() if key[0] == "aws"}


def test_only_gpu_machines_that_a_region_offers_are_asked_for(clouds: Clouds) -> None:
    everything(aws, clouds.settings(), Wanted(regions=("eu-west-1",)))
    (products,) = [json.loads(request.body) for request in clouds.pricing.requests]
    (kinds,) = [f["Value"] for f in products["Filters"] if f["Field"] == "instanceType"]
    assert set(kinds.split(",")) == {"g4dn.xlarge", "p4d.24xlarge"}
    spot = [request.form for request in clouds.ec2.requests if request.form["Action"] == "DescribeSpotPriceHistory"]
    assert {form["StartTime"] for form in spot} == {"2026-09-15T12:00:00Z"}


def test_a_price_list_that_refuses_lists_in_filters_is_asked_for_the_gpu_family(clouds: Clouds) -> None:
    def refuses_lists(request: sky.Request, good: sky.Reply, n: int) -> sky.Reply | None:
        return sky.aws_refusal("InvalidParameterException") if b"ANY_OF" in request.body else None

    clouds.pricing.faults.append(refuses_lists)
    assert set(prices(everything(aws, clouds.settings(), EVERYWHERE))) == AWS


def test_a_price_list_that_answers_more_than_was_asked_changes_nothing(clouds: Clouds) -> None:
    everything_at_all = json.dumps({"FormatVersion": "aws_v1", "PriceList": list(map(json.dumps, world_aws.PRODUCTS))})
    clouds.pricing.faults.append(instead(sky.Reply(everything_at_all.encode(), 200, "application/x-amz-json-1.1")))
    assert set(prices(everything(aws, clouds.settings(), EVERYWHERE))) == AWS


def test_a_reply_without_its_list_is_no_empty_list(clouds: Clouds) -> None:
    clouds.pricing.faults.append(changed_json(lambda reply: {"FormatVersion": "aws_v1"}))
    found = everything(aws, clouds.settings(), EVERYWHERE)
    assert {(f.market, f.reason) for f in failures(found)} == {(Market.ON_DEMAND, FailureReason.MALFORMED)}


def test_a_region_not_opted_in_has_list_prices_and_no_spot(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(world_aws.AWS_REGIONS, "eu-west-1", "not-opted-in")
    found = everything(aws, clouds.settings(), EVERYWHERE)
    assert [(f.region, f.market, f.reason) for f in failures(found)] == [
        ("eu-west-1", Market.SPOT, FailureReason.REGION_OFF)
    ]
    assert set(prices(found)) == {key for key in AWS if (key[1], key[4]) != ("eu-west-1", Market.SPOT)}


def test_when_the_machines_cannot_be_described_the_price_list_is_read_all_the_same(clouds: Clouds) -> None:
    denied = instead(sky.ec2_refusal("UnauthorizedOperation", 403))
    clouds.ec2.faults.append(only(denied, lambda r: r.form["Action"] == "DescribeInstanceTypes"))
    found = everything(aws, clouds.settings(), EVERYWHERE)
    assert {(f.market, f.reason) for f in failures(found)} == {(Market.SPOT, FailureReason.PERMISSION)}
    assert set(prices(found)) == {key for key in AWS if key[4] is Market.ON_DEMAND}


def test_new_machines_are_told_once_seen_in_a_region(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    row = world_aws.record("us-west-2a", "p9x.48xlarge", "99.5", "15T09:00")
    monkeypatch.setitem(world_aws.SPOT, "us-west-2", [[row]])
    found = everything(aws, clouds.settings(), Wanted(regions=("us-west-2",)))
    (machine,) = [each for each in found if isinstance(each, InstanceType)]
    assert (machine.instance_type, machine.gpu, machine.gpus) == ("p9x.48xlarge", None, 8.0)
    assert ("aws", "us-west-2", "us-west-2a", "p9x.48xlarge", Market.SPOT) in prices(found)


def test_only_what_is_wanted_is_fetched(clouds: Clouds) -> None:
    spot = Wanted(regions=("us-west-*",), markets=frozenset({Market.SPOT}), interruptions=False)
    found = everything(aws, clouds.settings(), spot)
    assert {(key[1], key[4]) for key in prices(found)} == {("us-west-2", Market.SPOT)}
    assert clouds.pricing.requests == []
    assert clouds.advisor.requests == []


def test_a_scope_built_by_hand_works_too(clouds: Clouds) -> None:
    found = list(aws.fetch(Scope("aws", "eu-west-1"), clouds.settings()))
    assert set(prices(found)) == {key for key in AWS if key[1] == "eu-west-1"}


def test_half_a_key_counts_as_none(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = clouds.settings(credentials=False)
    environ = {**settings.environ, "AWS_ACCESS_KEY_ID": "AKIATEST"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    found = everything(aws, dataclasses.replace(settings, environ=environ), Wanted(regions=("eu-west-1",)))
    assert {(f.market, f.reason) for f in failures(found)} == {(Market.SPOT, FailureReason.NOT_CONFIGURED)}
