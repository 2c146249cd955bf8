"""How does Python ask a server? The functions of the library, answered over HTTP with the same documents.

>>> from estimator import Client  # doctest: +SKIP
>>> with Client("http://127.0.0.1:8000") as server:  # doctest: +SKIP
...     server.plan(model="llama3-8b", method="lora", tokens="50M").plans[0].cost_usd
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import BaseModel, ConfigDict
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from benchmarks_db.errors import EstimatorError, PricesUnavailable, WorkloadError
from estimator.documents import EstimateDocument, PlanDocument
from estimator.request.workload import Workload
from pricing.market import Market, PriceState

AGAIN = frozenset({429, 502, 503, 504})
"""Nothing that a server does changes anything there, so whatever failed in passing may be asked again."""


class ServerError(EstimatorError):
    """The server cannot be reached, does not know the key, or failed; `status` is None where there is no answer."""

    def __init__(self, message: str, *, status: int | None = None, problem: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self.problem = dict(problem or {})
        super().__init__(message, field="server")


class OfferDocument(BaseModel):
    """An offer as a server lists it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cloud: str
    region: str | None
    zone: str | None
    zone_id: str | None
    instance_type: str
    market: Market
    gpu: str | None
    gpus_per_node: float | None
    price_usd_per_hour: float | None
    source: str
    observed_at: str | None
    state: PriceState


class BatchAnswer(BaseModel):
    """The answer to one workload of a batch: a plan, or the problem document of what went wrong."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: int
    name: str | None = None
    plan: PlanDocument | None = None
    problem: dict[str, Any] | None = None


class Client:
    """A server of the estimator. Use as a context manager, or `close()` it; safe for several threads.

    `api_key` (default: `ESTIMATOR_API_KEY`) is sent as a bearer token. An answer may take `timeout` seconds; what
    fails in passing (no connection, 429, 502 to 504) is asked again up to `retries` times, after the `Retry-After`
    of the server or a growing random wait.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 70.0,
        retries: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        key = api_key if api_key is not None else os.environ.get("ESTIMATOR_API_KEY", "")
        headers = {"accept": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        limits = httpx.Timeout(timeout, connect=min(timeout, 10.0))
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=limits, transport=transport)
        except (httpx.InvalidURL, TypeError) as error:
            raise WorkloadError(f"not the address of a server: {error}", field="url", value=url) from None
        self._retrying = Retrying(
            stop=stop_after_attempt(retries + 1),
            wait=_wait,
            retry=retry_if_exception(_in_passing),
            sleep=sleep,
            reraise=True,
        )

    def plan(self, workload: Workload | None = None, **keys: Any) -> PlanDocument:
        """Ranked plans for a workload, or for the keys of a request."""
        return PlanDocument.model_validate(self._post("/v1/plan", _body(workload, keys)))

    def estimate(self, workload: Workload | None = None, **keys: Any) -> EstimateDocument:
        """The workload on each GPU of `constraints.gpus` and on each own machine."""
        return EstimateDocument.model_validate(self._post("/v1/estimate", _body(workload, keys)))

    def batch(self, workloads: Iterable[Workload | Mapping[str, Any]], *, top: int = 1) -> Iterator[BatchAnswer]:
        """The answers to many workloads, one by one as the server makes them; leaving the loop stops the server."""
        bodies = [_plain(one) if isinstance(one, Workload) else dict(one) for one in workloads]
        headers = {"accept": "application/x-ndjson"}
        try:
            with self._http.stream(
                "POST", "/v1/batch", json={"workloads": bodies, "top": top}, headers=headers
            ) as lines:
                if lines.status_code != 200:
                    lines.read()
                    _raise(lines)
                for line in lines.iter_lines():
                    yield BatchAnswer.model_validate_json(line)
        except httpx.HTTPError as error:
            raise _unreachable(error) from None

    def predict(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Training throughput of every row with its interval, in the columns of `estimator predict`."""
        answer: list[dict[str, str]] = self._post("/v1/predict", {"rows": [dict(row) for row in rows]})["rows"]
        return answer

    def offers(self, **filters: Any) -> Iterator[OfferDocument]:
        """Every offer that the filters leave (`gpu="H100*"`, `market="spot"`, `region="us-*"`, `as_of=...`)."""
        query = {"limit": 1000} | {name: value for name, value in filters.items() if value is not None}
        while True:
            page = self._ask("GET", "/v1/offers", params=query)
            yield from map(OfferDocument.model_validate, page["offers"])
            if page["next"] is None:
                return
            query["cursor"] = page["next"]

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._retrying(self._once, method, path, **sent)
        return answer

    def _once(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, **sent)
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        if answer.status_code != 200:
            _raise(answer)
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ServerError("the answer is not one of this estimator; is the address right?", status=200)
        return document


def _body(workload: Workload | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    return _plain(workload if workload is not None else Workload(**keys))


def _plain(workload: Workload) -> dict[str, Any]:
    """What the user gave, as JSON types."""
    plain: dict[str, Any] = json.loads(workload.model_dump_json(exclude_unset=True))
    return plain


def _raise(answer: httpx.Response) -> None:
    """The failure that a problem document tells, as the library would raise it."""
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        raise _noted(ServerError(f"the server answered {answer.status_code}", status=answer.status_code), answer)
    words = str(problem.get("detail") or problem.get("title") or "no reason given")
    kind = str(problem.get("type", "")).rpartition(":")[2]
    first = (problem.get("errors") or [problem])[0]
    told = {key: problem.get(key) for key in ("field", "value")}
    message, nearest = str(first.get("message") or words), tuple(map(str, problem.get("nearest") or ()))
    if kind in ("bad-input", "unknown-name", "too-deep"):
        raise WorkloadError(message, **told, nearest=nearest)
    if kind == "prices-unavailable":
        raise PricesUnavailable(message, **told, nearest=nearest)
    raise _noted(ServerError(words, status=answer.status_code, problem=problem), answer)


def _noted(error: ServerError, answer: httpx.Response) -> ServerError:
    error.problem.setdefault("retry_after", answer.headers.get("retry-after"))
    return error


def _unreachable(error: httpx.HTTPError) -> ServerError:
    return ServerError(f"the server cannot be reached: {error or type(error).__name__}")


def _in_passing(error: BaseException) -> bool:
    return isinstance(error, ServerError) and (error.status is None or error.status in AGAIN)


_growing = wait_random_exponential(multiplier=0.5, max=10.0)


def _wait(state: RetryCallState) -> float:
    """The wait that the server asked for (a minute at most), else a growing random one."""
    error = state.outcome.exception() if state.outcome is not None else None
    said = str(error.problem.get("retry_after") or "") if isinstance(error, ServerError) else ""
    return min(60.0, float(said)) if said.isdigit() else float(_growing(state))
