"""How does a long answer travel? As JSON, or as events with progress; a client that leaves stops the work."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from threading import Event
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from api import metrics, problems
from api.planners import Planners, out_of_time
from api.problems import Problem, Refusal
from benchmarks_db.errors import EstimatorError

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
LOOK = 0.1  # seconds between two looks at the work
BEAT = 1.0  # seconds between two signs of life, which is also how soon a client that left is noticed
LEFT = Response(status_code=499)  # the client has closed the connection: for the log, nobody reads it
UNCACHED = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Cancelled(Exception):  # noqa: N818  (reads as what happened)
    """Nobody waits any more: the work stops at its next step."""


class Steps:
    """Where a piece of work stands; told by the worker's thread, read by the stream."""

    def __init__(self) -> None:
        self.now = ("queued", 0, 0)
        self._stop = Event()

    def __call__(self, stage: str, done: int, whole: int) -> None:
        """The work reaches a step, unless nobody waits for it any more."""
        if self._stop.is_set():
            raise Cancelled
        self.now = (stage, done, whole)

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stop.set()


Work = Callable[[Steps], BaseModel]
Result = TypeVar("Result")


def wants(request: Request, media: str) -> bool:
    """Whether the client asks for an answer in this form before any other one."""
    kinds = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return media in kinds


async def answered(request: Request, planners: Planners, work: Work) -> Response:
    """The document that `work` makes, in the form that the client asks for; the work stops when the client leaves."""

    def written(steps: Steps) -> str:
        steps("prices", 0, 0)
        document = work(steps)
        return metrics.answered(document, document.model_dump_json())

    if not wants(request, EVENTS):
        text = await made(request, planners, written)
        return LEFT if text is None else Response(text, media_type="application/json")
    steps = Steps()
    future = planners.start(lambda: _told(written, steps, request.url.path))
    return StreamingResponse(_events(request, steps, future, planners.seconds), media_type=EVENTS, headers=UNCACHED)


async def made(request: Request, planners: Planners, work: Callable[[Steps], Result]) -> Result | None:
    """What `work` makes in a worker thread; None where the client has left, which stops the work.

    Raises Refusal (503) where it is not there in time, which stops the work as well.
    """
    steps = Steps()
    try:
        return await while_there(request, planners.start(lambda: work(steps)), planners.seconds)
    finally:
        steps.stop()


async def while_there(request: Request, work: asyncio.Future[Result], seconds: float | None) -> Result | None:
    """The result of work under way; None where the client leaves before it is there, which cancels it."""
    left = asyncio.ensure_future(_left(request))
    both: set[asyncio.Future[Any]] = {work, left}
    try:
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if left.done():
            return None
        raise out_of_time(seconds or 0.0)
    finally:
        work.cancel()
        left.cancel()


async def _left(request: Request) -> None:
    """Ends when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(
    request: Request, steps: Steps, future: asyncio.Future[tuple[str, str]], seconds: float
) -> AsyncIterator[str]:
    """`progress` where a stage is new and once a second, then `result` or `problem`."""
    began = time.monotonic()
    said, stage = -BEAT, ""
    try:
        while not future.done():
            elapsed = time.monotonic() - began
            if elapsed > seconds:
                yield _event("problem", _problem(out_of_time(seconds), request.url.path).model_dump_json())
                return
            now, done, whole = steps.now
            if now != stage or elapsed - said >= BEAT:
                said, stage = elapsed, now
                told = {"stage": now, "done": done, "of": whole, "elapsed_seconds": round(elapsed, 1)}
                yield _event("progress", json.dumps(told))
            await asyncio.wait({future}, timeout=min(LOOK, max(0.01, seconds - elapsed)))
        yield _event(*future.result())
    finally:
        steps.stop()
        future.cancel()


def _told(written: Callable[[Steps], str], steps: Steps, path: str) -> tuple[str, str]:
    """The last event of a piece of work; runs in the worker's thread."""
    try:
        return "result", written(steps)
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
