"""What does a server count? Prometheus metrics of requests, plans, caches and prices, right over several workers.

Counters and histograms are kept by prometheus_client, in files that all workers of `estimator serve` share (its
multiprocess mode), so any worker answers for all. What the database knows (ages, refreshes, quarantine) is asked for
when somebody looks, and is the same from every worker and replica.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
    multiprocess,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

SHARED = "PROMETHEUS_MULTIPROC_DIR"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1e3, 1e4, 1e5, 1e6, 1e7)
PLANS = (0, 1, 3, 10, 30, 100, 300, 1000)
MEMORY_SECONDS = 5.0

OURS = CollectorRegistry()

REQUESTS = Counter(
    "estimator_http_requests", "Requests answered.", ("method", "route", "status"), registry=OURS
)  # fmt: skip
DURATION = Histogram(
    "estimator_http_request_duration_seconds", "From the first byte of a request to the last of its answer.",
    ("method", "route"), buckets=SECONDS, registry=OURS,
)  # fmt: skip
IN_FLIGHT = Gauge(
    "estimator_http_requests_in_flight", "Requests being answered.", multiprocess_mode="livesum", registry=OURS
)
PLAN_PLANS = Histogram("estimator_plan_size_plans", "Plans in an answer.", buckets=PLANS, registry=OURS)
PLAN_BYTES = Histogram("estimator_plan_size_bytes", "Bytes of an answer that was computed.", buckets=SIZES,
                       registry=OURS)  # fmt: skip
RUNNING = Gauge("estimator_planner_running", "Heavy work under way.", multiprocess_mode="livesum", registry=OURS)
WAITING = Gauge(
    "estimator_planner_waiting", "Heavy work that waits for a thread.", multiprocess_mode="livesum", registry=OURS
)
REFUSED = Counter("estimator_planner_refused", "Work refused: too much waits, or out of time.", ("reason",),
                  registry=OURS)  # fmt: skip
CACHE = Counter("estimator_cache_lookups", "Lookups in a cache, found or not.", ("cache", "result"), registry=OURS)
REFRESHES = Counter("estimator_refresh_runs", "Refreshes of prices by these processes.", ("result",), registry=OURS)
LEADER = Gauge(
    "estimator_refresh_is_leader", "1 while a process of this replica fetches prices.", multiprocess_mode="livesum",
    registry=OURS,
)  # fmt: skip
REBUILDS = Counter("estimator_store_rebuilds", "Damaged database files set aside and begun anew.", registry=OURS)
DEPENDENCY = Gauge(
    "estimator_dependency_up", "Whether the database and Redis answered when last asked.", ("dependency",),
    multiprocess_mode="livemin", registry=OURS,
)  # fmt: skip
MEMORY = Gauge("estimator_resident_memory_bytes", "Memory of all workers.", multiprocess_mode="livesum", registry=OURS)

if not os.environ.get(SHARED):  # of one process there is more to say
    ProcessCollector(registry=OURS)
    PlatformCollector(registry=OURS)


def route_of(scope: Scope) -> str:
    """The template of the path that was matched, `none` where nothing was: names of things are no labels."""
    return str(getattr(scope.get("route"), "path", "") or "none")


class Meter:
    """Counts one request; used by the envelope around everything."""

    def __init__(self) -> None:
        self._memory_at = 0.0

    def begin(self) -> float:
        """The time at which a request came in."""
        IN_FLIGHT.inc()
        return time.perf_counter()

    def end(self, scope: Scope, status: int, began: float) -> float:
        """Count it; returns its seconds."""
        now = time.perf_counter()
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = route_of(scope)
        IN_FLIGHT.dec()
        REQUESTS.labels(method, route, str(status)).inc()
        DURATION.labels(method, route).observe(now - began)
        if now - self._memory_at > MEMORY_SECONDS:
            self._memory_at = now
            MEMORY.set(resident_bytes())
        return now - began


def resident_bytes() -> float:
    """Memory of this process; 0 where the system does not tell (it has no /proc)."""
    try:
        return float(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0.0


def looked_up(cache: str, hit: bool) -> None:
    """Count a lookup in one of the caches: prices, plans, listings, cells, shared."""
    CACHE.labels(cache, "hit" if hit else "miss").inc()


def answered(document: object, text: str) -> str:
    """Count the size of a document that was computed; gives its text back."""
    plans = getattr(document, "plans", None)
    if plans is not None:
        PLAN_PLANS.observe(len(plans))
    PLAN_BYTES.observe(len(text))
    return text


class Asked(Collector):
    """Metrics that are asked for when somebody looks."""

    def __init__(self, ask: Callable[[], Iterator[Metric]]) -> None:
        self._ask = ask

    def collect(self) -> Iterator[Metric]:
        """What is known now."""
        return self._ask()


def exposition(more: Callable[[], Iterator[Metric]]) -> bytes:
    """Everything as Prometheus text: of all workers together, then what `more` tells."""
    told = CollectorRegistry()
    told.register(Asked(more))
    folder = os.environ.get(SHARED)
    if not folder:
        return generate_latest(OURS) + generate_latest(told)
    forget_the_dead(Path(folder))
    every = CollectorRegistry()
    multiprocess.MultiProcessCollector(every)  # type: ignore[no-untyped-call]
    return generate_latest(every) + generate_latest(told)


def forget_the_dead(folder: Path) -> None:
    """Gauges of workers that are gone count no more; what they counted stays."""
    for pid in {file.stem.rpartition("_")[2] for file in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(int(pid), str(folder))  # type: ignore[no-untyped-call]
        except (ValueError, PermissionError):
            continue


def documented() -> list[tuple[str, str, str, str]]:
    """Name, kind, labels and meaning of every metric that is counted here, for the documentation."""
    rows = []
    for metric in (REQUESTS, DURATION, IN_FLIGHT, PLAN_PLANS, PLAN_BYTES, RUNNING, WAITING, REFUSED, CACHE, REFRESHES,
                   LEADER, REBUILDS, DEPENDENCY, MEMORY):  # fmt: skip
        (found,) = metric.describe()
        name = found.name + ("_total" if found.type == "counter" else "")
        rows.append((name, found.type, ", ".join(metric._labelnames), found.documentation))
    return rows
