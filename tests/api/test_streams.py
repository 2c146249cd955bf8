"""Long answers: events with progress, batches, budgets of time."""

from __future__ import annotations

import asyncio
import json
import time
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.planners import Planners
from api.problems import Refusal
from api.settings import Settings

from .conftest import NOW
from .test_problems import problem

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"gpus": ["H100:8"]}}


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in blocks]


@pytest.mark.parametrize("path", ["plan", "estimate"])
def test_an_answer_as_events_ends_with_the_document(client: TestClient, path: str) -> None:
    answer = client.post(f"/v1/{path}", json=LORA, headers={"accept": "text/event-stream"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    *progress, (kind, document) = events(answer.text)
    assert {kind for kind, _ in progress} == {"progress"}
    assert set(progress[0][1]) == {"stage", "elapsed_seconds"}
    assert kind == "result"
    assert document == client.post(f"/v1/{path}", json=LORA).json()


def test_a_failure_in_a_stream_is_an_event_with_its_problem(client: TestClient) -> None:
    answer = client.post(
        "/v1/estimate", json={"model": "resnet50", "images": 9}, headers={"accept": "text/event-stream"}
    )
    kind, document = events(answer.text)[-1]
    assert (kind, document["status"], document["field"]) == ("problem", 422, "gpus")
    assert document["request_id"]


def test_an_answer_that_takes_too_long_is_503_and_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.plan.plan", lambda *_, **__: time.sleep(0.5))
    app = create_app(Settings(now=NOW, offline=True, request_seconds=0.1))
    client = TestClient(app, raise_server_exceptions=False)
    answer = client.post("/v1/plan", json=LORA)
    body = problem(answer)
    assert (body["status"], body["type"]) == (503, "urn:estimator:problem:time-budget")
    assert answer.headers["retry-after"] == "10"
    kind, document = events(client.post("/v1/plan", json=LORA, headers={"accept": "text/event-stream"}).text)[-1]
    assert (kind, document["status"]) == ("problem", 503)


def test_work_that_was_given_up_keeps_its_thread_and_work_that_waits_is_dropped() -> None:
    hold, ran = Event(), []

    async def scene() -> None:
        planners = Planners(1, seconds=0.05, waiting=1)
        with pytest.raises(Refusal, match="not done within"):
            await planners.run(hold.wait, 10)
        with pytest.raises(Refusal, match="not done within"):
            await planners.run(ran.append, "waited behind the first")
        await asyncio.sleep(0)  # what was given up leaves the queue
        waits = planners.start(lambda: ran.append("waits"))
        with pytest.raises(Refusal, match="too many"):
            planners.start(lambda: ran.append("one too many"))
        hold.set()
        await waits

    asyncio.run(scene())
    assert ran == ["waits"]


def test_a_client_that_leaves_stops_the_work_at_its_next_step() -> None:
    from api.streams import Cancelled, Steps

    steps = Steps()
    steps.reach("prices")
    steps.stop()
    with pytest.raises(Cancelled):
        steps.reach("planning")
    assert steps.stage == "prices"


BATCH = [
    LORA | {"name": "good"},
    LORA | {"model": "llama3-8bb"},
    {"model": 5},
    LORA | {"constraints": {"budget": 0.001}},
]


def test_a_batch_answers_each_workload_by_itself_and_in_order(client: TestClient) -> None:
    answer = client.post("/v1/batch", json={"workloads": BATCH})
    document = answer.json()
    assert (document["answered"], document["failed"]) == (2, 2)
    good, unknown, wrong, nothing = document["results"]
    assert [item["index"] for item in document["results"]] == [0, 1, 2, 3]
    assert (good["name"], good["problem"], len(good["plan"]["plans"])) == ("good", None, 1)
    assert (unknown["plan"], unknown["problem"]["field"], unknown["problem"]["status"]) == (None, "model", 422)
    assert wrong["problem"]["status"] == 422
    assert (nothing["problem"], nothing["plan"]["plans"], nothing["plan"]["binding"]) == (None, [], "budget")


def test_a_plan_of_a_batch_is_the_plan_of_a_request(client: TestClient) -> None:
    alone = client.post("/v1/plan", json=LORA | {"options": {"top": 3}}).json()
    batched = client.post("/v1/batch", json={"workloads": [LORA], "top": 3}).json()["results"][0]["plan"]
    assert batched == alone


def test_a_batch_comes_as_lines_where_asked_for(client: TestClient) -> None:
    answer = client.post("/v1/batch", json={"workloads": BATCH}, headers={"accept": "application/x-ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    whole = client.post("/v1/batch", json={"workloads": BATCH}).json()["results"]
    for line, item in zip(lines, whole, strict=True):
        assert (line["index"], line["plan"]) == (item["index"], item["plan"])
        assert (line["problem"] is None) == (item["problem"] is None)


def test_a_batch_names_no_files_and_has_a_limit(client: TestClient) -> None:
    item = client.post("/v1/batch", json={"workloads": [{"hf_config": "/etc/passwd", "tokens": 5}]}).json()["results"][
        0
    ]
    assert item["problem"]["field"] == "hf_config"
    assert "root" not in str(item)
    small = TestClient(create_app(Settings(now=NOW, offline=True, max_batch=1)))
    assert problem(small.post("/v1/batch", json={"workloads": [LORA, LORA]}))["field"] == "workloads"
    assert problem(client.post("/v1/batch", json={"workloads": []}))["status"] == 422


def test_what_a_batch_does_not_reach_in_time_is_said_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.plan.plan", lambda *_, **__: time.sleep(0.2))
    client = TestClient(create_app(Settings(now=NOW, offline=True, request_seconds=0.1)), raise_server_exceptions=False)
    document = client.post("/v1/batch", json={"workloads": [LORA] * 3}).json()
    assert [item["problem"]["type"].rpartition(":")[2] for item in document["results"]] == ["time-budget"] * 3
