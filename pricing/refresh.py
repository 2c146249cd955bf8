"""How do today's prices get into the store? Sources asked side by side, judged one set at a time, partial success.

Each source splits its work into scopes; scopes run on a few threads, and what they yield is judged and switched by
one writer, on-demand before spot of the same scope, so that spot is held against fresh on-demand prices. Whatever
fails leaves the last good set where it was and is reported; nothing a source does can stop the others.
"""

from __future__ import annotations

import importlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from pricing.instances import InstanceType
from pricing.offers import Market
from pricing.quality import LastGood, Limits, PriceKey, Verdict, judge
from pricing.refresh_reach import LIVE_SOURCES, Reach
from pricing.regions import NEOCLOUDS
from pricing.sources.base import (
    Failure,
    FailureReason,
    Fetched,
    InterruptionFact,
    PriceSet,
    Scope,
    Source,
    SourceSettings,
    SourceUnavailable,
    Wanted,
)
from pricing.store import Store, Switch

EXTRAS = {"boto3": "aws", "botocore": "aws", "google": "gcp"}
NEOCLOUD_SOURCE = "gpuhunt"  # asked only for clouds that are named
QUIET = (FailureReason.NOT_CONFIGURED, FailureReason.REGION_OFF)  # told, but nothing went wrong
HANG_FACTOR = 1.5  # a scope that overstays its own deadline by this is given up
LIMIT_S = 1200.0  # a whole refresh; one of all clouds takes half a minute


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one (cloud, region, market); None in `region` or `market` means all of them."""

    cloud: str
    region: str | None
    market: str | None
    source: str
    outcome: str  # switched, unchanged, partial, superseded, suspect, failed, region-off, skipped
    detail: str = ""
    switch: Switch | None = None

    def document(self) -> dict[str, object]:
        """JSON types only."""
        found: dict[str, object] = {
            "cloud": self.cloud,
            "region": self.region,
            "market": self.market,
            "source": self.source,
            "outcome": self.outcome,
            "detail": self.detail or None,
        }
        if self.switch is not None:
            names = ("added", "changed", "gone", "same", "kept", "unpriced")
            found |= {name: getattr(self.switch, name) for name in names}
            found["counts"] = dict(self.switch.counts)
        return found


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole refresh."""

    started: datetime
    finished: datetime
    outcomes: tuple[Outcome, ...]
    instance_types: int = 0  # new or changed facts
    interruptions: int = 0
    seconds: float = 0.0
    asked_by_name: frozenset[str] = field(default_factory=frozenset)  # clouds
    reach: Reach = field(default_factory=Reach)

    def count(self, *names: str) -> int:
        """How many outcomes have one of the names."""
        return sum(o.outcome in names for o in self.outcomes)

    @property
    def exit_code(self) -> int:
        """0: all that was asked answered; 1: something failed or was suspect, or a cloud asked by name was skipped."""
        asked = any(o.outcome == "skipped" and o.cloud in self.asked_by_name for o in self.outcomes)
        return int(asked or self.count("failed", "suspect", "partial") > 0)

    def by_cloud(self) -> dict[str, Counter[str]]:
        """Counts of outcomes by cloud."""
        found: dict[str, Counter[str]] = {}
        for outcome in self.outcomes:
            found.setdefault(outcome.cloud, Counter())[outcome.outcome] += 1
        return found

    def document(self, *, whole: bool = True) -> dict[str, object]:
        """JSON types only; unless `whole`, sets that went well are counted and not listed."""
        from pricing.offers import iso

        told = [o for o in self.outcomes if whole or o.outcome not in ("switched", "unchanged")]
        return {
            "started": iso(self.started),
            "finished": iso(self.finished),
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "asked": self.reach.document(),
            "instance_types": self.instance_types,
            "interruptions": self.interruptions,
            "counts": {cloud: dict(counts) for cloud, counts in sorted(self.by_cloud().items())},
            "outcomes": [o.document() for o in told],
        }


Progress = Callable[[int, int, str], None]  # scopes done, scopes in all, name of the last


def load_source(cloud: str) -> Source:
    """The live source of a cloud; SourceUnavailable when an extra is not installed."""
    try:
        module: Source = importlib.import_module(f"pricing.sources.{cloud}")
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "pricing", "benchmarks_db"):
            raise
        extra = EXTRAS.get(package, cloud)
        missing = f"{package} is not installed: pip install 'gpu-cost-estimator[{extra}]'"
        raise SourceUnavailable(cloud, missing) from None
    return module


