from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from api.pages import decode_cursor, encode_cursor
from benchmarks_db.gpus import gpus
from benchmarks_db.models import models
from pricing.instances import instance_types

LISTINGS = ("gpus", "models", "instances", "offers", "benchmarks")
CONTRACT_OFFER = {
    "cloud", "region", "zone", "zone_id", "instance_type", "market", "gpu", "gpus_per_node", "price_usd_per_hour",
    "source", "observed_at", "state",
}  # fmt: skip


def every_row(client: TestClient, listing: str, **filters: object) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get(f"/v1/{listing}", params={**filters, **cursor}).json()
        rows += page[listing]
        if page["next"] is None:
            assert len(rows) == page["total"]
            return rows
        cursor = {"cursor": page["next"]}


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_listing_is_a_versioned_page(client: TestClient, listing: str) -> None:
    answer = client.get(f"/v1/{listing}", params={"limit": 3})
    assert answer.status_code == 200
    page = answer.json()
    assert page["version"] == "1"
    assert len(page[listing]) == 3
    assert page["total"] > 3
    assert page["next"]


@pytest.mark.parametrize(("listing", "limit"), [("gpus", 7), ("instances", 50), ("offers", 500)])
def test_the_pages_of_a_listing_hold_every_row_once(client: TestClient, listing: str, limit: int) -> None:
    paged = every_row(client, listing, limit=limit)
    whole = every_row(client, listing, limit=1000)
    assert paged == whole
    assert len({repr(row) for row in whole}) == len(whole)


def test_the_listings_are_the_facts(client: TestClient) -> None:
    assert {row["name"] for row in every_row(client, "gpus")} == set(gpus())
    assert {row["name"] for row in every_row(client, "models", limit=1000)} == set(models())
    listed = {(row["cloud"], row["instance_type"]) for row in every_row(client, "instances", limit=1000)}
    assert listed == set(instance_types())


def test_patterns_choose_rows_in_any_case(client: TestClient) -> None:
    names = {row["name"] for row in every_row(client, "gpus", name="a100*")}
    assert names == {name for name in gpus() if name.startswith("A100")}
    regions = {row["region"] for row in every_row(client, "offers", cloud="AWS", region="us-*", limit=1000)}
    assert regions
    assert all(str(region).startswith("us-") for region in regions)


@pytest.mark.parametrize("listing", ["offers", "instances", "benchmarks"])
def test_a_gpu_is_named_as_people_write_it_with_its_count(listing: str, client: TestClient) -> None:
    rows = every_row(client, listing, gpu="h100:8", limit=1000)
    assert rows
    assert all(str(row["gpu"]).startswith("H100") for row in rows)
    assert {row["gpus_per_node" if listing == "offers" else "gpus"] for row in rows} == {8}
    assert len(every_row(client, listing, gpu="H100", limit=1000)) > len(rows)
    assert client.get("/v1/offers.csv", params={"gpu": "H100:8"}).text.count("\n") > 1


def test_a_gpu_that_is_not_planned_or_not_known_is_refused_by_name(client: TestClient) -> None:
    for name in ("Gaudi2", "H1000"):
        answer = client.get("/v1/offers", params={"gpu": name})
        assert answer.status_code == 422
        assert answer.json()["field"] == "gpu"
        assert name in answer.json()["detail"]


def test_a_pattern_that_matches_nothing_is_an_empty_page(client: TestClient) -> None:
    page = client.get("/v1/models", params={"name": "no-such-*"}).json()
    assert (page["models"], page["total"], page["next"]) == ([], 0, None)


def test_gpus_are_found_by_any_of_their_names_and_a_miss_names_the_nearest(client: TestClient) -> None:
    page = client.get("/v1/gpus", params={"name": "a100 80gb"}).json()
    assert [row["name"] for row in page["gpus"]] == ["A100-PCIE-80GB", "A100-SXM4-80GB"]
    rows = client.get("/v1/benchmarks", params={"gpu": "a100 80gb", "limit": 1000}).json()["benchmarks"]
    assert {"A100-SXM4-80GB", "A100-80GB"} <= {row["gpu"] for row in rows}
    refused = client.get("/v1/gpus", params={"name": "H10O"})
    assert refused.status_code == 422
    assert "H100" in str(refused.json()["nearest"])


