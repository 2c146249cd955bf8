"""What every answer carries, and what a body may not be."""

from __future__ import annotations

import json
import re
import time

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.limits import depth_of
from api.settings import Settings

from .test_problems import problem


@pytest.mark.parametrize("path", ["/v1/gpus", "/healthz", "/nothing", "/docs", "/", "/v1/cell", "/static/page.css"])
def test_every_answer_has_an_id_and_keeps_browsers_careful(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert re.fullmatch(r"[0-9a-f]{32}", headers["x-request-id"])
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_id_of_a_request_is_kept_and_told_in_its_problem(client: TestClient) -> None:
    answer = client.get("/nothing", headers={"x-request-id": "build-17.3_a"})
    assert answer.headers["x-request-id"] == problem(answer)["request_id"] == "build-17.3_a"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a\tb", "<script>", "é"])
def test_an_id_that_is_none_is_replaced(client: TestClient, given: str) -> None:
    answer = client.get("/healthz", headers={b"x-request-id": given.encode()})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])


def test_even_a_fault_is_answered_in_full(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("api.routes.catalogue.gpus", broken)
    answer = TestClient(create_app(settings), raise_server_exceptions=False).get("/v1/gpus")
    body = problem(answer)
    assert body["status"] == 500
    assert body["request_id"] == answer.headers["x-request-id"]
    assert "secret" not in answer.text


def test_problems_are_not_kept_by_caches(client: TestClient) -> None:
    assert client.get("/nothing").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("{}", 1),
        ("[[[]]]", 3),
        ('{"a": "[[[[[["}', 1),
        (r'{"a": "\"[[[["}', 1),
        (r'["\\", [[]]]', 3),
        ('"[[[[', 0),
        ("", 0),
    ],
)
def test_depth_counts_brackets_outside_of_strings(text: str, depth: int) -> None:
    assert depth_of(text.encode(), -1) == depth


def test_a_deep_body_is_refused_before_it_is_parsed(client: TestClient) -> None:
    deep = '{"model": "llama3-8b", "hf_config": ' + '{"a": ' * 500 + "1" + "}" * 501
    body = problem(client.post("/v1/plan", content=deep, headers={"content-type": "application/json"}))
    assert (body["status"], body["type"]) == (422, "urn:estimator:problem:too-deep")


def test_the_depth_of_the_worst_bodies_is_found_in_linear_time() -> None:
    for body in (b'"' * 4_000_000 + b"[" * 100, b"[" * 4_000_000, b'"\\' * 2_000_000 + b"[" * 100, b'"[' * 2_000_000):
        began = time.process_time()
        depth_of(body, 64)
        assert time.process_time() - began < 5  # quadratic would be hours


def test_a_name_in_a_problem_cannot_become_markup(client: TestClient) -> None:
    evil = "<script>alert(1)</script>"
    for answer in (
        client.post("/v1/plan", json={"model": evil, "tokens": 5}),
        client.get(f"/v1/{evil}"),
        client.get("/v1/gpus", params={evil: evil}),
    ):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert json.loads(answer.text)
    assert evil not in client.get("/", params={"model": evil}).text


@pytest.mark.parametrize(
    "change",
    [
        {"own": [{"name": f"m{n}", "gpu": "T4"} for n in range(101)]},
        {"constraints": {"gpus": [f"H100:{n}" for n in range(1, 102)]}},
        {"options": {"top": 1001}},
    ],
)
def test_a_request_cannot_ask_for_unbounded_work(client: TestClient, change: dict[str, object]) -> None:
    body = problem(client.post("/v1/plan", json={"model": "llama3-8b", "tokens": "1M"} | change))
    assert body["status"] == 422
    assert "at most" in str(body["detail"])
