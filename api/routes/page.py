"""What does a person see in a browser? The estimate, how accurate it is, what it is made of; and the page's files."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from api.deps import Heavy, Now, Priced
from api.market import Prices
from api.plan_cache import Plans
from api.problems import Refusal
from api.routes.cells import KEYS
from api.streams import LEFT, made
from api.web import accuracy as accuracies
from api.web import catalogue as catalogues
from api.web import history, words
from api.web.answer import OFFERED, Answer, Planned, answer, key_of, methods, name_of
from api.web.drawings import SHAPES
from api.web.snippets import snippets
from api.web.sources import link_of
from api.web.state import State, body_of, state_of, unfolded, workload_of
from benchmarks_db.errors import EstimatorError
from estimator.documents import PlanDocument
from estimator.planning.steps import Told, silently
from estimator.sheets.tables import plan_csv

router = APIRouter(include_in_schema=False)

FILES = Path(__file__).resolve().parents[1] / "web" / "static"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SAFE = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("api.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        say=words, static=_static, link_of=link_of, shapes=SHAPES, clouds=words.CLOUDS, verdicts=words.VERDICTS,
        kinds=words.KINDS,
        method_names=words.METHODS, terms=words.TERMS,
        run_parts=words.RUN_PARTS, bill_parts=words.BILL_PARTS, reasons=words.REASONS, labels=words.LABELS,
        offered=OFFERED,
        key_of=key_of, name_of=name_of,
    )  # fmt: skip
    return made


def _static(name: str) -> str:
    """The address of a file of the page, which changes with its content."""
    return f"/static/{name}?v={_file(name)[1]}"


@cache
def _file(name: str) -> tuple[bytes, str]:
    content = (FILES / name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:12]


@cache
def _files() -> frozenset[str]:
    return frozenset(str(path.relative_to(FILES)) for path in FILES.rglob("*") if path.suffix in KINDS)


def _drawn(app: FastAPI, here: str, template: str, **shown: Any) -> str:
    return _environment().get_template(template).render(here=here, version=app.version, **shown)


def _page(text: str | None) -> Response:
    """A page, or nothing for a client that has left."""
    return (
        LEFT if text is None else Response(text, headers=SAFE | {"cache-control": "no-store"}, media_type="text/html")
    )


@router.get("/")
async def page(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The form with its answer; its address holds the whole state."""
    state = state_of(request.query_params.multi_items())
    if "read" in request.query_params:
        try:
            return RedirectResponse(unfolded(state).query, 303)  # relative: no Host is repeated
        except EstimatorError:
            pass  # the page says what is wrong
    return _page(await made(request, heavy, lambda steps: _estimate(request.app, state, prices, now, steps)))


def _estimate(app: FastAPI, state: State, prices: Prices, now: datetime, told: Told = silently) -> str:
    """The page of an estimate."""
    a = answer(state, _planned(app, now, told), lambda kinds: prices.table(now, kinds))
    return _drawn(app, "/", "estimate.html", **_around(a, prices, now))


def _planned(app: FastAPI, now: datetime, told: Told) -> Planned:
    """Plans as the API of this server makes them; the same asked again, say in another order, comes from memory."""
    plans: Plans = app.state.plans
    return lambda workload: plans.planned(workload, now, told)


def _around(a: Answer, prices: Prices, now: datetime) -> dict[str, Any]:
    """What stands around an answer: its sentence, the history of its price, the same question elsewhere."""
    if a.document is None or a.entry is None or a.workload is None:
        return {"a": a}
    what = words.title(a.document.workload, a.workload.method.value)
    body = body_of(a.state)
    return {
        "a": a,
        "title": what,
        "sentence": words.sentence(a.entry, what, a.workload.constraints),
        "history": history.of(prices.store, a.entry, now),
        "snippets": snippets(body, KEYS),
    }


