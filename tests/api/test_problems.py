from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from api.app import create_app
from api.settings import Settings
from benchmarks_db.errors import PricesUnavailable


def problem(answer: Response) -> dict[str, object]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["type"].startswith("urn:estimator:problem:")
    assert body["title"]
    assert body["detail"]
    return body


def test_an_unknown_page_names_the_nearest(client: TestClient) -> None:
    body = problem(client.get("/v1/gpu"))
    assert body["status"] == 404
    assert body["nearest"][0] == "/v1/gpus"
    assert body["instance"] == "/v1/gpu"


def test_no_answer_repeats_the_host_that_the_client_claims(client: TestClient) -> None:
    answer = client.get("/v1/gpus/", headers={"host": "elsewhere.example"}, follow_redirects=False)
    assert problem(answer)["status"] == 404
    assert "elsewhere" not in str(answer.headers) + answer.text


def test_a_method_that_a_page_lacks_names_the_one_it_has(client: TestClient) -> None:
    answer = client.put("/v1/gpus")
    assert problem(answer)["status"] == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


def test_an_unknown_parameter_names_the_nearest(client: TestClient) -> None:
    body = problem(client.get("/v1/offers", params={"reigon": "us-*"}))
    assert (body["status"], body["field"], body["nearest"][0]) == (422, "reigon", "region")


def test_a_value_outside_a_closed_vocabulary_names_the_nearest(client: TestClient) -> None:
    body = problem(client.get("/v1/offers", params={"market": "ondemand"}))
    assert (body["status"], body["field"], body["value"]) == (422, "market", "ondemand")
    assert body["nearest"] == ["on-demand"]


def test_every_wrong_parameter_is_listed(client: TestClient) -> None:
    body = problem(client.get("/v1/gpus", params={"limit": 0, "colour": "red"}))
    assert {error["field"] for error in body["errors"]} == {"limit", "colour"}


def test_a_fault_of_ours_tells_no_insides(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret at /some/path")

    monkeypatch.setattr("api.routes.catalogue.gpus", broken)
    answer = TestClient(create_app(settings), raise_server_exceptions=False).get("/v1/gpus")
    assert problem(answer)["status"] == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_missing_prices_are_503_and_not_ready(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").json()["offers"] > 1000

    def none(**_: object) -> None:
        raise PricesUnavailable("no price at all", field="max_age", value=1.0)

    monkeypatch.setattr("api.market.current_offers", none)
    client = TestClient(create_app(settings))
    body = problem(client.get("/readyz"))
    assert (body["status"], body["field"], body["type"]) == (503, "max_age", "urn:estimator:problem:prices-unavailable")
    assert client.get("/healthz").json() == {"status": "ok"}
