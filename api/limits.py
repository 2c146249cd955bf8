"""How much of a request is read? Bodies are bounded in size, time and depth before anything parses them."""

from __future__ import annotations

import asyncio
import re

import numpy as np
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import Refusal, refused

STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # always matches: no byte is read twice


class BodyLimit:
    """ASGI middleware: a body that is too large, too slow or too deep is answered with 413, 408 or 422."""

    def __init__(self, app: ASGIApp, limit: int, seconds: float = 30.0, depth: int = 64) -> None:
        self.app = app
        self.limit = limit
        self.seconds = seconds
        self.depth = depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body up to the limits, then hand it on whole."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await self._body(Headers(scope=scope), receive)
            if body and depth_of(body, self.depth) > self.depth:
                words = f"a JSON body may be nested {self.depth} levels deep"
                raise Refusal(422, "too-deep", words, field="body")
        except Refusal as refusal:
            refusal.headers.setdefault("connection", "close")  # what is still to come is not read
            await refused(scope["path"], refusal)(scope, receive, send)
            return
        if body is None:
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body; None when the client left."""
        stated = headers.get("content-length", "0")
        if stated.isdigit() and int(stated[:20]) > self.limit:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    if len(body) > self.limit:
                        raise self._too_large()
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refusal(408, "too-slow", f"the body did not arrive within {self.seconds:g} seconds") from None

    def _too_large(self) -> Refusal:
        return Refusal(413, "too-large", f"a request body may have {self.limit} bytes")


def depth_of(body: bytes, enough: int = 0) -> int:
    """How deep the brackets of a JSON text are nested, those in strings aside; 0 when they cannot exceed `enough`.

    >>> depth_of(b'[[{"a": "[[[["}]]')
    3
    """
    if body.count(b"[") + body.count(b"{") <= enough:
        return 0
    characters = np.frombuffer(STRING.sub(b"", body), dtype=np.uint8)
    opened = np.isin(characters, np.frombuffer(b"[{", dtype=np.uint8)).astype(np.int8)
    closed = np.isin(characters, np.frombuffer(b"]}", dtype=np.uint8)).astype(np.int8)
    return int(np.cumsum(opened - closed, dtype=np.int64).max(initial=0))