def warm_page(app: FastAPI) -> None:
    """Draw every page once, so that the first reader waits for no template."""
    prices, now = app.state.prices, app.state.settings.clock()
    state = state_of([])
    _estimate(app, state, prices, now)
    _methods(app, state, now, silently)
    _accuracy(app)
    _catalogue(app, [], prices, now)
    for name in _files():
        _file(name)


@router.get("/methods")
async def by_method(request: Request, now: Now, heavy: Heavy) -> Response:
    """The same request under each way of fine-tuning, as a piece of the page."""
    state = state_of(request.query_params.multi_items())
    return _page(await made(request, heavy, lambda steps: _methods(request.app, state, now, steps)))


def _methods(app: FastAPI, state: State, now: datetime, told: Told) -> str:
    found = methods(state, _planned(app, now, told))
    return _drawn(app, "/methods", "methods.html", found=found, now=state["method"] or "full")


@router.get("/answer.json")
async def answer_json(request: Request, now: Now, heavy: Heavy) -> Response:
    """The plan of a state of the page, as `POST /v1/plan` answers."""
    text = await made(request, heavy, lambda steps: _asked(request, now, steps).model_dump_json(indent=2))
    return _download(text, "application/json", "plan.json")


@router.get("/answer.csv")
async def answer_csv(request: Request, now: Now, heavy: Heavy) -> Response:
    """The plans of a state of the page as a table."""
    text = await made(request, heavy, lambda steps: plan_csv(_asked(request, now, steps)))
    return _download(text, "text/csv", "plans.csv")


@router.get("/answer.xlsx")
async def answer_xlsx(request: Request, now: Now, heavy: Heavy) -> Response:
    """The plans of a state of the page as a workbook with live formulas."""
    book = await made(request, heavy, lambda steps: _workbook(_asked(request, now, steps)))
    return _download(book, XLSX, "plans.xlsx")


def _workbook(document: PlanDocument) -> bytes:
    try:
        from estimator.sheets.workbook import plan_workbook
    except ImportError:
        raise Refusal(501, "no-workbooks", "this server writes no workbooks: pip install XlsxWriter") from None
    return plan_workbook(document)


def _asked(request: Request, now: datetime, told: Told) -> PlanDocument:
    workload = workload_of(state_of(request.query_params.multi_items()))
    return _planned(request.app, now, told)(workload)


def _download(content: str | bytes | None, kind: str, name: str) -> Response:
    if content is None:
        return LEFT
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(content, media_type=kind, headers=headers)


@router.get("/accuracy")
def accuracy(request: Request) -> Response:
    """How far off the predictions are on what they were not fitted on."""
    return _page(_accuracy(request.app))


def _accuracy(app: FastAPI) -> str:
    return _drawn(app, "/accuracy", "accuracy.html", found=accuracies.report())


@router.get("/catalogue")
async def catalogue(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """GPUs, prices, measurements and models, with filters."""
    query = request.query_params.multi_items()
    return _page(await made(request, heavy, lambda _: _catalogue(request.app, query, prices, now)))


def _catalogue(app: FastAPI, query: list[tuple[str, str]], prices: Prices, now: datetime) -> str:
    found = catalogues.listing(query, prices, now)
    return _drawn(
        app,
        "/catalogue",
        "catalogue.html",
        found=found,
        titles=catalogues.TITLES,
        heading=catalogues.heading,
        filters=catalogues.FILTERS,
        rows=catalogues.ROWS,
        first_query=urlencode({"table": found.table, **found.filters}),
    )


@router.get("/static/{name:path}")
def static(name: str) -> Response:
    """A file of the page; its address changes with its content, so it may be kept for ever."""
    if name not in _files():
        raise HTTPException(404)
    content, tag = _file(name)
    kind = KINDS[Path(name).suffix]
    headers = {"cache-control": "public, max-age=31536000, immutable", "etag": f'"{tag}"'}
    return Response(content, media_type=kind, headers=headers | {"x-content-type-options": "nosniff"})
