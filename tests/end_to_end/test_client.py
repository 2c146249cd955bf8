"""`estimator.Client` against a real server, and against one that misbehaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

import httpx
import pytest

from benchmarks_db.errors import PricesUnavailable, WorkloadError
from estimator import Client, Workload, plan
from estimator.client import ServerError

from .conftest import NOW

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"gpus": ["H100:8"]}}


def test_a_server_answers_as_the_library_does(server: str) -> None:
    with Client(server) as client:
        assert client.plan(**LORA) == plan(Workload(**LORA), now=datetime.fromisoformat(NOW))
        assert client.plan(Workload(**LORA)).plans[0].rank == 1
        (entry,) = client.estimate(model="resnet50", images="50k", constraints={"gpus": ["T4"]}).estimates
        assert entry.gpu == "T4"
        (row,) = client.predict([{"model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": 8, "seq_len": 4096}])
        assert float(row["predicted_low"]) <= float(row["predicted_throughput"])


def test_every_page_of_the_offers_is_read(server: str) -> None:
    with Client(server) as client:
        found = list(client.offers(cloud="aws", limit=400))
        total = httpx.get(f"{server}/v1/offers", params={"cloud": "aws", "limit": 1}, timeout=60).json()["total"]
    assert len(found) == total > 400


def test_a_batch_is_read_line_by_line(server: str) -> None:
    with Client(server) as client:
        good, bad = client.batch([Workload(**LORA), LORA | {"model": "llama3-8bb"}])
    assert good.plan is not None
    assert len(good.plan.plans) == 1
    assert bad.problem is not None
    assert bad.problem["nearest"][0] == "llama3-8b"


def test_what_the_server_refuses_is_the_error_of_the_library(server: str) -> None:
    with Client(server) as client:
        with pytest.raises(WorkloadError) as refused:
            client.plan(**LORA | {"model": "llama3-8bb"})
        assert (refused.value.field, refused.value.nearest[0]) == ("model", "llama3-8b")
        with pytest.raises(WorkloadError, match="as_of"):
            list(client.offers(as_of="2099-01-01"))


def scripted(
    *answers: httpx.Response | Exception,
) -> tuple[Callable[[httpx.Request], httpx.Response], list[httpx.Request]]:
    left, seen = list(answers), []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        following = left.pop(0)
        if isinstance(following, Exception):
            raise following
        return following

    return answer, seen


def asked(*answers: httpx.Response | Exception, retries: int = 4) -> tuple[list[httpx.Request], list[float], object]:
    """What was sent, how long was waited, and the outcome of one plan."""
    answer, seen = scripted(*answers)
    waits: list[float] = []
    outcome: object
    with Client(
        "http://s", "est_key", retries=retries, transport=httpx.MockTransport(answer), sleep=waits.append
    ) as client:
        try:
            outcome = client.plan(**LORA)
        except Exception as error:
            outcome = error
    return seen, waits, outcome


DOCUMENT = httpx.Response(200, json={"workload": {}, "plans": []})


def test_what_fails_in_passing_is_asked_again_after_the_wait_that_the_server_names() -> None:
    busy = httpx.Response(
        503, json={"type": "urn:estimator:problem:busy", "detail": "busy"}, headers={"retry-after": "7"}
    )
    seen, waits, outcome = asked(busy, httpx.ConnectError("refused"), httpx.Response(502, text="<html>"), DOCUMENT)
    assert len(seen) == 4
    assert waits[0] == 7.0
    assert all(0 <= wait <= 10 for wait in waits[1:])
    assert outcome.plans == []  # type: ignore[attr-defined]
    assert {request.headers["authorization"] for request in seen} == {"Bearer est_key"}


def test_it_gives_up_in_the_end_and_says_why() -> None:
    seen, _, outcome = asked(*[httpx.ConnectTimeout("slow")] * 3, retries=2)
    assert len(seen) == 3
    assert isinstance(outcome, ServerError)
    assert "slow" in str(outcome)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (
            httpx.Response(401, json={"type": "urn:estimator:problem:key", "detail": "unknown key"}),
            ServerError,
            "unknown key",
        ),
        (httpx.Response(200, text="<html>"), ServerError, "address"),
        (httpx.Response(200, json=[]), ServerError, "address"),
        (httpx.Response(500, text="oops"), ServerError, "500"),
        (
            httpx.Response(503, json={"type": "urn:estimator:problem:prices-unavailable", "detail": "none"}),
            PricesUnavailable,
            "none",
        ),
    ],
)
def test_what_will_not_pass_is_not_asked_again(answer: httpx.Response, kind: type[Exception], said: str) -> None:
    seen, waits, outcome = asked(answer)
    assert (len(seen), waits) == (1, [])
    assert isinstance(outcome, kind)
    assert said in str(outcome)


def test_only_what_was_given_is_sent() -> None:
    seen, _, _ = asked(DOCUMENT)
    assert set(json.loads(seen[0].content)) == set(LORA)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises((WorkloadError, ServerError)):
        Client("http://[", retries=0).plan(**LORA)
