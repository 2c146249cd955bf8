"""One question, one bare value: what a spreadsheet's WEBSERVICE, IMPORTDATA and FILTERXML receive."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as Xml
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import ASGITransport, AsyncClient, Response

from api.app import create_app
from api.settings import Settings
from api.sheet_room import LOOK_AGAIN_SECONDS, SheetRoom, room_of
from estimator.sheets.answers import Answer, asks_spot, market_at, question_of
from estimator.sheets.values import CELL_VALUES
from pricing.offers import current_offers

from .conftest import NOW

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


@pytest.mark.parametrize(
    ("market", "spot"), [("spot", True), ("SPOT", True), ("own, Preemptible", True), ("own", False)]
)
def test_spot_plans_are_told_however_spot_is_written(market: str, spot: bool) -> None:
    question = question_of({**LORA, "market": market})
    assert asks_spot(question) is spot


def test_the_price_of_an_own_machine_is_of_the_moment_however_long_its_answer_is_kept() -> None:
    answer = Answer({"price_date": NOW - timedelta(hours=9), "price_state": "own"})
    assert (answer.value("price_age_hours", NOW), answer.value("price_date", NOW)) == (0.0, NOW)


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
        ({"value": "foo"}, "#ERROR: unknown value 'foo'; known are cost_usd, cost_usd_p10, ", "unknown-name"),
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


def test_an_empty_value_is_the_cost_as_if_it_were_left_out(client: TestClient) -> None:
    empty, without = (client.get("/v1/cell", params={**LORA, **more}).text for more in ({"value": ""}, {}))
    assert empty == without


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


REMOTE = {"require_key": "never", "rate_per_minute": 2, "cell_rate_per_minute": 3}


def remote(settings: Settings, **more: Any) -> TestClient:
    """A client on another machine."""
    app = create_app(settings.model_copy(update=REMOTE | more))
    return TestClient(app, client=("203.0.113.7", 40000), raise_server_exceptions=False)


def test_a_refused_cell_shows_the_reason(settings: Settings) -> None:
    client = remote(settings)
    shown = [client.get("/v1/cell", params={**LORA, "gpu": "H1000"}) for _ in range(4)][-1]
    assert (shown.status_code, shown.headers["x-error-type"]) == (200, "rate-limited")
    assert shown.text.startswith("#ERROR: more than 3 requests a minute; wait ")
    assert int(shown.headers["retry-after"]) > 0
    twin = client.get("/v1/cell.xml", params=LORA)
    assert (Xml.fromstring(twin.text).findtext("error") or "").startswith("#ERROR: more than 3 requests")
    strict = client.get("/v1/cell", params={**LORA, "strict": "1"})
    assert (strict.status_code, strict.headers["content-type"]) == (429, "application/problem+json")
    keyless = remote(settings, require_key="auto").get("/v1/cell", params=LORA)
    assert keyless.text.startswith("#ERROR: an API key is needed")
    assert keyless.headers["content-length"] == str(len(keyless.content))


def test_cells_are_counted_apart_from_other_requests(settings: Settings) -> None:
    client = remote(settings)
    assert [client.get("/v1/gpus").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/v1/cell", params={**LORA, "gpu": "H1000"}).headers["x-error-type"] == "unknown-name"


def test_what_libreoffice_asks_before_a_cell_is_answered_without_a_plan(settings: Settings) -> None:
    app = create_app(settings)
    client = TestClient(app)
    for path, media in (("/v1/cell", "text/plain"), ("/v1/cell.xml", "application/xml")):
        for method in ("HEAD", "OPTIONS"):
            answer = client.request(method, path, params=LORA)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-type"].startswith(media)
    assert room_of(app).answers.planned == 0


def at_once(app: FastAPI, asked: list[dict[str, str]]) -> list[Response]:
    """The answers to cells that all arrive together, as a spreadsheet sends them; one comes before the others."""

    async def all_of_them() -> list[Response]:
        async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client:
            await client.get("/v1/cell", params={**LORA, "gpu": "H1000"})  # from here on the market is known
            return list(await asyncio.gather(*(client.get("/v1/cell", params=keys) for keys in asked)))

    return asyncio.run(all_of_them())


def test_cells_that_ask_the_same_at_once_share_one_plan(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"require_key": "never"}))
    asked = [{**LORA, "tokens": f"{50 + n % 3}M", "value": ("cost_usd", "hours")[n % 2]} for n in range(300)]
    found = at_once(app, asked)
    assert {answer.status_code for answer in found} == {200}
    assert not [answer.text for answer in found if answer.text.startswith("#")]
    assert room_of(app).answers.planned == 1 + 3


def test_too_many_different_questions_at_once_are_refused_in_words(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sheet_room.MOST_WAITING", 2)
    app = create_app(settings.model_copy(update={"require_key": "never"}))
    found = at_once(app, [{**LORA, "tokens": f"{50 + n}M"} for n in range(20)])
    refused = [answer for answer in found if answer.text == "#ERROR: too many cells wait already; try again"]
    assert 0 < len(refused) < 20
    assert {answer.headers["x-error-type"] for answer in refused} == {"busy"}


def test_a_changed_price_shows_once_the_market_is_looked_at_again(settings: Settings) -> None:
    clock = [0.0]
    room = SheetRoom(settings, clock=lambda: clock[0])
    table = current_offers(now=NOW)
    prices: Any = SimpleNamespace(
        market=lambda *_: market_at(table, NOW), history=lambda _: None, measured=lambda _: []
    )

    def hourly() -> float:
        return float(str(asyncio.run(room.answer(question_of(LORA), prices, NOW)).values["usd_per_hour"]))

    first = hourly()
    table = replace(table, usd_per_hour=table.usd_per_hour * 2)
    assert hourly() == first
    clock[0] = LOOK_AGAIN_SECONDS + 0.01
    assert hourly() == pytest.approx(2 * first)


def test_a_cell_without_a_plan_has_one_name_for_it_strict_or_not(client: TestClient) -> None:
    asked = {**LORA, "budget": "0.0001"}
    assert client.get("/v1/cell", params=asked).headers["x-error-type"] == "no-plan"
    assert client.get("/v1/cell", params={**asked, "strict": "1"}).json()["type"].endswith("no-plan")
