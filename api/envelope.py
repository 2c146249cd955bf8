"""What does every answer carry? Its request's id, headers that keep browsers careful, and one line in the log."""

from __future__ import annotations

import logging
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import Meter, route_of
from api.problems import REQUEST_ID, unforeseen

log = logging.getLogger("estimator.api")

ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
CAREFUL = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
"""For answers that say nothing else; pages set their own policy, which names what they load."""
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds by machines


class Envelope:
    """ASGI middleware around everything else: no answer, not even that to a fault, leaves without these headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.meter = Meter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name the request, answer it, log it by path; queries, bodies and keys stay out of the log."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = Headers(scope=scope).get("x-request-id", "")
        name = asked if ID.fullmatch(asked) else uuid.uuid4().hex
        token = REQUEST_ID.set(name)
        began, status = self.meter.begin(), 0

        async def enveloped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                headers["x-request-id"] = name
                for header, value in CAREFUL.items():
                    headers.setdefault(header, value)
            await send(message)

        try:
            await self.app(scope, receive, enveloped)
        except Exception as fault:
            log.error("%s %s failed (request %s)", scope["method"], _plain(scope["path"]), name, exc_info=fault)
            if status:  # the answer has begun: the connection breaks off, which the client sees
                raise
            await unforeseen(scope["path"])(scope, receive, enveloped)
        finally:
            seconds = self.meter.end(scope, status, began)
            level = logging.DEBUG if scope["path"] in QUIET else logging.INFO
            if log.isEnabledFor(level):
                told = {"route": route_of(scope), "status": status, "milliseconds": round(seconds * 1000, 1)}
                log.log(level, "%s %s %d", scope["method"], _plain(scope["path"]), status, extra=told)
            REQUEST_ID.reset(token)


def _plain(path: str) -> str:
    """A path for a line of the log: a request cannot begin a line of its own there."""
    return ascii(path[:200])[1:-1]
