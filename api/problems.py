"""What went wrong, for a program and a person? Every error as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from benchmarks_db.errors import EstimatorError, NoFeasiblePlan, PricesUnavailable, UnknownName
from pricing.store_errors import StoreError

log = logging.getLogger("estimator.api")

MOST_ERRORS = 20
BRANCHES = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false"}
"""What a value may be, by pydantic's names of the branches of a union."""
MEDIA_TYPE = "application/problem+json"
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Set for each request by `api.envelope`; every problem document and log line carries it."""


class Refusal(Exception):  # noqa: N818  (reads as what happened)
    """What this server does not do for this request, whatever the domain says: limits, keys, time."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})


class FieldProblem(BaseModel):
    """One field that cannot be used."""

    field: str | None = Field(None, description="dotted path in the body, or the name of the query parameter")
    message: str
    value: str | float | bool | None = Field(None, description="what was sent, shortened")
    nearest: list[str] = Field(default_factory=list, description="valid values near to it")


class Problem(BaseModel):
    """An error document of RFC 9457; `errors` lists every field when there are several."""

    type: str = Field(description="a stable name of the kind of problem")
    title: str
    status: int
    detail: str
    instance: str = Field(description="the path that was asked for")
    field: str | None = None
    value: str | float | bool | None = None
    nearest: list[str] = Field(default_factory=list)
    errors: list[FieldProblem] = Field(default_factory=list)
    request_id: str | None = Field(None, description="`X-Request-ID` of this answer, as in the server's log")


def _printable(text: str, length: int = 300) -> str:
    """Text that every encoder accepts (JSON may carry lone surrogates), no longer than `length`."""
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= length else whole[: length - 1] + "…"


def _value(value: object) -> str | float | bool | None:
    """A value as sent, small and printable: figures stay figures, everything else is text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < 2**53:
        return value
    return _printable(value if isinstance(value, str) else repr(value), 200)


def problem_of(status: int, kind: str, detail: str, path: str, errors: Iterable[FieldProblem] = ()) -> Problem:
    """A problem document with the id of the present request."""
    listed = list(errors)
    first = listed[0] if listed else FieldProblem(message="")
    return Problem(
        type=f"urn:estimator:problem:{kind}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_printable(detail, 2000),
        instance=_printable(path),
        field=first.field,
        value=first.value,
        nearest=first.nearest,
        errors=listed,
        request_id=REQUEST_ID.get(),
    )


def _answer(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    told = {"cache-control": "no-store", **(headers or {})}
    return JSONResponse(problem.model_dump(), problem.status, told, MEDIA_TYPE)


def _respond(
    status: int,
    kind: str,
    detail: str,
    path: str,
    errors: Iterable[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    return _answer(problem_of(status, kind, detail, path, errors), headers)


def refused(path: str, refusal: Refusal) -> JSONResponse:
    """The answer to a request that this server does not serve."""
    named = [FieldProblem(field=refusal.field, message=refusal.detail)] if refusal.field else []
    return _respond(refusal.status, refusal.kind, refusal.detail, path, named, refusal.headers)


def unforeseen(path: str) -> JSONResponse:
    """500: a fault of ours; the log has it, the client learns no insides."""
    return _respond(500, "internal", "the server failed on this request; its log says more", path)


def _refused(request: Request, refusal: Refusal) -> JSONResponse:
    return refused(request.url.path, refusal)


def _domain(request: Request, error: EstimatorError) -> JSONResponse:
    return _answer(problem_of_domain(error, request.url.path))


def problem_of_domain(error: EstimatorError, path: str) -> Problem:
    """A failure that the domain named: bad input is 422, missing prices are 503."""
    named = [
        FieldProblem(
            field=None if one.field is None else _printable(one.field),
            message=_printable(one.message),
            value=_value(one.value),
            nearest=[_printable(name) for name in one.nearest],
        )
        for one in getattr(error, "errors", (error,))[:MOST_ERRORS]  # a request has several, everything else one
    ]
    if isinstance(error, PricesUnavailable):
        return problem_of(503, kind_of(error), str(error), path, named)
    if isinstance(error, StoreError):
        log.error("%s", error)
        return problem_of(503, "database", "the database cannot be used now; the log says more", path)
    return problem_of(422, kind_of(error), str(error), path, named)


def kind_of(error: EstimatorError) -> str:
    """The kind of a failure in one word, as in the type of a problem document."""
    kinds = ((UnknownName, "unknown-name"), (PricesUnavailable, "prices-unavailable"), (NoFeasiblePlan, "no-plan"))
    return next((word for kind, word in kinds if isinstance(error, kind)), "bad-input")


def _nearest(request: Request, error: Mapping[str, Any]) -> list[str]:
    """The valid values that pydantic knows, or the parameters that the page has, those near to the value first."""
    if error["type"] == "extra_forbidden":
        operation = request.app.openapi()["paths"].get(request.url.path, {}).get(request.method.lower(), {})
        known = [parameter["name"] for parameter in operation.get("parameters", [])]
        return get_close_matches(str(error["loc"][-1])[:100], known, n=3, cutoff=0.4) or known
    expected = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    return get_close_matches(str(error.get("input"))[:100], expected, n=3, cutoff=0.4) or expected[:12]


def _places(details: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One fault for each value, which says all branches of a union (text, number, ...) that it failed."""
    found: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for error in details:
        place, branch = tuple(error["loc"][:-1]), str(error["loc"][-1])
        if len(place) < 2 or branch not in BRANCHES or not str(error["type"]).startswith(branch):
            found.setdefault(tuple(error["loc"]), error)
        elif place in found:
            words = str(found[place]["msg"])
            if BRANCHES[branch] not in words:
                found[place] = {**found[place], "msg": f"{words}, {BRANCHES[branch]}"}
        else:
            found[place] = {**error, "loc": place, "msg": f"must be {BRANCHES[branch]}"}
    return list(found.values())


