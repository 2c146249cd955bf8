"""Was this page of a listing asked for before? Its bytes are kept until what it lists has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from api import metrics
from api.market import Prices
from api.pages import aged, tag_of, tagged
from estimator.request.fields import Accelerators

MOST_BYTES = 16 * 2**20
Made = tuple[BaseModel, datetime | None]  # a page, and when the newest price on it was observed
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is sent, and what it is a page of: facts, or the offers of a state of the prices."""

    body: bytes
    tag: str
    observed: datetime | None
    offered: tuple[Accelerators, str] | None

    def answer(self, request: Request, now: datetime) -> Response:
        """The page with its ETag, or 304; of prices with their age."""
        headers: Mapping[str, str] = {} if self.offered is None else aged(self.observed, now)
        return tagged(request, self.body, self.tag, headers)


class Listings:
    """Pages of one server by address; the latest some megabytes of them."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._held = 0
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, str], Page] = OrderedDict()

    def at_hand(self, request: Request, prices: Prices, now: datetime) -> Page | None:
        """The page of this very address, if it is still what would be made."""
        key = (request.url.path, request.url.query)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is not None and found.offered is not None:
            kinds, state = found.offered
            market = prices.recent(now, kinds)
            if market is None or market.state != state:
                found = None
        metrics.looked_up("listings", found is not None)
        return found

    async def page(
        self, request: Request, make: Callable[[], Made], offered: tuple[Accelerators, str] | None = None
    ) -> Page:
        """Make the page of a request in a thread, and keep it."""
        answer, observed = await run_in_threadpool(make)
        body = answer.model_dump_json().encode()
        page, key = Page(body, tag_of(body), observed, offered), (request.url.path, request.url.query)
        with self._lock:
            before = self._kept.pop(key, None)
            self._held += len(page.body) - (len(before.body) if before is not None else 0)
            self._kept[key] = page
            while self._held > self._most:
                _, gone = self._kept.popitem(last=False)
                self._held -= len(gone.body)
        return page


class KeptRoute(APIRoute):
    """A route whose pages are kept: what is at hand leaves before the framework reads the query again."""

    def get_route_handler(self) -> Handler:
        """The handler, asked only for what is not at hand."""
        make = super().get_route_handler()

        async def handle(request: Request) -> Response:
            state = request.app.state
            now = state.settings.clock()
            page = state.listings.at_hand(request, state.prices, now)
            return await make(request) if page is None else page.answer(request, now)

        return handle