def refresh(
    store: Store,
    settings: SourceSettings,
    *,
    clouds: Sequence[str] = (),
    wanted: Wanted = Wanted(),
    sources: Sequence[Source] | None = None,
    limits: Limits = Limits(),
    accept_suspect: bool = False,
    workers: int = 10,
    on_progress: Progress | None = None,
    counted: bool = True,
    limit_s: float = LIMIT_S,
) -> Summary:
    """Fetch what is wanted of the clouds (empty = all) into the store; never raises for what a source does.

    `accept_suspect`: a person has looked at the suspect sets and takes them. `sources` replaces the live ones. Not
    `counted`: a look at a few prices, which is not the last refresh and puts none off.
    """
    started, clock = settings.clock(), time.monotonic()
    outcomes: list[Outcome] = []
    store.engine()  # made or brought up to date before anybody asks it something
    found = list(sources) if sources is not None else _live_sources(clouds, outcomes)
    jobs = [
        (source, scope)
        for source in found
        for scope in _scopes(source, wanted, settings, outcomes, store)
        if source.NAME != NEOCLOUD_SOURCE or scope.cloud in clouds
    ]
    judging = partial(_judge, limits=limits, accept_suspect=accept_suspect)
    writer = _Writer(store, wanted, judging, settings.clock, outcomes)
    with store.engine().connect():  # held open: whoever closes an SQLite file last writes its log into it
        for done, (scope, results) in enumerate(_fetched(jobs, settings, workers, clock + limit_s), start=1):
            writer.take(scope, results)
            if on_progress:
                on_progress(done, len(jobs), scope.name)
        store.repack()
    summary = Summary(
        started,
        settings.clock(),
        tuple(sorted(outcomes, key=lambda o: (o.cloud, o.region or "", o.market or "", o.source))),
        writer.instance_types,
        writer.interruptions,
        time.monotonic() - clock,
        frozenset(clouds),
        Reach.of(clouds, wanted),
    )
    if counted:
        store.record_run(summary.started, summary.finished, summary.document(whole=False))
    return summary


def _judge(
    fetched: PriceSet,
    last: LastGood,
    on_demand: Mapping[PriceKey, float],
    *,
    limits: Limits,
    accept_suspect: bool,
) -> Verdict:
    return judge(fetched, last, on_demand=on_demand, limits=limits, accept_suspect=accept_suspect)


def _live_sources(clouds: Sequence[str], outcomes: list[Outcome]) -> list[Source]:
    found = []
    names = [cloud for cloud in LIVE_SOURCES if not clouds or cloud in clouds]
    if any(cloud in NEOCLOUDS for cloud in clouds):
        names.append(NEOCLOUD_SOURCE)
    for cloud in names:
        try:
            found.append(load_source(cloud))
        except SourceUnavailable as missing:
            outcomes.append(Outcome(cloud, None, None, cloud, "skipped", missing.missing))
    return found


def _scopes(
    source: Source, wanted: Wanted, settings: SourceSettings, outcomes: list[Outcome], store: Store
) -> list[Scope]:
    """The source's pieces of work; what keeps it from having any is an outcome."""
    try:
        return source.scopes(wanted, settings)
    except SourceUnavailable as missing:
        outcomes.append(Outcome(source.NAME, None, None, source.NAME, "skipped", missing.missing))
    except Exception as error:
        failure = _internal(Scope(source.NAME, None, wanted), error)
        store.record_failure(failure, settings.clock())
        outcomes.append(Outcome(source.NAME, None, None, source.NAME, "failed", failure.detail))
    return []


def _internal(scope: Scope, error: BaseException) -> Failure:
    detail = f"{type(error).__name__}: {error}"[:300]
    return Failure(scope.cloud, scope.region, None, FailureReason.INTERNAL, detail, scope.cloud)


# --- fetching on threads --------------------------------------------------------------------------------------------


def _fetched(
    jobs: Sequence[tuple[Source, Scope]], settings: SourceSettings, workers: int, until: float
) -> list[tuple[Scope, list[Fetched]]] | _Results:
    """What each scope yields, in the order in which they end; at `until` (monotonic seconds) all have ended."""
    return _Results(jobs, settings, workers, until) if jobs else []


class _Results:
    """Runs scopes on daemon threads, so that one that hangs for ever holds back neither the others nor the exit."""

    def __init__(
        self, jobs: Sequence[tuple[Source, Scope]], settings: SourceSettings, workers: int, until: float
    ) -> None:
        self._settings = settings
        self._until = until
        self._todo: queue.SimpleQueue[tuple[int, Source, Scope]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, list[Fetched]]] = queue.SimpleQueue()
        self._begun: dict[int, float] = {}
        self._open = {n: scope for n, (_, scope) in enumerate(jobs)}
        for n, (source, scope) in enumerate(jobs):
            self._todo.put((n, source, scope))
        for _ in range(min(workers, len(jobs))):
            self._start_worker()

    def _start_worker(self) -> None:
        threading.Thread(target=self._work, daemon=True, name="prices").start()

    def _work(self) -> None:
        while True:
            try:
                n, source, scope = self._todo.get_nowait()
            except queue.Empty:
                return
            self._begun[n] = time.monotonic()
            results: list[Fetched] = []
            try:
                results.extend(source.fetch(scope, self._settings))
            except SourceUnavailable as missing:
                reason = FailureReason.NOT_CONFIGURED
                results.append(Failure(scope.cloud, scope.region, None, reason, missing.missing, scope.cloud))
            except Exception as error:
                results.append(_internal(scope, error))
            self._done.put((n, results))

    def __iter__(self) -> _Results:
        return self

    def __next__(self) -> tuple[Scope, list[Fetched]]:
        limit = self._settings.deadline_s * HANG_FACTOR + 5.0
        while self._open:
            try:
                n, results = self._done.get(timeout=0.2)
            except queue.Empty:
                now = time.monotonic()
                if now >= self._until:
                    return self._given_up(next(iter(self._open)), "no answer when the refresh had to end")
                late = next((m for m in self._open if now - self._begun.get(m, now) > limit), None)
                if late is None:
                    continue
                self._start_worker()  # in place of the one that hangs
                return self._given_up(late, f"no answer {limit:.0f} s after it was asked")
            if n in self._open:
                return self._open.pop(n), results
        while not self._todo.empty():  # nobody begins what was given up before
            self._todo.get_nowait()
        raise StopIteration

    def _given_up(self, n: int, detail: str) -> tuple[Scope, list[Fetched]]:
        scope = self._open.pop(n)
        return scope, [Failure(scope.cloud, scope.region, None, FailureReason.TIMEOUT, detail, scope.cloud)]


