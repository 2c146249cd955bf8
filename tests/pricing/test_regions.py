"""Clouds and regions by any name a person gives them."""

import doctest

import pytest

from benchmarks_db.errors import UnknownName
from pricing import interruptions, offers, regions
from pricing.regions import region_filter, resolve_cloud, resolve_region
from pricing.sources import own


@pytest.mark.parametrize("module", [regions, offers, interruptions, own])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "cloud"),
    [("AWS", "aws"), ("Amazon", "aws"), ("google cloud", "gcp"), ("GCE", "gcp"), ("azure", "azure")],
)
def test_clouds_go_by_their_usual_names(text: str, cloud: str) -> None:
    assert resolve_cloud(text) == cloud


def test_an_unknown_cloud_or_region_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean azure"):
        resolve_cloud("azur")
    with pytest.raises(UnknownName, match="did you mean aws or gcp or azure"):
        resolve_cloud("ibm")
    with pytest.raises(UnknownName, match="us-east-1"):
        resolve_region("us-esat-1")
    with pytest.raises(UnknownName, match="unknown region"):
        region_filter(["moon-*"])


def test_a_place_names_its_regions_in_every_cloud() -> None:
    assert {(r.cloud, r.region) for r in resolve_region("London")} == {
        ("aws", "eu-west-2"), ("gcp", "europe-west2"), ("azure", "uksouth"),
    }  # fmt: skip
    assert resolve_region("East US")[0].region == "eastus"


def test_globs_take_the_area_of_a_region_along_with_its_name() -> None:
    test = region_filter(["us-*"])
    assert test("aws", "us-east-1")
    assert test("gcp", "us-central1")
    assert test("azure", "westus3")
    assert not test("azure", "uksouth")
    assert region_filter(["eu-*"])("gcp", "europe-west4")
    assert not region_filter(["eu-*"])("aws", "us-east-1")


def test_a_region_seen_live_but_in_no_table_answers_to_its_name_and_globs() -> None:
    test = region_filter(["mars-north-1"], seen=[("aws", "mars-north-1")])
    assert test("aws", "mars-north-1")
    assert not test("aws", "us-east-1")
    assert region_filter(["mars-*"], seen=[("aws", "mars-north-1")])("aws", "mars-north-1")


def test_no_pattern_lets_everything_through() -> None:
    assert region_filter([])("gcp", "anywhere")
