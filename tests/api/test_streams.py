"""Long answers: events with progress, batches, budgets of time."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.planners import Planners
from api.problems import Refusal
from api.settings import Settings
from api.streams import Cancelled
from estimator import plan
from estimator.documents import PlanDocument
from estimator.planning.steps import STAGES

from .conftest import NOW, serving
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
    assert all(set(told) == {"stage", "done", "of", "elapsed_seconds"} for _, told in progress)
    assert kind == "result"
    assert document == client.post(f"/v1/{path}", json=LORA).json()


def test_a_failure_in_a_stream_is_an_event_with_its_problem(client: TestClient) -> None:
    answer = client.post(
        "/v1/estimate", json={"model": "resnet50", "images": 9}, headers={"accept": "text/event-stream"}
    )
    kind, document = events(answer.text)[-1]
    assert (kind, document["status"], document["field"]) == ("problem", 422, "constraints.gpus")
    assert document["request_id"]


def test_an_answer_that_takes_too_long_is_503_and_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.plan_cache.plan", lambda *_, **__: time.sleep(0.5))
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


def test_the_stages_of_a_plan_are_told_while_it_is_made(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*asked: Any, told: Any, **given: Any) -> Any:
        def heard(stage: str, done: int, whole: int) -> None:
            told(stage, done, whole)
            if (stage, done) != ("plans", 1):  # one plan is enough to see
                time.sleep(0.25 if stage != "plans" or done == 0 else 0)

        return plan(*asked, told=heard, **given)

    monkeypatch.setattr("api.plan_cache.plan", slowly)
    new = LORA | {"tokens": "51M"}  # what was asked before is answered from memory
    answer = client.post("/v1/plan", json=new, headers={"accept": "text/event-stream"})
    *progress, (kind, _) = events(answer.text)
    stages = [told["stage"] for _, told in progress if told["stage"] in STAGES]
    assert stages == [stage for stage in STAGES if stage != "estimates"]
    assert kind == "result"
    by_stage = {told["stage"]: told for _, told in progress}
    assert by_stage["offers"]["done"] <= by_stage["offers"]["of"]
    assert by_stage["plans"] | {"elapsed_seconds": 0} == {"stage": "plans", "done": 0, "of": 10, "elapsed_seconds": 0}


class Endless:
    """A plan that never ends by itself; it says when it began and whether it was stopped."""

    def __init__(self) -> None:
        self.began, self.stopped = Event(), Event()

    def __call__(self, *_: Any, told: Any, **__: Any) -> PlanDocument:
        self.began.set()
        for step in range(2000):
            time.sleep(0.01)
            try:
                told("layouts", step, 2000)
            except Cancelled:
                self.stopped.set()
                raise
        raise AssertionError("nobody stopped it")


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("plan", "application/json"),
        ("plan", "text/event-stream"),
        ("batch", "application/json"),
        ("batch", "application/x-ndjson"),
    ],
)
def test_a_client_that_hangs_up_stops_the_work(path: str, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless()
    monkeypatch.setattr("api.plan_cache.plan", endless)
    body = json.dumps(LORA if path == "plan" else {"workloads": [LORA, LORA]}).encode()
    head = (
        f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with serving(create_app(Settings(now=NOW, offline=True))) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(head.encode() + body)
            assert endless.began.wait(20)
        assert endless.stopped.wait(10)


def test_work_whose_time_is_up_stops_at_its_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless()
    monkeypatch.setattr("api.plan_cache.plan", endless)
    client = TestClient(create_app(Settings(now=NOW, offline=True, request_seconds=0.1)), raise_server_exceptions=False)
    assert problem(client.post("/v1/plan", json=LORA))["status"] == 503
    assert endless.stopped.wait(10)


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
    monkeypatch.setattr("api.plan_cache.plan", lambda *_, **__: time.sleep(0.2))
    client = TestClient(create_app(Settings(now=NOW, offline=True, request_seconds=0.1)), raise_server_exceptions=False)
    document = client.post("/v1/batch", json={"workloads": [LORA] * 3}).json()
    assert [item["problem"]["type"].rpartition(":")[2] for item in document["results"]] == ["time-budget"] * 3
