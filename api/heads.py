"""What does a client learn without the answer? HEAD has the headers of GET, without its body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """ASGI middleware: HEAD is answered as GET, its body left out; paths in `apart` answer HEAD themselves."""

    def __init__(self, app: ASGIApp, apart: frozenset[str] = frozenset()) -> None:
        self.app = app
        self.apart = apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask for the answer to GET, pass on what stands before its body."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"] in self.apart:
            await self.app(scope, receive, send)
            return

        async def headers_only(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self.app({**scope, "method": "GET"}, receive, headers_only)
