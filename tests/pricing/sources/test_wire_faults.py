"""What goes wrong between us and a cloud: every fault ends in a reason, none in a wrong or missing-as-empty price."""

from __future__ import annotations

import dataclasses
import logging
import time
from datetime import timedelta
from types import ModuleType

import pytest

from pricing.offers import Market
from pricing.sources import aws, azure, gcp
from pricing.sources.base import Failure, FailureReason, Fetched, InterruptionFact, SourceSettings, Wanted
from tests.pricing.sources import clouds as sky
from tests.pricing.sources.clouds import Clouds
from tests.pricing.sources.loopback import (
    Fault,
    Request,
    Wire,
    bomb,
    compressed,
    cut_gzip,
    cut_off,
    cut_short,
    drip,
    elsewhere,
    first,
    hang,
    huge,
    instead,
    only,
    refused,
    reset,
    web_page,
)
from tests.pricing.sources.reading import EVERYWHERE, assert_no_wrong_price, everything, expected, failures, prices
from tests.pricing.sources.world import AS_OF

R = FailureReason
WANTED = EVERYWHERE
SOURCE_OF: dict[str, tuple[ModuleType, frozenset[Market]]] = {
    "pricing": (aws, frozenset({Market.ON_DEMAND})),
    "ec2": (aws, frozenset({Market.SPOT})),
    "bulk": (aws, frozenset({Market.ON_DEMAND})),
    "billing": (gcp, frozenset(Market(m) for m in ("on-demand", "spot"))),
    "compute": (gcp, frozenset(Market(m) for m in ("on-demand", "spot"))),
    "azure": (azure, frozenset(Market(m) for m in ("on-demand", "spot"))),
}
ENDPOINTS = tuple(SOURCE_OF)


def wire_of(clouds: Clouds, endpoint: str) -> Wire:
    wire = getattr(clouds, endpoint)
    assert isinstance(wire, Wire)
    return wire


def fetched(clouds: Clouds, endpoint: str, fault: Fault | None, **changes: float) -> list[Fetched]:
    """Everything of the source that reads this endpoint, with the fault on it."""
    if fault is not None:
        wire_of(clouds, endpoint).faults.append(fault)
    settings = clouds.settings(credentials=endpoint != "bulk", **changes)
    return everything(SOURCE_OF[endpoint][0], settings, WANTED)


def right_prices(endpoint: str, found: list[Fetched]) -> bool:
    """Whether all prices that this endpoint serves came out, and right."""
    source, markets = SOURCE_OF[endpoint]
    got = prices(found)
    wanted = {key for key in expected() if key[0] == source.NAME and key[4] in markets}
    return all(len(got.get(key, ())) == 1 for key in wanted)


def assert_failed(endpoint: str, found: list[Fetched], reason: FailureReason) -> None:
    """The markets of the endpoint failed for this reason in every region, and gave no price; others were untouched."""
    source, markets = SOURCE_OF[endpoint]
    assert_no_wrong_price(found)
    assert not {key for key in prices(found) if key[4] in markets}
    said = [failure for failure in failures(found) if failure.reason is not R.NOT_CONFIGURED]
    assert {failure.reason for failure in said} == {reason}
    assert {failure.market for failure in said} <= {*markets, None}
    assert all(failure.detail for failure in said)
    others = {key for key in expected() if key[0] == source.NAME and key[4] not in markets}
    if endpoint != "bulk":
        assert others <= set(prices(found))


def test_throttled_twice_with_retry_after_then_read_right(clouds: Clouds) -> None:
    for endpoint in ENDPOINTS:
        status = {"ec2": 503, "bulk": 503}.get(endpoint, 429)
        answer = {
            "pricing": instead(sky.aws_refusal("ThrottlingException")),
            "ec2": instead(sky.ec2_refusal("RequestLimitExceeded", 503, **{"Retry-After": "1"})),
        }.get(endpoint, refused(status, **{"Retry-After": "1"}))
        found = fetched(clouds, endpoint, first(2, answer))
        assert right_prices(endpoint, found), endpoint
        assert [f for f in failures(found) if f.reason is not R.NOT_CONFIGURED] == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_throttled_for_ever_is_reported_as_throttled(clouds: Clouds, endpoint: str) -> None:
    answer = {
        "pricing": instead(sky.aws_refusal("ThrottlingException")),
        "ec2": instead(sky.ec2_refusal("RequestLimitExceeded", 503)),
    }.get(endpoint, refused(429, **{"Retry-After": "Tue, 15 Sep 2026 12:00:01 GMT"}))
    assert_failed(endpoint, fetched(clouds, endpoint, answer), R.THROTTLED)