def _validation(request: Request, error: RequestValidationError) -> JSONResponse:
    """A body or query that does not have the shape of the request."""
    details = _places(list(error.errors()))[:MOST_ERRORS]
    if details and details[0]["type"] == "json_invalid":
        reason = str(details[0].get("ctx", {}).get("error", "unreadable"))
        message = f"the body is not JSON: {reason} at character {details[0]['loc'][-1]}"
        return _respond(400, "not-json", message, request.url.path, [FieldProblem(field="body", message=message)])
    problems = [
        FieldProblem(
            field=_printable(".".join(map(str, e["loc"][1:] if len(e["loc"]) > 1 else e["loc"]))),
            message="no such parameter" if e["type"] == "extra_forbidden" else _printable(e["msg"]),
            value=_value(e.get("input")),
            nearest=_nearest(request, e),
        )
        for e in details
    ]
    detail = "; ".join(f"{p.field}: {p.message}" for p in problems)
    return _respond(422, "bad-input", detail, request.url.path, problems)


def _http(request: Request, error: HTTPException) -> Response:
    """What the framework refuses: no such page, a method that a page lacks, an unreadable body."""
    path = request.url.path
    if error.status_code == 404:
        pages = ["/docs", *request.app.openapi()["paths"]]
        nearest = get_close_matches(path[:200], pages, n=3, cutoff=0.4)
        hint = f" (did you mean {' or '.join(nearest)}?)" if nearest else ""
        problem = FieldProblem(field="path", message="no such page", value=_value(path), nearest=nearest)
        return _respond(404, "not-found", f"no page {path}{hint}", path, [problem])
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "").replace("GET", "GET, HEAD") + ", OPTIONS"
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": allowed})
        detail = f"{request.method} is not possible here; {allowed} is"
        return _respond(405, "method-not-allowed", detail, path, headers={"allow": allowed})
    return _respond(error.status_code, "bad-request", str(error.detail), path, headers=error.headers)


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return unforeseen(request.url.path)


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document."""
    app.add_exception_handler(EstimatorError, _domain)  # type: ignore[arg-type]
    app.add_exception_handler(Refusal, _refused)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _validation)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _http)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, _unforeseen)
