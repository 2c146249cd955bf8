"""Plans, estimates and offers by GET as CSV: stable columns, units in the headers, nothing that runs as a formula."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from estimator.flat import PLAN_CSV
from estimator.sheets.tables import OFFER_COLUMNS
from pricing.market import Market
from pricing.store import Store
from tests.api.conftest import NOW
from tests.pricing.sets import price_set

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M"}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_table_of_plans_has_the_figures_of_the_document(client: TestClient) -> None:
    answer = client.get("/v1/plan.csv", params={**LORA, "top": "3", "market": "spot"})
    assert answer.headers["content-type"].startswith("text/csv")
    found = rows(answer.text)
    body = {**LORA, "constraints": {"markets": ["spot"]}, "options": {"top": 3}}
    plans = client.post("/v1/plan", json=body).json()["plans"]
    assert [float(row["cost_usd_p50"]) for row in found] == [plan["cost_usd"]["p50"] for plan in plans]
    assert [row["instance_type"] for row in found] == [plan["instance_type"] for plan in plans]
    assert list(found[0]) == list(PLAN_CSV)


def test_the_columns_stay_where_no_plan_exists(client: TestClient) -> None:
    answer = client.get("/v1/plan.csv", params={**LORA, "deadline": "1 minute"})
    assert (answer.status_code, rows(answer.text)) == (200, [])
    assert answer.text.rstrip().split(",") == list(PLAN_CSV)
    assert answer.headers["x-binding"] == "deadline"


def test_a_comparison_is_in_the_order_asked_and_says_what_was_refused(client: TestClient) -> None:
    answer = client.get("/v1/estimate.csv", params={"model": "resnet50", "images": "50k", "gpu": "V100:1,GTX-1080Ti"})
    assert [row["gpu"] for row in rows(answer.text)] == ["V100-SXM2-16GB", "GTX-1080Ti"]
    tight = {"model": "gpt3-175b", "method": "full", "tokens": "1M", "gpu": "T4:1"}
    (refused,) = rows(client.get("/v1/estimate.csv", params=tight).text)
    assert refused["error"]
    assert refused["cost_usd_p50"] == ""


def test_an_estimate_on_spot_follows_the_history_of_its_zone_as_a_plan_does(tmp_path: Path) -> None:
    store, place = Store(str(tmp_path / "prices.db")), "p4d.24xlarge@us-east-1a"
    for day in range(20):
        at = NOW - timedelta(days=20 - day)
        store.switch(price_set({place: 5.0 * 1.05**day}, market=Market.SPOT, at=at))
    client = TestClient(create_app(Settings(now=NOW, data_dir=tmp_path)))
    limits = {"markets": ["spot"], "gpus": ["A100-40GB:8"], "regions": ["us-east-1"]}
    (found,) = client.post("/v1/estimate", json={**LORA, "constraints": limits}).json()["estimates"]
    assert found["price"]["path"]["observations"] == 20
    flat = {**LORA, "market": "spot", "gpu": "A100-40GB:8", "region": "us-east-1"}
    (row,) = rows(client.get("/v1/estimate.csv", params=flat).text)
    assert float(row["cost_usd_p50"]) == found["cost_usd"]["p50"]


@pytest.mark.parametrize(
    ("path", "asked", "field"),
    [
        ("/v1/estimate.csv", {"gpu": ",".join(["T4:1"] * 101)}, "constraints.gpus"),
        ("/v1/plan.csv", {"top": "1001"}, "options.top"),
    ],
)
def test_a_table_asks_for_no_more_than_a_document_may(
    client: TestClient, path: str, asked: dict[str, str], field: str
) -> None:
    answer = client.get(path, params={**LORA, **asked})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_the_table_of_offers_is_whole(client: TestClient) -> None:
    found = rows(client.get("/v1/offers.csv", params={"cloud": "aws"}).text)
    listing = client.get("/v1/offers", params={"cloud": "aws"}).json()
    assert len(found) == listing["total"]
    assert list(found[0]) == list(OFFER_COLUMNS)
    first = listing["offers"][0]
    assert any(
        row["instance_type"] == first["instance_type"]
        and row["region"] == first["region"]
        and float(row["price_usd_per_hour"]) == first["price_usd_per_hour"]
        for row in found
    )


@pytest.mark.parametrize("path", ["plan.csv", "estimate.csv", "offers.csv"])
def test_lines_end_as_the_standard_says_and_the_mark_comes_on_request(client: TestClient, path: str) -> None:
    asked = {} if path == "offers.csv" else {**LORA, "gpu": "H100:1"}
    plain = client.get(f"/v1/{path}", params=asked).content
    assert plain.count(b"\r\n") == plain.count(b"\n")
    assert client.get(f"/v1/{path}", params={**asked, "bom": "1"}).content == b"\xef\xbb\xbf" + plain


def test_a_wrong_parameter_is_a_problem_document_here(client: TestClient) -> None:
    answer = client.get("/v1/plan.csv", params={**LORA, "gpu": "H1000"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
