"""What does a person see in a browser? The estimate, how accurate it is, what it is made of; and the page's files."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from api.deps import Heavy, Now, Priced
from api.market import Prices
from api.routes.cells import KEYS
from api.web import accuracy as accuracies
from api.web import catalogue as catalogues
from api.web import history, words
from api.web.answer import OFFERED, Answer, answer, key_of, methods, name_of
from api.web.drawings import SHAPES
from api.web.recent import Recent
from api.web.snippets import cell_query, snippets
from api.web.sources import link_of
from api.web.state import body_of, state_of, unfolded, workload_of
from benchmarks_db.errors import EstimatorError
from estimator import plan
from estimator.documents import PlanDocument
from estimator.sheets.tables import plan_csv

router = APIRouter(include_in_schema=False)

FILES = Path(__file__).resolve().parents[1] / "web" / "static"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
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
        run_parts=words.RUN_PARTS, reasons=words.REASONS, labels=words.LABELS,
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


def _page(request: Request, template: str, status: int = 200, **shown: Any) -> Response:
    text = _environment().get_template(template).render(here=request.url.path, version=request.app.version, **shown)
    return Response(text, status, SAFE | {"cache-control": "no-store"}, "text/html")


@router.get("/")
async def page(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The form with its answer; its address holds the whole state."""
    state = state_of(request.query_params.multi_items())
    if "read" in request.query_params:
        try:
            return RedirectResponse(unfolded(state).query, 303)  # relative: no Host is repeated
        except EstimatorError:
            pass  # the page says what is wrong
    found = await heavy.run(answer, state, lambda kinds: prices.table(now, kinds), now, _recent(request))
    shown = await heavy.run(_around, request, found, prices, now)
    return _page(request, "estimate.html", **shown)


def _recent(request: Request) -> Recent:
    """The plans that this application has just made."""
    if not hasattr(request.app.state, "recent"):
        request.app.state.recent = Recent()
    recent: Recent = request.app.state.recent
    return recent


def _around(request: Request, a: Answer, prices: Prices, now: datetime) -> dict[str, Any]:
    """What stands around an answer: its sentence, the history of its price, the same question elsewhere."""
    if a.document is None or a.entry is None or a.workload is None:
        return {"a": a}
    what = words.title(a.document.workload, a.workload.method.value)
    body = body_of(a.state)
    query = cell_query(body, KEYS)
    xlsx = None if query is None or not _has(request, "/v1/plan.xlsx") else f"/v1/plan.xlsx?{query}"
    return {
        "a": a,
        "title": what,
        "sentence": words.sentence(a.entry, what),
        "history": history.of(prices.store, a.entry, now),
        "snippets": snippets(body, KEYS if _has(request, "/v1/cell") else ()),
        "xlsx": xlsx,
    }


def _has(request: Request, path: str) -> bool:
    return path in request.app.openapi()["paths"]


@router.get("/methods")
async def by_method(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The same request under each way of fine-tuning, as a piece of the page."""
    state = state_of(request.query_params.multi_items())
    found = await heavy.run(methods, state, lambda kinds: prices.table(now, kinds), now)
    return _page(request, "methods.html", found=found, now=state["method"] or "full")


@router.get("/answer.json")
async def answer_json(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The plan of a state of the page, as `POST /v1/plan` answers."""
    document = await heavy.run(_asked, request, prices, now)
    return Response(document.model_dump_json(indent=2), media_type="application/json", headers=_download("plan.json"))


@router.get("/answer.csv")
async def answer_csv(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The plans of a state of the page as a table."""
    document = await heavy.run(_asked, request, prices, now)
    return Response(plan_csv(document), media_type="text/csv", headers=_download("plans.csv"))


def _asked(request: Request, prices: Prices, now: datetime) -> PlanDocument:
    workload = workload_of(state_of(request.query_params.multi_items()))
    return plan(workload, offers=prices.table(now, workload.constraints.accelerators), now=now)


def _download(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}


@router.get("/accuracy")
def accuracy(request: Request) -> Response:
    """How far off the predictions are on what they were not fitted on."""
    return _page(request, "accuracy.html", found=accuracies.report())


@router.get("/catalogue")
async def catalogue(request: Request, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """GPUs, prices, measurements and models, with filters."""
    found = await heavy.run(catalogues.listing, request.query_params.multi_items(), prices, now)
    first = urlencode({"table": found.table, **found.filters})
    return _page(
        request,
        "catalogue.html",
        found=found,
        titles=catalogues.TITLES,
        filters=catalogues.FILTERS,
        rows=catalogues.ROWS,
        first_query=first,
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
