"""What does a cell show when its server refuses? The reason as a text: no spreadsheet shows the body of an error.

Keys, rates and overload are refused before or beside the route of a cell; here such a problem document becomes the
line that a spreadsheet can show, with status 200 and the kind in `X-Error-Type`. `strict=1` keeps the document.
"""

from __future__ import annotations

import json
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import MEDIA_TYPE
from benchmarks_db.errors import EstimatorError
from estimator.request.quantities import parse_bool
from estimator.sheets.cells import ERROR, xml_of

CELLS = {"/v1/cell": "text/plain; charset=utf-8", "/v1/cell.xml": "application/xml"}
STAYS = frozenset({400, 421})  # no request of a spreadsheet: broken, or for another host


class CellErrors:
    """ASGI middleware: problem documents of cells leave as a line of text."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but the refusals of cells."""
        media = CELLS.get(scope.get("path", "")) if scope["type"] == "http" and scope["method"] == "GET" else None
        if media is None or is_strict(scope["query_string"].decode("latin-1")):
            await self.app(scope, receive, send)
            return
        held: Message | None = None
        body = bytearray()

        async def as_text(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_problem(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    text = _line(bytes(body), media)
                    await send(_start(held, text, media, bytes(body)))
                    await send({"type": "http.response.body", "body": text})

        await self.app(scope, receive, as_text)


def is_strict(query: str) -> bool:
    """Whether the query asks for problem documents."""
    try:
        return parse_bool(parse_qs(query).get("strict", ["0"])[-1], field="strict")
    except (EstimatorError, ValueError):
        return False


def _is_problem(message: Message) -> bool:
    status, headers = message["status"], Headers(raw=message["headers"])
    return status not in STAYS and headers.get("content-type", "").startswith(MEDIA_TYPE)


def _line(body: bytes, media: str) -> bytes:
    text = ERROR + " ".join(str(json.loads(body)["detail"]).split())
    return (text if media.startswith("text/") else xml_of({"error": text})).encode()


def _start(refused: Message, text: bytes, media: str, body: bytes) -> Message:
    start = {**refused, "status": 200, "headers": list(refused["headers"])}
    headers = MutableHeaders(raw=start["headers"])
    del headers["www-authenticate"]
    headers["content-type"] = media
    headers["content-length"] = str(len(text))
    headers["cache-control"] = "no-store"
    headers["x-error-type"] = str(json.loads(body)["type"]).rpartition(":")[2]
    return start
