"""The Google Cloud source as a whole: keys, partial answers, unknown machines."""

from __future__ import annotations

import copy
import dataclasses

import pytest

from pricing.instances import InstanceType
from pricing.offers import Market
from pricing.sources import gcp, gcp_client
from pricing.sources.base import FailureReason, PriceSet, SourceUnavailable, Wanted
from tests.pricing.sources import world_gcp
from tests.pricing.sources.clouds import Clouds
from tests.pricing.sources.loopback import changed_json
from tests.pricing.sources.reading import EVERYWHERE, TOLERANCE, everything, expected, failures, prices

GCP = {key: value for key, value in expected().items() if key[0] == "gcp"}


def test_without_any_credentials_the_source_says_what_is_missing(clouds: Clouds) -> None:
    settings = dataclasses.replace(clouds.settings(), gcp_billing_endpoint=None, gcp_compute_endpoint=None)
    with pytest.raises(SourceUnavailable, match="ESTIMATOR_GCP_API_KEY"):
        gcp.scopes(Wanted(), settings)


def test_an_api_key_opens_the_catalogue_and_the_shipped_machines_are_priced_by_region(clouds: Clouds) -> None:
    settings = dataclasses.replace(clouds.settings(), gcp_compute_endpoint=None, gcp_api_key="a-key")
    found = everything(gcp, settings, EVERYWHERE)
    assert failures(found) == []
    got = prices(found)
    for (cloud, region, _, name, market), value in GCP.items():
        regional = got.get((cloud, region, "", name, market))
        if regional is not None:
            assert all(abs(one - value) <= TOLERANCE for one in regional)
    assert ("gcp", "us-central1", "", "a2-highgpu-1g", Market.ON_DEMAND) in got
    assert clouds.compute.requests == []


def test_an_api_key_is_sent_to_a_server_that_is_not_this_machine_only(clouds: Clouds) -> None:
    settings = dataclasses.replace(clouds.settings(), gcp_api_key="a-key")
    everything(gcp, settings, EVERYWHERE)
    assert not [request for request in clouds.billing.requests if "a-key" in str(request.headers)]


def test_zones_that_gave_no_answer_are_named_and_the_others_are_read(clouds: Clouds) -> None:
    def without_b(page: dict[str, object]) -> dict[str, object]:
        items = page["items"]
        assert isinstance(items, dict)
        kept = {scope: part for scope, part in items.items() if not scope.endswith("-b")}
        return {**page, "items": kept, "unreachables": ["zones/us-central1-b", "zones/europe-west1-b"]}

    clouds.compute.faults.append(changed_json(without_b))
    found = everything(gcp, clouds.settings(), EVERYWHERE)
    silent = {each.region: each.silent_zones for each in found if isinstance(each, PriceSet)}
    assert silent["us-central1"] == ("us-central1-b",)
    assert silent["asia-southeast1"] == ()
    assert {(f.region, f.reason) for f in failures(found)} == {("europe-west1", FailureReason.PARTIAL)}
    zones = {key[2] for key in prices(found)}
    assert "us-central1-a" in zones
    assert "us-central1-b" not in zones


def test_a_new_accelerator_does_not_stop_the_run_and_its_machine_is_told(clouds: Clouds) -> None:
    def with_a_new_one(page: dict[str, object]) -> dict[str, object]:
        items = page["items"]
        assert isinstance(items, dict)
        for part in items.values():
            for row in part.get("machineTypes", []):
                if row["name"] == "g2-standard-48":
                    row |= {"name": "x9-mega-4g", "accelerators": [{"guestAcceleratorType": "nvidia-z900",
                                                                    "guestAcceleratorCount": 4}]}  # fmt: skip
        return page

    clouds.compute.faults.append(changed_json(with_a_new_one))
    found = everything(gcp, clouds.settings(), EVERYWHERE)
    assert failures(found) == []
    (machine,) = [m for m in found if isinstance(m, InstanceType) and not m.instance_type.startswith("n1-")]
    assert (machine.instance_type, machine.gpu, machine.gpus) == ("x9-mega-4g", None, 4.0)


def test_every_region_of_the_listing_ends_in_one_set_a_market(clouds: Clouds) -> None:
    found = everything(gcp, clouds.settings(), Wanted())
    ends = [(each.region, each.market) for each in found if isinstance(each, PriceSet)]
    assert len(ends) == len(set(ends)) == 10


def test_only_wanted_regions_and_markets_come_out(clouds: Clouds) -> None:
    found = everything(gcp, clouds.settings(), Wanted(regions=("us-*",), markets=frozenset({Market.SPOT})))
    assert {(key[1], key[4]) for key in prices(found)} == {("us-central1", Market.SPOT)}
    assert gcp.scopes(Wanted(markets=frozenset()), clouds.settings()) == []


def test_a_catalogue_without_any_machine_part_is_no_catalogue(clouds: Clouds) -> None:
    clouds.billing.faults.append(changed_json(lambda page: {"nextPageToken": page.get("nextPageToken", "")}))
    found = everything(gcp, clouds.settings(), EVERYWHERE)
    assert {(f.region, f.reason) for f in failures(found)} == {(None, FailureReason.MALFORMED)}


def test_a_machine_list_without_any_zone_is_no_list(clouds: Clouds) -> None:
    clouds.compute.faults.append(changed_json(lambda page: {}))
    found = everything(gcp, clouds.settings(), EVERYWHERE)
    assert {(f.region, f.reason) for f in failures(found)} == {(None, FailureReason.MALFORMED)}


@pytest.mark.parametrize("rows", [[7, None, "x", {"description": 5, "category": 3}], {"a": 1}, None])
def test_odd_rows_are_the_library_s_to_refuse_and_never_a_crash(clouds: Clouds, rows: object) -> None:
    clouds.billing.faults.append(changed_json(lambda page: {**page, "skus": rows}))
    clouds.compute.faults.append(changed_json(lambda page: {**page, "items": {"zones/us-central1-a": rows}}))
    found = everything(gcp, clouds.settings(), EVERYWHERE)
    assert {f.reason for f in failures(found)} == {FailureReason.MALFORMED}
    assert prices(found) == {}


def test_only_rows_that_matter_are_handed_to_the_library() -> None:
    page = {"skus": [*world_gcp.SKUS_ON_DEMAND], "nextPageToken": "two"}
    gcp_client.slim_skus(page)
    left = {row["description"] for row in page["skus"]}
    assert "Nvidia Tesla A100 GPU running in Americas" in left
    assert not [text for text in left if "Reserved" in text or "Licens" in text or "Commitment" in text]
    assert page["nextPageToken"] == "two"
    items = {"items": copy.deepcopy(world_gcp.MACHINES)}
    gcp_client.slim_machines(items)
    names = {row["name"] for part in items["items"].values() for row in part.get("machineTypes", [])}
    assert {"n1-standard-8", "a2-highgpu-1g"} <= names
    assert "e2-standard-8" not in names