def test_retry_after_is_honoured_up_to_the_cap(clouds: Clouds) -> None:
    clouds.azure.faults.append(first(1, refused(429, **{"Retry-After": "3600"})))
    began = time.monotonic()
    found = everything(azure, clouds.settings(backoff_cap_s=0.3), Wanted(regions=("eastus",)))
    assert 0.3 <= time.monotonic() - began < 3.0
    assert failures(found) == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_one_server_error_is_tried_again(clouds: Clouds, endpoint: str) -> None:
    found = fetched(clouds, endpoint, first(1, refused(500)))
    assert right_prices(endpoint, found)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_server_errors_for_ever_are_reported(clouds: Clouds, endpoint: str) -> None:
    assert_failed(endpoint, fetched(clouds, endpoint, refused(502)), R.SERVER_ERROR)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("fault", [cut_off, cut_short, cut_gzip], ids=lambda fault: fault.__name__)
def test_a_body_cut_off_is_a_failed_page_that_is_tried_again(clouds: Clouds, endpoint: str, fault: Fault) -> None:
    found = fetched(clouds, endpoint, first(1, fault))
    assert right_prices(endpoint, found)
    if endpoint != "bulk":
        assert failures(found) == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("fault", [cut_off, cut_short, cut_gzip], ids=lambda fault: fault.__name__)
def test_bodies_cut_off_for_ever_are_malformed_and_never_a_short_list(
    clouds: Clouds, endpoint: str, fault: Fault
) -> None:
    found = fetched(clouds, endpoint, fault)
    assert_failed(endpoint, found, R.MALFORMED)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_web_page_with_status_200_is_not_the_api(clouds: Clouds, endpoint: str) -> None:
    assert_failed(endpoint, fetched(clouds, endpoint, web_page), R.NOT_THE_API)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_redirect_to_another_host_is_not_followed(clouds: Clouds, endpoint: str) -> None:
    assert_failed(endpoint, fetched(clouds, endpoint, elsewhere), R.NOT_THE_API)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_server_that_says_nothing_is_a_timeout(clouds: Clouds, endpoint: str) -> None:
    began = time.monotonic()
    assert_failed(endpoint, fetched(clouds, endpoint, hang), R.TIMEOUT)
    assert time.monotonic() - began < 12.0


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_connection_cut_is_unreachable(clouds: Clouds, endpoint: str) -> None:
    assert_failed(endpoint, fetched(clouds, endpoint, reset), R.UNREACHABLE)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_nobody_listening_is_unreachable(clouds: Clouds, endpoint: str) -> None:
    field = {
        "pricing": "aws_pricing_url",
        "ec2": "aws_ec2_url",
        "bulk": "aws_bulk_url",
        "billing": "gcp_billing_endpoint",
        "compute": "gcp_compute_endpoint",
        "azure": "azure_retail_url",
    }[endpoint]
    settings = clouds.settings(credentials=endpoint != "bulk")
    nowhere: SourceSettings = dataclasses.replace(settings, **{field: "http://127.0.0.1:9"})  # type: ignore[arg-type]
    assert_failed(endpoint, everything(SOURCE_OF[endpoint][0], nowhere, WANTED), R.UNREACHABLE)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_byte_now_and_then_runs_into_the_deadline_of_wall_clock(clouds: Clouds, endpoint: str) -> None:
    began = time.monotonic()
    assert_failed(endpoint, fetched(clouds, endpoint, drip, deadline_s=4.0), R.TIMEOUT)
    assert time.monotonic() - began < 25.0


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("fault", [bomb, huge], ids=lambda fault: fault.__name__)
def test_a_body_that_unfolds_beyond_the_limit_is_dropped(clouds: Clouds, endpoint: str, fault: Fault) -> None:
    found = fetched(clouds, endpoint, fault, read_timeout_s=10.0, deadline_s=60.0)
    if endpoint == "bulk":  # an offer file may be hundreds of MB: its lines are read one by one
        assert {f.reason for f in failures(found)} <= {R.MALFORMED, R.NOT_THE_API, R.NOT_CONFIGURED}
        assert prices(found) == {}
    else:
        assert_failed(endpoint, found, R.MALFORMED)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_compressed_body_is_read(clouds: Clouds, endpoint: str) -> None:
    assert right_prices(endpoint, fetched(clouds, endpoint, compressed))