def test_offers_are_priced_unless_all_are_asked_for(client: TestClient) -> None:
    priced = every_row(client, "offers", limit=1000)
    everything = every_row(client, "offers", limit=1000, all="true")
    assert set(priced[0]) >= CONTRACT_OFFER
    assert all(row["price_usd_per_hour"] is not None and row["gpu"] is not None for row in priced)
    assert len(everything) > len(priced)
    unpriced = [row for row in everything if row["price_usd_per_hour"] is None]
    assert unpriced
    assert {row["state"] for row in unpriced} == {"unpriced"}
    assert {row["cloud"] for row in priced} == {"aws", "gcp", "azure"}


def test_trainium_machines_are_listed_when_asked_for(client: TestClient) -> None:
    usual = {row["gpu"] for row in every_row(client, "offers", limit=1000)}
    wider = {row["gpu"] for row in every_row(client, "offers", limit=1000, accelerators="any")}
    assert "Trainium1" not in usual
    assert wider > usual
    assert "Trainium1" in wider


def test_every_market_can_be_asked_for_alone(client: TestClient) -> None:
    for market in ("on-demand", "spot"):
        rows = every_row(client, "offers", market=market, limit=1000)
        assert {row["market"] for row in rows} == {market}


def test_measurements_are_listed_with_their_sources(client: TestClient) -> None:
    rows = client.get("/v1/benchmarks", params={"model": "resnet50", "gpu": "A100*", "limit": 1000}).json()[
        "benchmarks"
    ]
    assert rows
    assert all(row["source"] and row["throughput"] > 0 and row["unit"] for row in rows)


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_client_that_has_the_page_gets_304(client: TestClient, listing: str) -> None:
    first = client.get(f"/v1/{listing}", params={"limit": 5})
    tag = first.headers["etag"]
    again = client.get(f"/v1/{listing}", params={"limit": 5}, headers={"if-none-match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client.get(f"/v1/{listing}", params={"limit": 4}, headers={"if-none-match": tag})
    assert other.status_code == 200


@pytest.mark.parametrize(
    ("takes", "packing"), [("gzip", "gzip"), ("gzip, deflate, br", "br"), ("br;q=0, gzip", "gzip")]
)
def test_a_large_page_is_compressed_for_who_takes_it(client: TestClient, takes: str, packing: str) -> None:
    packed = client.get("/v1/gpus", headers={"accept-encoding": takes})
    plain = client.get("/v1/gpus", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == packing
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


@pytest.mark.parametrize("path", ["/v1/gpus", "/healthz", "/", "/docs", "/static/page.css", "/v1/schema/workload"])
def test_head_has_the_headers_of_get_and_no_body(client: TestClient, path: str) -> None:
    headers = {"accept-encoding": "identity"}
    whole, head = client.get(path, headers=headers), client.head(path, headers=headers)
    assert (head.status_code, head.content) == (200, b"")
    differ = {"x-request-id", "age"}
    assert {k: v for k, v in head.headers.items() if k not in differ} == {
        k: v for k, v in whole.headers.items() if k not in differ
    }


@pytest.mark.parametrize(("path", "allow"), [("/v1/gpus", "GET, HEAD, OPTIONS"), ("/v1/plan", "POST, OPTIONS")])
def test_options_names_the_methods_and_so_does_a_refusal(client: TestClient, path: str, allow: str) -> None:
    asked = client.options(path)
    assert (asked.status_code, asked.headers["allow"], asked.content) == (204, allow, b"")
    refused = client.delete(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allow)
    assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("cursor", ["nonsense", "", "W10x", "bnVsbA", "%ff", "WzFd"])
def test_a_cursor_that_no_page_gave_is_refused(client: TestClient, cursor: str) -> None:
    answer = client.get("/v1/gpus", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["field"] == "cursor"


def test_a_cursor_is_its_key() -> None:
    key = ("aws", "", "us-east-1", "ünïcode")
    assert decode_cursor(encode_cursor(key)) == key
