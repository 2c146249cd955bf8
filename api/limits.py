"""How much of a request is read? Bodies are bounded before anything parses them."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import too_large


class BodyLimit:
    """ASGI middleware: a body of more than `limit` bytes is answered with 413 and never parsed."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body up to the limit, then hand it on whole."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        if stated.isdigit() and int(stated[:20]) > self.limit:
            await too_large(scope["path"], self.limit)(scope, receive, send)
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":  # the client left
                return
            body += message.get("body", b"")
            if len(body) > self.limit:
                await too_large(scope["path"], self.limit)(scope, receive, send)
                return
            if not message.get("more_body"):
                break
        pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)
