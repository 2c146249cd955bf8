"""Plans, estimates and offers as CSV by GET: stable addresses for IMPORTDATA, Power Query and scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from api.deps import Heavy, Now, Priced, bounded
from api.pages import matching
from api.routes.catalogue import OfferQuery
from api.routes.cells import KEYS, Responses, flat_of, parameters, tagged
from benchmarks_db.errors import WorkloadError
from estimator import estimate, plan
from estimator.documents import EstimateDocument, PlanDocument
from estimator.request.quantities import parse_bool
from estimator.request.workload import Workload
from estimator.sheets.answers import without_files
from estimator.sheets.tables import estimate_csv, offer_lines, plan_csv

CSV: Responses = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
BOM = "1: a byte order mark in front, for Excel"
TABLE = parameters(*KEYS, top="how many plans; 10 unless given", sort="cost, time, value or gpus", bom=BOM)
COMPARISON = parameters(*KEYS, bom=BOM)


def _bom(request: Request) -> bool:
    return parse_bool(request.query_params.get("bom") or "0", field="bom")


def _asked(request: Request) -> Workload:
    flat = flat_of(request, "bom")
    without_files(flat)
    return bounded(Workload.from_flat(flat))


Bom = Annotated[bool, Depends(_bom)]
Flat = Annotated[Workload, Depends(_asked)]

router = APIRouter(prefix="/v1", tags=["spreadsheets"])


@router.get("/plan.csv", operation_id="plan_csv", response_class=Response, responses=CSV, openapi_extra=TABLE)
async def get_plan_csv(request: Request, asked: Flat, bom: Bom, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The ranked plans as a table, one a line; the header alone, and `X-Binding`, where there is none."""

    def planned() -> PlanDocument:
        offers = prices.table(now, asked.constraints.accelerators)
        return plan(asked, offers=offers, now=now, measured=prices.measured(now), history=prices.history(now))

    document = await heavy.run(planned)
    why = {"x-binding": document.binding} if document.binding else {}
    return tagged(request, plan_csv(document, bom=bom), "text/csv", why)


@router.get(
    "/estimate.csv",
    operation_id="estimate_csv",
    response_class=Response,
    responses=CSV,
    openapi_extra=COMPARISON,
)
async def get_estimate_csv(request: Request, asked: Flat, bom: Bom, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The workload on each GPU of `gpu` (`H100:8,A100-80GB:8`) as a table, in that order."""

    def estimated() -> EstimateDocument:
        offers = prices.table(now, asked.constraints.accelerators)
        history = prices.history_for(asked, now)
        return estimate(asked, offers=offers, now=now, measured=prices.measured(now), history=history)

    document = await heavy.run(estimated)
    return tagged(request, estimate_csv(document, bom=bom), "text/csv")


class OfferTableQuery(OfferQuery):
    """Filters of the table of offers; it is whole, not in pages."""

    bom: bool = Field(False, description=BOM)


@router.get("/offers.csv", operation_id="offers_csv", response_class=StreamingResponse, responses=CSV)
def get_offers_csv(query: Annotated[OfferTableQuery, Query()], prices: Priced, now: Now) -> StreamingResponse:
    """Every offer that the filters leave, as a table; `limit` and `cursor` do not apply."""
    if query.cursor is not None:
        raise WorkloadError("the table is whole; it has no pages", field="cursor", value=query.cursor)
    names = ("cloud", "region", "zone", "instance_type", "gpu", "market")
    rows = matching(
        prices.listed(now, query.accelerators, every=query.all), {name: getattr(query, name) for name in names}
    )
    lines: Iterator[str] = offer_lines(rows, bom=query.bom)
    return StreamingResponse(lines, media_type="text/csv", headers={"cache-control": "private, max-age=60"})
