"""One question, one bare value: what a spreadsheet's WEBSERVICE, IMPORTDATA and FILTERXML receive."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.routes.cells import room_of
from api.settings import Settings
from estimator.sheets.values import CELL_VALUES

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "gpu": "H100:1"}


def cheapest(client: TestClient, market: str = "on-demand") -> dict[str, Any]:
    """The same question put to the planner."""
    limits = {"gpus": ["H100:1"], "markets": [market]}
    body = {key: LORA[key] for key in ("model", "method", "tokens")} | {"constraints": limits}
    plan: dict[str, Any] = client.post("/v1/plan", json=body).json()["plans"][0]
    return plan


@pytest.mark.parametrize("market", ["on-demand", "spot"])
def test_every_value_is_that_of_the_cheapest_plan(client: TestClient, market: str) -> None:
    plan = cheapest(client, market)
    expected = {
        "cost_usd": plan["cost_usd"]["p50"], "cost_usd_p10": plan["cost_usd"]["p10"],
        "cost_usd_p90": plan["cost_usd"]["p90"], "hours": plan["hours"]["p50"], "hours_p10": plan["hours"]["p10"],
        "hours_p90": plan["hours"]["p90"], "gpu_hours": plan["gpu_hours"], "throughput": plan["throughput"]["value"],
        "memory_gib": plan["memory_gib"]["used"], "fits": plan["memory_gib"]["verdict"], "cloud": plan["cloud"],
        "region": plan["region"], "instance_type": plan["instance_type"],
        "usd_per_hour": plan["price"]["usd_per_hour"], "price_age_hours": plan["price"]["age_hours"],
        "evidence": plan["evidence"]["kind"], "price_date": plan["price"]["observed_at"][:10],
    }  # fmt: skip
    for value, figure in expected.items():
        answer = client.get("/v1/cell", params={**LORA, "market": market, "value": value})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text == str(figure) if isinstance(figure, str) else float(answer.text) == figure


def test_on_demand_and_cost_are_taken_where_nothing_else_is_said(client: TestClient) -> None:
    said = client.get("/v1/cell", params={**LORA, "market": "on-demand", "value": "cost_usd"}).text
    assert client.get("/v1/cell", params=LORA).text == said


def test_a_long_question_stays_within_the_address_that_excel_takes() -> None:
    full = {**LORA, "samples": "", "epochs": "3", "seq_len": "2048", "precision": "bf16", "global_batch": "64",
            "micro_batch": "4", "optimizer": "adamw", "cloud": "aws,gcp,azure", "region": "us-*,eu-*",
            "market": "spot", "deadline": "24h", "budget": "500", "software": "ordinary",
            "value": "price_age_hours"}  # fmt: skip
    assert len("http://planner.example.org:8000/v1/cell?" + urlencode(full)) < 1024


@pytest.mark.parametrize(
    ("wrong", "line", "kind"),
    [
        ({"gpu": "H1000"}, "#ERROR: unknown GPU 'H1000', did you mean H100", "unknown-name"),
        ({"value": "costs"}, "#ERROR: unknown value 'costs', did you mean cost_usd", "unknown-name"),
        ({"tokens": "-5"}, "#ERROR: tokens: '-5' must be ", "bad-input"),
        ({"colour": "red"}, "#ERROR: colour: unknown key", "bad-input"),
        ({"deadline": "1 minute"}, "#ERROR: no plan satisfies the request, deadline stands in the way", "no-plan"),
        ({"hf_config": "/etc/passwd"}, "#ERROR: hf_config: files are read on the command line only", "bad-input"),
        ({"gpu": "", "gpus": "8"}, "#ERROR: 8 GPUs of which kind?", "bad-input"),
    ],
)
def test_an_error_is_one_readable_line(client: TestClient, wrong: dict[str, str], line: str, kind: str) -> None:
    answer = client.get("/v1/cell", params={**LORA, **wrong})
    assert answer.status_code == 200
    assert answer.text.startswith(line)
    assert "\n" not in answer.text
    assert answer.headers["x-error-type"] == kind
    assert answer.headers["cache-control"] == "no-store"


def test_strict_turns_an_error_into_a_problem_document(client: TestClient) -> None:
    answer = client.get("/v1/cell", params={**LORA, "gpu": "H1000", "strict": "1"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "H1000" in answer.json()["detail"]


def test_what_does_not_fit_is_said_and_has_no_cost(client: TestClient) -> None:
    tight = {"model": "gpt3-175b", "method": "full", "tokens": "1M", "gpu": "T4:1"}
    assert client.get("/v1/cell", params={**tight, "value": "fits"}).text == "no"
    assert client.get("/v1/cell", params=tight).text.startswith("#ERROR: no plan satisfies the request, memory")


def test_the_xml_twin_has_all_values_of_the_same_plan(client: TestClient) -> None:
    answer = client.get("/v1/cell.xml", params={**LORA, "value": "hours"})
    assert answer.headers["content-type"].startswith("application/xml")
    cell = Xml.fromstring(answer.text)
    assert cell.findtext("value") == cell.findtext("hours")
    for value in set(CELL_VALUES) - {"price_age_hours"}:
        assert client.get("/v1/cell", params={**LORA, "value": value}).text == cell.findtext(value)
    failed = Xml.fromstring(client.get("/v1/cell.xml", params={**LORA, "gpu": "H1000<&"}).text)
    assert (failed.findtext("error") or "").startswith("#ERROR: unknown GPU 'H1000<&'")


def test_a_sheet_of_many_cells_makes_as_many_plans_as_it_has_questions(settings: Settings) -> None:
    app = create_app(settings)
    client = TestClient(app)
    for _ in range(3):
        for tokens in ("50M", "60M"):
            for value in ("cost_usd", "hours", "gpu_hours", "fits"):
                assert client.get("/v1/cell", params={**LORA, "tokens": tokens, "value": value}).status_code == 200
    assert room_of(app).answers.planned == 2


def test_a_cell_that_has_not_changed_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/v1/cell", params=LORA)
    assert "max-age" in first.headers["cache-control"]
    again = client.get("/v1/cell", params=LORA, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/v1/cell", params={**LORA, "tokens": "1G"}, headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200