# --- one writer -----------------------------------------------------------------------------------------------------


class _Writer:
    """Judges and switches what scopes yield, and keeps the outcomes."""

    def __init__(
        self,
        store: Store,
        wanted: Wanted,
        judging: Callable[[PriceSet, LastGood, Mapping[PriceKey, float]], Verdict],
        clock: Callable[[], datetime],
        outcomes: list[Outcome],
    ) -> None:
        self.instance_types = 0
        self.interruptions = 0
        self._store = store
        self._wanted = wanted
        self._judging = judging
        self._clock = clock
        self._outcomes = outcomes

    def take(self, scope: Scope, results: Sequence[Fetched]) -> None:
        """Everything one scope yielded: facts first, then on-demand sets, then the others, then failures."""
        shapes = [r for r in results if isinstance(r, InstanceType)]
        facts = [r for r in results if isinstance(r, InterruptionFact)]
        sets = [r for r in results if isinstance(r, PriceSet)]
        failures = [r for r in results if isinstance(r, Failure)]
        self.instance_types += self._store.put_instance_types(shapes, self._clock())
        self.interruptions += self._store.put_interruptions(facts)
        for fetched in sorted(sets, key=lambda s: (s.market != Market.ON_DEMAND, s.region)):
            switch = self._store.switch(fetched, judge=self._judging, now=self._clock())
            outcome, detail = switch.outcome, switch.detail
            if fetched.silent_zones and outcome in ("switched", "unchanged"):
                outcome, detail = "partial", f"no answer for {', '.join(fetched.silent_zones)}"
            place = (fetched.cloud, fetched.region, fetched.market.value, fetched.source)
            self._outcomes.append(Outcome(*place, outcome, detail, switch))
        ended = {(s.region, s.market) for s in sets}
        failures += self._unanswered(scope, ended, failures)
        for failure in failures:
            self._fail(scope, failure)

    def _unanswered(self, scope: Scope, ended: set[tuple[str, Market]], failures: Sequence[Failure]) -> list[Failure]:
        """Sets that a regional scope owed and said nothing about: our own mistake, and never silence."""
        if scope.region is None or not scope.wanted.markets:
            return []
        failed = {f.market for f in failures if f.prices}
        if None in failed:
            return []
        return [
            Failure(scope.cloud, scope.region, market, FailureReason.INTERNAL, "the source said nothing", scope.cloud)
            for market in sorted(scope.wanted.markets)
            if (scope.region, market) not in ended and market not in failed
        ]

    def _fail(self, scope: Scope, failure: Failure) -> None:
        region = failure.region or scope.region
        outcome = "failed"
        if failure.reason is FailureReason.NOT_CONFIGURED:
            outcome = "skipped"
        elif failure.reason is FailureReason.REGION_OFF and not self._had_prices(failure.cloud, region, failure.market):
            outcome = "region-off"
        if failure.prices and outcome == "failed":
            whole = Failure(failure.cloud, region, failure.market, failure.reason, failure.detail, failure.source)
            for each in self._each_market(whole):
                self._store.record_failure(each, self._clock())
        detail = f"{failure.reason}: {failure.detail}" if outcome == "failed" else failure.detail
        market = failure.market.value if failure.market else None
        self._outcomes.append(Outcome(failure.cloud, region, market, failure.source, outcome, detail))

    def _each_market(self, failure: Failure) -> list[Failure]:
        """A regional failure of all markets, one by one, so that a region never fetched is known as failing too."""
        if failure.region is None or failure.market is not None:
            return [failure]
        return [
            Failure(failure.cloud, failure.region, market, failure.reason, failure.detail, failure.source)
            for market in sorted(self._wanted.markets)
        ]

    def _had_prices(self, cloud: str, region: str | None, market: Market | None) -> bool:
        return any(
            s.cloud == cloud and s.region == region and market in (None, s.market) and s.prices
            for s in self._store.scopes()
        )
