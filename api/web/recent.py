"""What was worked out a moment ago? Plans kept while prices stay, so that sorting or comparing asks for no new one."""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import datetime
from threading import Lock

from estimator import plan
from estimator.documents import PlanDocument
from estimator.planning.steps import Told, silently
from estimator.request.workload import Workload
from estimator.sheets.answers import price_state
from pricing.offers import OfferTable

SECONDS = 15.0
MOST = 64


class Recent:
    """The last plans of one server, by request and state of the prices; safe to share between threads.

    They are kept for seconds only, since a document says how old its prices are.
    """

    def __init__(self, seconds: float = SECONDS, most: int = MOST) -> None:
        self._seconds, self._most = seconds, most
        self._kept: OrderedDict[tuple[str, str], tuple[float, PlanDocument]] = OrderedDict()
        self._lock = Lock()

    def plan(self, workload: Workload, offers: OfferTable, now: datetime, told: Told = silently) -> PlanDocument:
        """The plan of a request at these prices, at most so many seconds old; errors are not kept."""
        key = (workload.model_dump_json(exclude_unset=True), price_state(offers))
        with self._lock:
            made, document = self._kept.get(key, (-self._seconds, None))
            if document is not None and time.monotonic() - made < self._seconds:
                return document
        document = plan(workload, offers=offers, now=now, told=told)
        with self._lock:
            self._kept[key] = (time.monotonic(), document)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return document
