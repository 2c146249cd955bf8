"""Small servers on the loopback address that speak what the clouds speak, with faults on demand.

A `Wire` is one endpoint: its `answer` gives the good reply to a request, and `faults` are functions that get the
request, the good reply and the number of the request, and give what is sent instead (None = the good reply).
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import format_datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.pricing.sources.world import AS_OF


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    base: str

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))


@dataclass(frozen=True)
class Reply:
    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None  # what Content-Length says, when not the truth
    drip_s: float = 0.0  # a byte each so many seconds
    act: str = ""  # "hang" or "reset" instead of a reply


def as_json(value: object, status: int = 200, kind: str = "application/json", **headers: str) -> Reply:
    return Reply(json.dumps(value).encode(), status, kind, headers)


Answer = Callable[[Request], Reply]
Fault = Callable[[Request, Reply, int], "Reply | None"]


class Wire:
    """One endpoint on its own port; use as a context manager."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        wire = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return format_datetime(AS_OF, usegmt=True)

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                headers = {key.lower(): value for key, value in self.headers.items()}
                request = Request(parts.path, query, headers, self.rfile.read(length), wire.url)
                self.give(wire.reply(request))

            do_POST = do_GET  # noqa: N815  (the name that http.server calls)

            def give(self, reply: Reply) -> None:
                if reply.act == "hang":
                    wire._stop.wait(5.0)
                    self.close_connection = True
                    return
                if reply.act == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.kind)
                for key, value in reply.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.close_connection = reply.length is not None
                self.end_headers()
                if reply.drip_s:
                    for byte in reply.body:
                        self.wfile.write(bytes([byte]))
                        if wire._stop.wait(reply.drip_s):
                            break
                    self.close_connection = True
                else:
                    self.wfile.write(reply.body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                pass  # a client that hangs up is what these tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            self._count += 1
            count = self._count
        good = self.answer(request)
        for fault in self.faults:
            changed = fault(request, good, count)
            if changed is not None:
                return changed
        return good

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# ------------------------------------------------------------------------------------------------------------ faults
def only(fault: Fault, when: Callable[[Request], bool]) -> Fault:
    """The fault for some requests alone."""
    return lambda request, good, n: fault(request, good, n) if when(request) else None


def first(times: int, fault: Fault) -> Fault:
    """The fault for the first requests alone."""
    return lambda request, good, n: fault(request, good, n) if n <= times else None


def instead(reply: Reply) -> Fault:
    return lambda request, good, n: reply


def refused(status: int, **headers: str) -> Fault:
    return instead(as_json({"error": {"code": status, "message": "refused", "status": "X"}}, status, **headers))


web_page = instead(Reply(b"<!DOCTYPE html><html><body>Please sign in</body></html>", 200, "text/html; charset=utf-8"))
elsewhere = instead(Reply(b"moved", 302, "text/plain", {"Location": "http://prices.invalid/elsewhere"}))
hang = instead(Reply(act="hang"))
reset = instead(Reply(act="reset"))


def cut_off(request: Request, good: Reply, n: int) -> Reply:
    """Three fifths of the body, and a Content-Length that agrees with it."""
    return replace(good, body=good.body[: len(good.body) * 3 // 5])


def cut_short(request: Request, good: Reply, n: int) -> Reply:
    """Three fifths of the body of the announced length."""
    return replace(good, body=good.body[: len(good.body) * 3 // 5], length=len(good.body))


def cut_gzip(request: Request, good: Reply, n: int) -> Reply:
    """A compressed body that ends early, with a Content-Length that agrees: decoders give a part without an error."""
    packed = gzip.compress(good.body)
    return replace(good, body=packed[: len(packed) * 3 // 5], headers={**good.headers, "Content-Encoding": "gzip"})


def compressed(request: Request, good: Reply, n: int) -> Reply:
    return replace(good, body=gzip.compress(good.body), headers={**good.headers, "Content-Encoding": "gzip"})


@cache
def _blanks() -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    blank = b" " * 2**20
    return b"".join([packer.compress(blank) for _ in range(400)]) + packer.flush()


def bomb(request: Request, good: Reply, n: int) -> Reply:
    """The good body behind 400 MB of blanks that are 2 MB on the wire."""
    packed = _blanks() + gzip.compress(good.body)
    return replace(good, body=packed, headers={**good.headers, "Content-Encoding": "gzip"})


def huge(request: Request, good: Reply, n: int) -> Reply:
    """More than the limit that `quick` sets, and well-formed."""
    return replace(good, body=b" " * (5 * 2**20) + good.body)


def drip(request: Request, good: Reply, n: int) -> Reply:
    return replace(good, drip_s=0.05)


def changed_json(change: Callable[[Any], Any]) -> Fault:
    """The good JSON reply, changed."""

    def fault(request: Request, good: Reply, n: int) -> Reply:
        return replace(good, body=json.dumps(change(json.loads(good.body))).encode())

    return fault
