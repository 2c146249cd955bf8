"""What do the cells of one server share? The answers at hand, the market of the moment, and a place to work out both.

A spreadsheet sends all its cells at once. Whoever asks what is being worked out already waits for that, without
holding a thread; what is new queues here and not before the planners, so a large sheet keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from fastapi import FastAPI

from api import metrics
from api.market import Prices
from api.planners import out_of_time
from api.problems import Refusal
from api.settings import Settings
from api.shared import Shared
from api.shared_answers import answer_of, name_of, text_of
from estimator.request.fields import Accelerators
from estimator.sheets.answers import Answer, Answers, Market, Question

LOOK_AGAIN_SECONDS = 1.0  # beside the time for which `Prices` uses what it has read
MOST_WAITING = 2_000  # different questions
Result = TypeVar("Result")


class SheetRoom:
    """Answers and markets for cells; each question is planned once for each state of the prices."""

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.monotonic, replicas: Shared | None = None
    ) -> None:
        self.answers = Answers()
        self._replicas = replicas or Shared()
        self._seconds_kept = settings.cache_seconds
        self._seconds = settings.request_seconds
        self._pool = ThreadPoolExecutor(max(1, settings.planners // 2), thread_name_prefix="cells")
        self._clock = clock
        self._lock = Lock()
        self._looking = Lock()
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._markets: dict[Accelerators, tuple[float, Market]] = {}  # until when it counts as recent
        self._histories = 0

    async def answer(self, question: Question, prices: Prices, now: datetime) -> Answer:
        """The answer to a question at the prices of this moment.

        Raises Refusal (503) when too many wait already or it is not there in time.
        """
        kinds = Accelerators.ANY if dict(question).get("accelerators") == "any" else Accelerators.GPU
        market = self.recent(kinds)
        if market is None:
            market = await self._shared(kinds, partial(self.market, prices, now, kinds))
        known = self.answers.known(question, market)
        metrics.looked_up("cells", known is not None)
        if known is not None:
            return known
        name = name_of(question, market) if self._replicas.there else None
        if name is not None and (text := await self._replicas.get(name)) is not None:
            told = answer_of(text)
            if told is not None:
                return told
        key = (market.state_for(question), question)
        answer = await self._shared(key, partial(self.answers.ask, question, market))
        if name is not None and answer.error is None:
            await self._replicas.put(name, text_of(answer), self._seconds_kept)
        return answer

    def recent(self, kinds: Accelerators) -> Market | None:
        """The market as it was looked at a moment ago."""
        until, market = self._markets.get(kinds, (0.0, None))
        return market if self._clock() < until else None

    def market(self, prices: Prices, now: datetime, kinds: Accelerators) -> Market:
        """The market of this moment, with a team's measurements and the past of spot prices."""
        with self._looking:
            market = self.recent(kinds)
            if market is None:
                _, before = self._markets.get(kinds, (0.0, None))
                history = prices.history(now)
                self._histories += before is not None and before.history is not history
                market = prices.market(now, kinds).with_past(history, prices.measured(now), f"-{self._histories}")
                self._markets[kinds] = (self._clock() + LOOK_AGAIN_SECONDS, market)
            return market

    async def _shared(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """The result of work that is done once for all who wait for it."""
        future = self._begun(key, work)
        done, _ = await asyncio.wait({asyncio.wrap_future(future)}, timeout=self._seconds)
        if not done:
            raise out_of_time(self._seconds)
        return future.result()

    def _begun(self, key: Hashable, work: Callable[[], Result]) -> Future[Result]:
        with self._lock:
            future = self._under_way.get(key)
            if future is None:
                if len(self._under_way) >= MOST_WAITING:
                    raise Refusal(503, "busy", "too many cells wait already; try again", headers={"retry-after": "5"})
                future = self._under_way[key] = self._pool.submit(copy_context().run, work)
        future.add_done_callback(lambda _: self._under_way.pop(key, None))
        return future


def room_of(app: FastAPI) -> SheetRoom:
    """The room of this application, made at the first cell."""
    if not hasattr(app.state, "sheets"):
        app.state.sheets = SheetRoom(app.state.settings, replicas=app.state.shared)
    room: SheetRoom = app.state.sheets
    return room
