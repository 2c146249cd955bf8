"""One bare value for a cell of a spreadsheet, by GET; and all of them as XML for `FILTERXML`."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from api.deps import Heavy, Now, Priced
from api.market import Prices
from benchmarks_db.errors import EstimatorError, NoFeasiblePlan, PricesUnavailable, UnknownName
from estimator.request.fields import Accelerators
from estimator.request.quantities import parse_bool
from estimator.sheets.answers import Answer, Answers, Market, market_at, question_of, value_named
from estimator.sheets.cells import cell_text, cell_xml, error_text, xml_of
from estimator.sheets.values import CELL_VALUES

LOOK_AGAIN_SECONDS = 2.0
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


class SheetRoom:
    """What the cells of one server share: the answers at hand, and the market, looked at again every few seconds."""

    def __init__(self) -> None:
        self.answers = Answers()
        self._lock = Lock()
        self._markets: dict[Accelerators, tuple[float, Market]] = {}

    def recent(self, kinds: Accelerators) -> Market | None:
        """The market as it was looked at a moment ago."""
        seen, market = self._markets.get(kinds, (-LOOK_AGAIN_SECONDS, None))
        return market if time.monotonic() - seen < LOOK_AGAIN_SECONDS else None

    def market(self, prices: Prices, now: datetime, kinds: Accelerators) -> Market:
        """The market of this moment."""
        with self._lock:
            market = self.recent(kinds)
            if market is None:
                market = market_at(prices.table(now, kinds), now)
                self._markets[kinds] = (time.monotonic(), market)
            return market


def room_of(app: FastAPI) -> SheetRoom:
    """The room of this application, made at the first cell."""
    if not hasattr(app.state, "sheets"):
        app.state.sheets = SheetRoom()
    room: SheetRoom = app.state.sheets
    return room


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
async def get_cell(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """One bare value of the cheapest plan as text; an error is a line that begins with `#ERROR:`, still status 200."""
    return await respond(request, prices, now, heavy, "text/plain", cell_text)


@router.get("/cell.xml", operation_id="cell_xml", response_class=Response, responses=XML, openapi_extra=CELL)
async def get_cell_xml(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The value as `<value>`, and every other value of the same plan by its name; an error as `<error>`."""
    return await respond(request, prices, now, heavy, "application/xml", cell_xml)


async def respond(
    request: Request,
    prices: Prices,
    now: datetime,
    heavy: Heavy,
    media: str,
    form: Callable[[Answer, str, datetime], str],
) -> Response:
    """The cell in the form asked for, with its ETag; from memory where the same was asked under the same prices."""
    try:
        value = value_named(request.query_params.get("value", "cost_usd"))
        question = question_of(flat_of(request, "value", "strict"))
        kinds = Accelerators.ANY if dict(question).get("accelerators") == "any" else Accelerators.GPU
        room = room_of(request.app)
        recent = room.recent(kinds)
        market = recent if recent is not None else await heavy.run(room.market, prices, now, kinds)
        known = room.answers.known(question, market)
        answer = known if known is not None else await heavy.run(room.answers.ask, question, market)
        body = form(answer, value, now)
        answer.value(value, now)
    except EstimatorError as error:
        if _strict(request):
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


def kind_of(error: EstimatorError) -> str:
    """The kind of a failure in one word, as in the type of a problem document."""
    kinds = ((UnknownName, "unknown-name"), (PricesUnavailable, "prices-unavailable"), (NoFeasiblePlan, "no-plan"))
    return next((word for kind, word in kinds if isinstance(error, kind)), "bad-input")


def _strict(request: Request) -> bool:
    try:
        return parse_bool(request.query_params.get("strict") or "0", field="strict")
    except EstimatorError:
        return False
