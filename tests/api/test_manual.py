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


def test_every_operation_has_an_example_that_is_answered(client: TestClient) -> None:
    for path, item in client.get("/openapi.json").json()["paths"].items():
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {})
            shown = {one["name"]: one["example"] for one in operation.get("parameters", []) if "example" in one}
            if method == "get":
                answers = operation["responses"]["200"].get("content", {}).values()
                assert shown or any("example" in answer for answer in answers), operation["operationId"]
                answer = client.get(path, params=shown)
                assert answer.status_code == 200, answer.text
                assert "#ERROR" not in answer.text
            else:
                assert any("examples" in kind or "example" in kind for kind in body.values()), operation["operationId"]


def test_the_example_of_a_sheet_is_filled(client: TestClient) -> None:
    sheet = client.get("/openapi.json").json()["paths"]["/v1/sheet"]["post"]["requestBody"]["content"]["text/csv"]
    answer = client.post("/v1/sheet", content=sheet["example"], headers={"content-type": "text/csv"})
    assert (answer.status_code, answer.headers["x-rows-with-error"]) == (200, "0")


def test_the_ids_of_the_operations_do_not_change(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    found = {op["operationId"]: f"{method} {path}" for path, item in paths.items() for method, op in item.items()}
    assert (
        found.items()
        >= {
            "plan": "post /v1/plan",
            "estimate": "post /v1/estimate",
            "predict": "post /v1/predict",
            "batch": "post /v1/batch",
            "list_gpus": "get /v1/gpus",
            "list_models": "get /v1/models",
            "list_instances": "get /v1/instances",
            "list_offers": "get /v1/offers",
            "list_benchmarks": "get /v1/benchmarks",
            "price_history": "get /v1/prices/history",
            "workload_schema": "get /v1/schema/workload",
            "cell": "get /v1/cell",
            "cell_xml": "get /v1/cell.xml",
            "plan_csv": "get /v1/plan.csv",
            "estimate_csv": "get /v1/estimate.csv",
            "offers_csv": "get /v1/offers.csv",
            "fill_sheet": "post /v1/sheet",
            "health": "get /healthz",
            "readiness": "get /readyz",
        }.items()
    )


def test_the_published_schema_is_that_of_the_request(client: TestClient) -> None:
    answer = client.get("/v1/schema/workload")
    assert answer.headers["content-type"] == "application/schema+json"
    schema = answer.json()
    assert schema["$schema"].endswith("2020-12/schema")
    assert {"model", "tokens", "constraints", "own"} <= set(schema["properties"])
    again = client.get("/v1/schema/workload", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
