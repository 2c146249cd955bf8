from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from api.market import Prices
from api.settings import Settings
from estimator import Workload, plan

from .conftest import NOW
from .test_problems import problem

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}
PLAN_KEYS = {
    "rank", "cloud", "region", "zone", "instance_type", "market", "nodes", "gpu", "gpus", "layout", "throughput", "mfu",
    "bound_by", "breakdown_ms", "hours", "cost_usd", "price", "memory_gib", "evidence", "pareto", "warnings",
}  # fmt: skip


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def send(client: TestClient, body: str, kind: str = "application/json") -> Response:
    return client.post("/v1/plan", content=body.encode(), headers={"content-type": kind})


def test_a_plan_has_the_shape_of_the_contract(client: TestClient) -> None:
    document = ask(client, "plan", **LORA)
    assert {"version", "currency", "workload", "plans", "rejected", "binding", "warnings"} <= set(document)
    assert (document["version"], document["currency"], document["binding"]) == ("1", "USD", None)
    assert document["plans"]
    for rank, entry in enumerate(document["plans"], start=1):
        assert set(entry) >= PLAN_KEYS
        assert entry["rank"] == rank
        assert 0 < entry["hours"]["p10"] <= entry["hours"]["p50"] <= entry["hours"]["p90"]


def test_the_answer_is_the_one_of_the_domain_function(client: TestClient, settings: Settings) -> None:
    document = plan(Workload(**LORA), offers=Prices(settings).table(NOW), now=NOW)
    assert ask(client, "plan", **LORA) == document.model_dump(mode="json")


def test_a_request_that_nothing_satisfies_is_answered_with_reasons(client: TestClient) -> None:
    document = ask(client, "plan", **LORA, constraints={"budget": 0.01})
    assert document["plans"] == []
    assert document["binding"] == "budget"
    assert sum(document["rejected"].values()) > 0
    assert document["hints"]


def test_an_estimate_answers_for_each_gpu_in_order(client: TestClient) -> None:
    document = ask(client, "estimate", model="resnet50", images="50k", constraints={"gpus": ["RTX-3080", "GTX-1080Ti"]})
    assert [entry["gpu"] for entry in document["estimates"]] == ["RTX-3080", "GTX-1080Ti"]


@pytest.mark.parametrize(
    ("change", "field", "nearest"),
    [
        ({"model": "llama3-8bb"}, "model", "llama3-8b"),
        ({"tokenz": 5}, "tokenz", "tokens"),
        ({"precision": "bf61"}, "precision", "bf16"),
        ({"constraints": {"deadlin": "4h"}}, "constraints.deadlin", "deadline"),
        ({"constraints": {"gpus": ["H1000"]}}, "constraints.gpus", "h100"),
        ({"own": [{"name": "lab", "gpu": "RTX-390"}]}, "own.0.gpu", "rtx-3090"),
        ({"micro_batch": 128}, "micro_batch", "64"),
    ],
)
def test_a_wrong_field_is_named_with_the_nearest_that_exists(
    client: TestClient, change: dict[str, Any], field: str, nearest: str
) -> None:
    body = problem(client.post("/v1/plan", json=LORA | change))
    assert body["status"] == 422
    assert str(body["field"]).startswith(field)
    assert nearest in str(body["nearest"]).lower()


def test_every_wrong_field_is_listed(client: TestClient) -> None:
    body = problem(client.post("/v1/plan", json=LORA | {"epochs": -1, "seq_len": 0, "optimizer": "magic"}))
    assert {error["field"] for error in body["errors"]} == {"epochs", "seq_len", "optimizer"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        '"llama3-8b"',
        "[" * 100_000,
        '{"model": "llama3-8b", "tokens": NaN}',
        '{"model": "llama3-8b", "tokens": Infinity}',
        '{"model": "llama3-8b", "tokens": 1e400}',
        '{"model": "llama3-8b", "tokens": ' + "9" * 5000 + "}",
        '{"model": "llama3-8b", "tokens": -5}',
        '{"model": "llama3-8b", "tokens": 1e30}',
        '{"model": "\\ud800", "tokens": 5}',
        '{"model": "llama3-8b", "tokens": 5, "\\ud800": 1}',
        '{"model": "\\u0000", "tokens": 5}',
        '{"model": "' + "a" * 100_000 + '", "tokens": 5}',
        '{"model": "llama3-8b", "tokens": 5, "own": [{"name": "=cmd()", "gpu": "nothing"}]}',
        '{"hf_config": {"model_type": "llama", "hidden_size": [[]]}, "tokens": 5}',
    ],
)
def test_nonsense_is_a_problem_and_never_a_fault(client: TestClient, body: str) -> None:
    answer = send(client, body)
    assert answer.status_code in (400, 422), answer.text
    assert len(answer.content) < 10_000
    problem(answer)


def test_a_body_of_another_kind_is_415_and_says_what_to_send(client: TestClient) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        body = problem(send(client, json.dumps(LORA), kind))
        assert body["status"] == 415
        assert "application/json" in str(body["detail"])


def test_no_file_that_a_request_names_is_opened(client: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "config.json"
    secret.write_text('{"model_type": "llama", "secret": "do not tell"}')
    body = problem(client.post("/v1/plan", json={"hf_config": str(secret), "tokens": "1M"}))
    assert (body["status"], body["field"]) == (422, "hf_config")
    assert "do not tell" not in str(body)
    body = problem(client.post("/v1/plan", json=LORA | {"measured": [str(secret)]}))
    assert (body["status"], body["field"]) == (422, "measured")


def test_trainium_is_planned_only_when_asked_for(client: TestClient) -> None:
    request = {"model": "bert-large", "samples": "88k", "constraints": {"instance_types": ["trn1*"]}}
    assert ask(client, "plan", **request)["plans"] == []
