"""One bare value for a cell of a spreadsheet, by GET; and all of them as XML for `FILTERXML`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from api.cell_errors import is_strict
from api.deps import Now, Priced
from api.market import Prices
from api.problems import kind_of
from api.sheet_room import room_of
from benchmarks_db.errors import EstimatorError, UnknownName
from estimator.sheets.answers import Answer, question_of, value_named
from estimator.sheets.cells import cell_text, cell_xml, error_text, xml_of
from estimator.sheets.values import CELL_VALUES

FRESH = "private, max-age=60"
KEYS = (
    "model", "method", "tokens", "samples", "images", "epochs", "seq_len", "image_size", "precision", "global_batch",
    "micro_batch", "optimizer", "gpu", "cloud", "region", "market", "deadline", "budget", "software",
)  # fmt: skip

KEY = re.compile(r"[A-Za-z_]\w*([.-]\w+)*", re.ASCII)

Responses = dict[int | str, dict[str, Any]]


def parameters(*names: str, **described: str) -> dict[str, Any]:
    """Query parameters of an operation that takes the flat keys of a request; texts, as a URL holds them."""
    said = dict.fromkeys(names, "as in the request") | described
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string", "description": text}}
            for name, text in said.items()
        ]
    }


CELL = parameters(
    *KEYS,
    value=f"what is asked: {', '.join(CELL_VALUES)}; cost_usd unless given",
    strict="1: an error is a problem document instead of a text",
)


def flat_of(request: Request, *others: str) -> dict[str, str]:
    """The flat keys of a query, without the parameters that are not of the request; repeated ones are a list."""
    flat: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if not KEY.fullmatch(key):
            raise UnknownName("parameter", key, [*KEYS, *others])
        if key not in others:
            flat[key] = f"{flat[key]},{value}" if key in flat else value
    return flat


router = APIRouter(prefix="/v1", tags=["spreadsheets"])
TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
XML: Responses = {200: {"content": {"application/xml": {"schema": {}}}}}


@router.get("/cell", operation_id="cell", response_class=Response, responses=TEXT, openapi_extra=CELL)
async def get_cell(request: Request, prices: Priced, now: Now) -> Response:
    """One bare value of the cheapest plan as text; an error is a line that begins with `#ERROR:`, still status 200."""
    return await respond(request, prices, now, "text/plain", cell_text)


@router.get("/cell.xml", operation_id="cell_xml", response_class=Response, responses=XML, openapi_extra=CELL)
async def get_cell_xml(request: Request, prices: Priced, now: Now) -> Response:
    """The value as `<value>`, and every other value of the same plan by its name; an error as `<error>`."""
    return await respond(request, prices, now, "application/xml", cell_xml)


@router.api_route("/cell", methods=["HEAD", "OPTIONS"], include_in_schema=False)
@router.api_route("/cell.xml", methods=["HEAD", "OPTIONS"], include_in_schema=False)
async def look_at_cell(request: Request) -> Response:
    """What LibreOffice asks before it fetches a cell: that there is one. Nothing is planned for that."""
    media = "application/xml" if request.url.path.endswith(".xml") else "text/plain"
    return Response(media_type=media, headers={"allow": "GET, HEAD, OPTIONS"})


async def respond(
    request: Request, prices: Prices, now: datetime, media: str, form: Callable[[Answer, str, datetime], str]
) -> Response:
    """The cell in the form asked for, with its ETag; from memory where the same was asked under the same prices."""
    try:
        value = value_named(request.query_params.get("value") or "cost_usd")
        question = question_of(flat_of(request, "value", "strict"))
        answer = await room_of(request.app).answer(question, prices, now)
        body = form(answer, value, now)
        answer.value(value, now)
    except EstimatorError as error:
        if is_strict(request.url.query):
            raise
        text = error_text(error)
        body = xml_of({"error": text}) if media == "application/xml" else text
        return Response(body, media_type=media, headers={"x-error-type": kind_of(error), "cache-control": "no-store"})
    return tagged(request, body, media)


def tagged(request: Request, body: str, media: str, headers: dict[str, str] | None = None) -> Response:
    """An answer that a client may keep for a minute, and ask for again by its ETag."""
    tag = f'"{hashlib.blake2b(body.encode(), digest_size=16).hexdigest()}"'
    kept = {"etag": tag, "cache-control": FRESH, **(headers or {})}
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=kept)
    return Response(body, media_type=media, headers=kept)