def test_a_clock_that_is_far_from_the_server_s_is_warned_of(clouds: Clouds, caplog: pytest.LogCaptureFixture) -> None:
    settings = dataclasses.replace(clouds.settings(), clock=lambda: AS_OF + timedelta(hours=2))
    for source, region in ((azure, "eastus"), (gcp, "us-central1"), (aws, "eu-west-1")):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            everything(source, settings, Wanted(regions=(region,)))
        assert any("clock of" in record.message for record in caplog.records), source.NAME


def test_one_region_of_each_cloud_fails_alone(clouds: Clouds) -> None:
    clouds.ec2.faults.append(only(refused(500), lambda r: sky.signed_region(r) == "eu-west-1"))
    clouds.pricing.faults.append(only(refused(500), lambda r: sky.asked_region(r) == "us-west-2"))
    clouds.azure.faults.append(only(hang, lambda r: sky.azure_region(r) == "westeurope"))
    found = [each for source in (aws, azure) for each in everything(source, clouds.settings(), WANTED)]
    assert {(f.cloud, f.region, f.market) for f in failures(found)} == {
        ("aws", "eu-west-1", Market.SPOT),
        ("aws", "us-west-2", Market.ON_DEMAND),
        ("azure", "westeurope", Market.ON_DEMAND),
        ("azure", "westeurope", Market.SPOT),
    }
    missing = {key for key in expected() if key[0] != "gcp"} - set(prices(found))
    assert {(key[0], key[1], key[4]) for key in missing} == {
        ("aws", "eu-west-1", Market.SPOT),
        ("aws", "us-west-2", Market.ON_DEMAND),
        ("azure", "westeurope", Market.ON_DEMAND),
        ("azure", "westeurope", Market.SPOT),
    }


def test_a_home_region_that_hangs_does_not_hold_up_the_others(clouds: Clouds) -> None:
    clouds.ec2.faults.append(only(hang, lambda r: sky.signed_region(r) == "us-east-1"))
    found = everything(aws, clouds.settings(), WANTED)
    assert {(f.region, f.market, f.reason) for f in failures(found)} == {("us-east-1", Market.SPOT, R.TIMEOUT)}
    assert_no_wrong_price(found)


def test_the_advisor_s_failure_is_no_price_s(clouds: Clouds) -> None:
    clouds.advisor.faults.append(web_page)
    found = everything(aws, clouds.settings(), WANTED)
    (failure,) = failures(found)
    assert (failure.source, failure.prices, failure.reason) == ("aws:spot-advisor", False, R.NOT_THE_API)
    assert not [each for each in found if isinstance(each, InterruptionFact)]
    assert {key for key in expected() if key[0] == "aws"} <= set(prices(found))


def asks_with_a_token(request: Request) -> bool:
    return b"NextToken" in request.body or "pageToken" in request.query or "$skip" in request.query


TOKEN_FAULTS: dict[str, Fault] = {
    "pricing": instead(sky.aws_refusal("ExpiredNextTokenException")),
    "ec2": instead(sky.ec2_refusal("InvalidNextToken")),
    "billing": instead(sky.as_json({"error": {"code": 400, "message": "Page token is invalid or has expired."}}, 400)),
    "compute": instead(sky.as_json({"error": {"code": 400, "message": "Invalid value for field 'pageToken'"}}, 400)),
    "azure": refused(400),
}


