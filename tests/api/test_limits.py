from __future__ import annotations

from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings


def test_a_body_above_the_limit_is_413_even_without_a_stated_length() -> None:
    client = TestClient(create_app(Settings(max_body_bytes=100)))
    stated = client.post("/v1/plan", content=b"x" * 101)
    streamed = client.post("/v1/plan", content=iter([b"x" * 60, b"x" * 60]))
    for answer in (stated, streamed):
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert "100 bytes" in answer.json()["detail"]


def test_a_stated_length_above_the_limit_is_refused_before_the_body_comes() -> None:
    client = TestClient(create_app(Settings(max_body_bytes=100)))
    answer = client.post("/v1/plan", content=b"{}", headers={"content-length": "9" * 30})
    assert answer.status_code == 413


def test_a_body_at_the_limit_is_read() -> None:
    client = TestClient(create_app(Settings(max_body_bytes=100)))
    assert client.post("/v1/plan", content=b"x" * 100).status_code != 413
