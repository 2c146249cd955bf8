"""How does a long answer travel? As Server-Sent Events with progress, or as one line of JSON for each item."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from threading import Event

from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from api import problems
from api.planners import Planners, out_of_time
from api.problems import Problem, Refusal
from benchmarks_db.errors import EstimatorError

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
BEAT = 1.0  # seconds between two signs of life, which is also how soon a client that left is noticed
UNCACHED = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Cancelled(Exception):  # noqa: N818  (reads as what happened)
    """The client has gone: the work stops at its next step."""


class Steps:
    """Where a piece of work stands; written by the worker's thread, read by the stream."""

    def __init__(self) -> None:
        self.stage = "queued"
        self._stop = Event()

    def reach(self, stage: str) -> None:
        """The work goes on to its next stage, unless nobody waits for it any more."""
        if self._stop.is_set():
            raise Cancelled
        self.stage = stage

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stop.set()


def wants(request: Request, media: str) -> bool:
    """Whether the client asks for an answer in this form before any other one."""
    kinds = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return media in kinds


def events(
    request: Request, planners: Planners, work: Callable[[Steps], BaseModel], seconds: float
) -> StreamingResponse:
    """The answer as events: `progress` while it is made, then `result` or `problem`; cancelled when the client goes."""
    steps = Steps()
    future = planners.start(lambda: _told(work, steps, request.url.path))
    return StreamingResponse(_events(request, steps, future, seconds), media_type=EVENTS, headers=UNCACHED)


async def _events(
    request: Request, steps: Steps, future: asyncio.Future[tuple[str, str]], seconds: float
) -> AsyncIterator[str]:
    began = time.monotonic()
    try:
        while not future.done():
            elapsed = time.monotonic() - began
            if elapsed > seconds:
                steps.stop()
                yield _event("problem", _problem(out_of_time(seconds), request.url.path).model_dump_json())
                return
            yield _event("progress", json.dumps({"stage": steps.stage, "elapsed_seconds": round(elapsed, 1)}))
            await asyncio.wait({future}, timeout=min(BEAT, max(0.01, seconds - elapsed)))
        yield _event(*future.result())
    finally:
        steps.stop()
        future.cancel()


def _told(work: Callable[[Steps], BaseModel], steps: Steps, path: str) -> tuple[str, str]:
    """The last event of a piece of work; runs in the worker's thread."""
    try:
        steps.reach("prices")
        document = work(steps)
        steps.reach("writing")
        return "result", document.model_dump_json()
    except Cancelled:
        return "problem", ""  # nobody reads it
    except Exception as error:
        return "problem", problem(error, path).model_dump_json()


def _event(kind: str, data: str) -> str:
    """One event; JSON text has no line breaks of its own."""
    return f"event: {kind}\ndata: {data}\n\n"


def problem(error: Exception, path: str) -> Problem:
    """What went wrong with one piece of work, as a document inside a stream."""
    if isinstance(error, EstimatorError):
        return problems.problem_of_domain(error, path)
    if isinstance(error, Refusal):
        return _problem(error, path)
    problems.log.error("a streamed part of %s failed", ascii(path)[1:-1], exc_info=error)
    return problems.problem_of(500, "internal", "the server failed on this item; its log says more", path)


def _problem(refusal: Refusal, path: str) -> Problem:
    return problems.problem_of(refusal.status, refusal.kind, refusal.detail, path)