@pytest.mark.parametrize("endpoint", TOKEN_FAULTS)
def test_a_page_token_that_expired_once_starts_the_listing_again(clouds: Clouds, endpoint: str) -> None:
    count = 0

    def once(request: Request, good: sky.Reply, n: int) -> sky.Reply | None:
        nonlocal count
        count += 1
        return TOKEN_FAULTS[endpoint](request, good, n) if count == 1 else None

    found = fetched(clouds, endpoint, only(once, asks_with_a_token))
    assert count > 1
    assert right_prices(endpoint, found)
    assert failures(found) == []


@pytest.mark.parametrize("endpoint", TOKEN_FAULTS)
def test_a_page_token_that_expires_always_is_a_paging_failure(clouds: Clouds, endpoint: str) -> None:
    found = fetched(clouds, endpoint, only(TOKEN_FAULTS[endpoint], asks_with_a_token))
    assert_no_wrong_price(found)
    assert {f.reason for f in failures(found)} == {R.PAGING}


def failure_of(found: list[Fetched], market: Market | None = None) -> Failure:
    said = [f for f in failures(found) if market is None or f.market is market]
    assert said
    return said[0]


def test_a_missing_right_is_named(clouds: Clouds) -> None:
    clouds.pricing.faults.append(instead(sky.aws_refusal("AccessDeniedException")))
    clouds.ec2.faults.append(
        only(instead(sky.ec2_refusal("UnauthorizedOperation", 403)), lambda r: "SpotPrice" in r.form["Action"])
    )
    found = everything(aws, clouds.settings(), WANTED)
    assert {f.reason for f in failures(found)} == {R.PERMISSION}
    assert "pricing:GetProducts" in failure_of(found, Market.ON_DEMAND).detail
    assert "ec2:DescribeSpotPriceHistory" in failure_of(found, Market.SPOT).detail
    clouds.compute.faults.append(refused(403))
    failure = failure_of(everything(gcp, clouds.settings(), WANTED))
    assert failure.reason is R.PERMISSION
    assert "compute.machineTypes.list" in failure.detail


def test_a_region_that_is_off_is_not_bad_keys(clouds: Clouds) -> None:
    clouds.ec2.faults.append(
        only(instead(sky.ec2_refusal("AuthFailure", 401)), lambda r: sky.signed_region(r) == "eu-west-1")
    )
    found = everything(aws, clouds.settings(), WANTED)
    assert [(f.region, f.market, f.reason) for f in failures(found)] == [("eu-west-1", Market.SPOT, R.REGION_OFF)]
    assert len(clouds.ec2.requests) < 20, "a region that is off is not asked again and again"


def test_keys_that_sts_refuses_are_bad_in_all_regions(clouds: Clouds) -> None:
    clouds.ec2.faults.append(instead(sky.ec2_refusal("AuthFailure", 401)))
    clouds.sts.faults.append(instead(sky.ec2_refusal("InvalidClientTokenId", 403)))
    found = everything(aws, clouds.settings(), Wanted(interruptions=False))
    (failure,) = failures(found)
    assert (failure.region, failure.market, failure.reason) == (None, None, R.CREDENTIALS)


def test_keys_that_ec2_alone_refuses_leave_the_price_list(clouds: Clouds) -> None:
    clouds.ec2.faults.append(instead(sky.ec2_refusal("AuthFailure", 401)))
    found = everything(aws, clouds.settings(), WANTED)
    assert {(f.market, f.reason) for f in failures(found)} == {(Market.SPOT, R.PERMISSION)}
    assert right_prices("pricing", found)


@pytest.mark.parametrize("code", ["ExpiredToken", "RequestExpired", "SignatureDoesNotMatch"])
def test_expired_credentials_or_a_clock_off_fail_all_regions(clouds: Clouds, code: str) -> None:
    clouds.ec2.faults.append(instead(sky.ec2_refusal(code, 403)))
    (failure,) = failures(everything(aws, clouds.settings(), Wanted(interruptions=False)))
    assert (failure.region, failure.reason) == (None, R.CREDENTIALS)
    assert code in failure.detail


def test_google_s_401_is_about_credentials(clouds: Clouds) -> None:
    clouds.billing.faults.append(refused(401))
    found = everything(gcp, clouds.settings(), WANTED)
    assert {f.reason for f in failures(found)} == {R.CREDENTIALS}
