"""A sheet goes in, the same sheet comes back with its plans: CSV, XLSX or ODS; and the files of the Office add-in."""

from __future__ import annotations

from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.deps import Configured, Heavy, Now, Priced
from api.sheet_room import room_of
from estimator.request.fields import Accelerators
from estimator.sheets.archive import Limits
from estimator.sheets.columns import mapping_of
from estimator.sheets.fill import Report, fill_bytes
from estimator.sheets.options import FillOptions
from estimator.sheets.rows import RowFiller

KINDS = {
    "text/csv": "csv",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
}
UNPACKED_BYTES = 256 * 2**20
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in KINDS},
    }
}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "the same file with results", "content": {kind: {"schema": {}} for kind in KINDS}}
}

OFFICE_HEADERS = {
    "cache-control": "no-cache",
    "cross-origin-resource-policy": "cross-origin",
    "content-security-policy": (
        "default-src 'self'; script-src 'self' https://appsforoffice.microsoft.com; base-uri 'none'; "
        "form-action 'none'; "
        "frame-ancestors https://*.officeapps.live.com https://*.office.com https://*.microsoft.com "
        "https://*.sharepoint.com"
    ),
}
"""Excel shows the page of the functions in a frame and gives it its own script; nothing else may."""
FUNCTIONS = files("estimator") / "sheets" / "functions"

router = APIRouter(tags=["spreadsheets"])


class SheetQuery(BaseModel):
    """Where the workloads stand in the file."""

    model_config = ConfigDict(extra="forbid")

    sheet: str | None = Field(None, max_length=200, description="name of the sheet; the first that fits unless given")
    header_row: int | None = Field(None, ge=1, le=1_048_576, description="row of the headers, from 1")
    map: list[str] = Field(default_factory=list, description="what a column means, `Card=gpu`; may be repeated")


def _kind(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise HTTPException(415, f"the body is {kind or 'of no stated kind'}: send one of {', '.join(KINDS)}")
    return kind


@router.post("/v1/sheet", operation_id="fill_sheet", response_class=Response, responses=ANSWER, openapi_extra=BODY)
async def post_sheet(
    request: Request,
    query: Annotated[SheetQuery, Query()],
    prices: Priced,
    now: Now,
    heavy: Heavy,
    settings: Configured,
) -> Response:
    """The rows of a sheet with their plans behind them, in order; a row that cannot be planned says why in `error`."""
    kind, body = _kind(request), await request.body()
    limits = Limits(unpacked_bytes=UNPACKED_BYTES)
    options = FillOptions(query.sheet, query.header_row, mapping_of(query.map), limits)
    room = room_of(request.app)

    def filled(moment: datetime) -> tuple[bytes, Report]:
        market = room.market(prices, moment, Accelerators.GPU)
        return fill_bytes(
            KINDS[kind], body, options, RowFiller(market, room.answers, most_rows=settings.max_predict_rows)
        )

    content, report = await heavy.run(filled, now)
    counts = {"x-rows": str(report.rows), "x-rows-with-error": str(report.failed)}
    told = " ".join("; ".join(report.notes).split())[:2000].encode("ascii", "replace").decode()
    notes = {"x-notes": told} if told else {}
    return Response(content, media_type=kind, headers=counts | notes)


OFFICE = {
    "manifest.xml": "application/xml",
    "functions.js": "text/javascript",
    "functions.json": "application/json",
    "functions.html": "text/html",
}


@router.get("/office/{name}", include_in_schema=False)
def get_office(request: Request, name: str) -> Response:
    """The Excel add-in of this server: custom functions that ask it."""
    if name not in OFFICE:
        raise HTTPException(404, f"the add-in has {', '.join(OFFICE)}")
    text = (FUNCTIONS / "office" / name).read_text(encoding="utf-8")
    text = text.replace("{{base}}", escape(str(request.base_url).rstrip("/"), quote=True))
    return Response(text, media_type=OFFICE[name], headers=OFFICE_HEADERS)
