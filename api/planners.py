"""Where is heavy work done? In a few threads beside the event loop, each answer within a budget of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from fastapi import Response
from pydantic import BaseModel

from api import metrics
from api.problems import Refusal
from api.tracing import Tracing

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Planners:
    """Runs the domain's heavy functions off the event loop, a few at a time, so that listings stay quick.

    A thread cannot be stopped from outside: work whose client has gone or whose time is up keeps its thread until it
    is done, so that abandoned requests never add up to more threads than `at_once`; work that still waits is dropped.
    """

    def __init__(
        self, at_once: int, *, seconds: float = 60.0, waiting: int = 64, tracing: Tracing | None = None
    ) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="planner")
        self.seconds = seconds
        self._most = at_once + waiting
        self._lock = Lock()
        self._held = 0
        self._tracing = tracing or Tracing()

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """The result of `function(*args, **kwargs)`, computed in a worker thread.

        Raises Refusal: 503 `busy` when too many wait already, 503 `time-budget` when it is not there in time.
        """
        work = self.start(partial(function, *args, **kwargs))
        done, _ = await asyncio.wait({work}, timeout=self.seconds)
        if not done:
            work.cancel()
            raise out_of_time(self.seconds)
        return work.result()

    def start(self, function: Callable[[], Result], *, patient: bool = False) -> asyncio.Future[Result]:
        """The result to come; the caller watches the time. Cancelling drops the work if it has not begun.

        `patient` work, of which one caller has one piece at a time, waits however many wait already.
        """
        with self._lock:
            if self._held >= self._most and not patient:
                metrics.REFUSED.labels("busy").inc()
                raise Refusal(503, "busy", "too many requests wait already; try again", headers={"retry-after": "2"})
            self._held += 1
        metrics.WAITING.inc()
        # The id of the request, and its span, go along
        work = self._pool.submit(copy_context().run, self._counted, function)
        work.add_done_callback(self._left)
        return asyncio.wrap_future(work)

    def _counted(self, function: Callable[[], Result]) -> Result:
        metrics.WAITING.dec()
        metrics.RUNNING.inc()
        try:
            with self._tracing.span("computed"):
                return function()
        finally:
            metrics.RUNNING.dec()

    def _left(self, work: Future[Any]) -> None:
        if work.cancelled():  # before it began
            metrics.WAITING.dec()
        with self._lock:
            self._held -= 1

    async def answer(self, function: Callable[[], BaseModel]) -> Response:
        """The document that `function` makes, as JSON; written in the same thread, since documents can be large."""
        body = await self.run(lambda: function().model_dump_json())
        return Response(body, media_type="application/json")


def out_of_time(seconds: float) -> Refusal:
    """503: the budget of an answer is used up."""
    metrics.REFUSED.labels("time-budget").inc()
    words = f"not done within {seconds:g} seconds; narrow it (clouds, regions, gpus, max_nodes) or try again"
    return Refusal(503, "time-budget", words, headers={"retry-after": "10"})
