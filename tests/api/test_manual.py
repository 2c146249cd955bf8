from __future__ import annotations

import re

from fastapi.testclient import TestClient


def test_the_manual_shows_every_operation_and_fetches_nothing(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page.text
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page.text)
    assert "<script" not in page.text
    for field in ("constraints.deadline", "lora.rank", "own.usd_per_hour", "options.sort", "seq_len"):
        assert f"<code>{field}</code>" in page.text


def test_every_operation_has_a_stable_name_and_says_what_it_answers(client: TestClient) -> None:
    openapi = client.get("/openapi.json").json()
    assert openapi["openapi"].startswith("3.1")
    operations = [operation for item in openapi["paths"].values() for operation in item.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all(operation["description"] for operation in operations)
    assert {"list_gpus", "list_models", "list_instances", "list_offers", "list_benchmarks", "health"} <= set(names)


def test_every_example_of_the_openapi_document_is_answered(client: TestClient) -> None:
    sent = 0
    for path, item in client.get("/openapi.json").json()["paths"].items():
        body = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in body.get("examples", {}).values():
            answer = client.post(path, json=example["value"])
            assert answer.status_code == 200, answer.text
            assert example["summary"] in client.get("/docs").text
            sent += 1
    assert sent >= 4
