"""What do prices and the database tell a monitor? Ages, failing regions, refreshes, doubts; asked for at a scrape."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any

import numpy as np
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from api.market import Prices
from benchmarks_db import measurements
from benchmarks_db.errors import EstimatorError
from estimator.performance.constants import committed_fingerprint
from estimator.request.fields import Accelerators
from pricing.offers import OfferTable
from pricing.refresh_reach import Reach
from pricing.snapshot import snapshot_table
from pricing.store import Store, StoreError
from pricing.store_leader import last_run_of

SECONDS = 5.0  # several monitors do not each ask the database

PLACE = ("cloud", "market")
DESCRIBED: dict[str, tuple[tuple[str, ...], str]] = {
    "estimator_price_newest_age_seconds": (PLACE, "Age of the newest price that plans may use."),
    "estimator_price_oldest_age_seconds": (PLACE, "Age of the oldest price that plans may use."),
    "estimator_offers": ((*PLACE, "state"), "Offers by state: live, stale, snapshot, unpriced."),
    "estimator_price_scopes": (PLACE, "Regions that were ever fetched."),
    "estimator_price_scopes_failing": (PLACE, "Regions whose last fetch went wrong."),
    "estimator_quarantined_prices": (("cloud", "reason"), "Fetched prices that were not believed, still open."),
    "estimator_refresh_last_run_timestamp_seconds": ((), "When the last refresh of all ended, whoever made it."),
    "estimator_refresh_last_duration_seconds": ((), "How long the last refresh took."),
    "estimator_refresh_last_outcomes": (("cloud", "outcome"), "What became of the regions in the last refresh."),
    "estimator_model_info": (
        ("version", "fit", "measurements", "snapshot"), "Which version, fitted constants, measurements and snapshot."
    ),
}  # fmt: skip


class MarketMetrics:
    """The metrics of one server's prices, worked out anew every few seconds at most."""

    def __init__(self, prices: Prices, now: Callable[[], datetime], reach: Reach = Reach()) -> None:
        self._prices = prices
        self._reach = reach
        self._now = now
        self._lock = Lock()
        self._until = 0.0
        self._found: list[Metric] = []

    def collect(self) -> Iterator[Metric]:
        """Every metric; those of a database that does not answer are missing."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._found = [model_info(), *self._asked()]
                self._until = time.monotonic() + SECONDS
            return iter(self._found)

    def _asked(self) -> Iterator[Metric]:
        now = self._now()
        try:
            yield from offer_metrics(self._prices.table(now, Accelerators.ANY), now)
            store = self._prices.store
            if store is not None:
                yield from store_metrics(store, self._reach)
        except (EstimatorError, StoreError):
            return  # estimator_dependency_up and the log say so


def _gauge(name: str) -> GaugeMetricFamily:
    labels, words = DESCRIBED[name]
    return GaugeMetricFamily(name, words, labels=labels)


def offer_metrics(table: OfferTable, now: datetime) -> Iterator[Metric]:
    """Counts by cloud, market and state; ages of what plans may use by cloud and market."""
    newest, oldest, count = (
        _gauge(f"estimator_{name}") for name in ("price_newest_age_seconds", "price_oldest_age_seconds", "offers")
    )
    sizes = [len(table.names[name]) for name in ("cloud", "market", "state")]
    place = np.ravel_multi_index([table.codes[name] for name in ("cloud", "market", "state")], sizes)
    for key, many in zip(*np.unique(place, return_counts=True), strict=True):
        codes = np.unravel_index(key, sizes)
        labels = [table.names[name][int(code)] for name, code in zip(("cloud", "market", "state"), codes, strict=True)]
        count.add_metric(labels, float(many))
    dated = table.ranked & ~np.isnan(table.observed)
    pair = np.ravel_multi_index([table.codes[name] for name in PLACE], sizes[:2])
    for key in np.unique(pair[dated]):
        seen = table.observed[dated & (pair == key)]
        codes = np.unravel_index(key, sizes[:2])
        labels = [table.names[name][int(code)] for name, code in zip(PLACE, codes, strict=True)]
        newest.add_metric(labels, max(0.0, now.timestamp() - float(seen.max())))
        oldest.add_metric(labels, max(0.0, now.timestamp() - float(seen.min())))
    yield from (newest, oldest, count)


def store_metrics(store: Store, reach: Reach = Reach()) -> Iterator[Metric]:
    """What the database knows of refreshes that asked for so much, and of doubts."""
    scopes, failing = _gauge("estimator_price_scopes"), _gauge("estimator_price_scopes_failing")
    every, wrong = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for scope in store.scopes():
        every[scope.cloud, scope.market] += 1
        wrong[scope.cloud, scope.market] += scope.failing
    for place, many in every.items():
        scopes.add_metric(place, many)
        failing.add_metric(place, wrong[place])
    doubts = _gauge("estimator_quarantined_prices")
    for (cloud, reason), many in store.doubts().items():
        doubts.add_metric((cloud, reason), many)
    yield from (scopes, failing, doubts)
    last = last_run_of(store, reach)
    if last is not None:
        yield from _run_metrics(*last)


def _run_metrics(ended: datetime, summary: dict[str, Any]) -> Iterator[Metric]:
    when, took, outcomes = (
        _gauge(f"estimator_refresh_last_{name}") for name in ("run_timestamp_seconds", "duration_seconds", "outcomes")
    )
    when.add_metric((), ended.timestamp())
    took.add_metric((), float(summary.get("seconds") or 0.0))
    counts: dict[str, dict[str, int]] = summary.get("counts") or {}
    found = Counter({(cloud, outcome): n for cloud, of in counts.items() for outcome, n in of.items()})
    for labels, many in found.items():
        outcomes.add_metric(labels, many)
    yield from (when, took, outcomes)


def model_info() -> Metric:
    """What the numbers of this server come from, by fingerprint and date; the value is always 1."""
    try:
        ours = version("gpu-cost-estimator")
    except PackageNotFoundError:
        ours = "source"
    newest = float(np.nanmax(snapshot_table().observed))
    info = InfoMetricFamily("estimator_model", DESCRIBED["estimator_model_info"][1])
    info.add_metric((), {
        "version": ours, "fit": committed_fingerprint()[:12], "measurements": measurements.fingerprint()[:12],
        "snapshot": time.strftime("%Y-%m-%d", time.gmtime(newest)),
    })  # fmt: skip
    return info
