"""Where do fetched prices live? A database with the current set of every (cloud, region, market) and its history.

SQLite (one file, write-ahead log) or PostgreSQL by URL. Sets are switched whole, in one transaction, after the
quality gate has judged them inside that transaction, so that several refreshers never undo each other and a process
killed at any moment leaves the last good set. A refresh that found nothing new updates one row per set.

Reading for a plan uses the standard library's sqlite3 and starts in milliseconds; SQLAlchemy is imported only for
writing and for PostgreSQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks_db.errors import WorkloadError
from pricing.instances import InstanceType
from pricing.interruptions import InterruptionFact
from pricing.offers import Freshness, Market, OfferTable
from pricing.store_errors import StoreDamaged, StoreError, telling
from pricing.store_schema import TYPES
from pricing.store_sqlite import BUSY_SECONDS, Row, sqlite_view

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from pricing.quality import LastGood, PriceKey, Verdict
    from pricing.sources.base import Failure, PriceSet
    from pricing.store_queries import Current

Result = TypeVar("Result")
ANSWER_SECONDS = 60.0
INTERRUPTIONS = """SELECT cloud, region, instance_type, low_pct, high_pct, savings_pct, observed_at, source
                   FROM interruptions"""
FACTS = frozenset(one.name for one in fields(InstanceType))


@dataclass(frozen=True, slots=True)
class Switch:
    """What became of one fetched set."""

    outcome: str  # "switched", "unchanged", "suspect", "superseded"
    added: int = 0
    changed: int = 0
    gone: int = 0
    same: int = 0
    kept: int = 0
    unpriced: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ScopeState:
    """One (cloud, region, market): when it was last good, and why it is not renewed."""

    cloud: str
    region: str
    market: str
    source: str | None
    fetched_at: datetime | None
    prices: int
    failed_at: datetime | None
    failure: str | None
    failure_detail: str | None
    kept: int = 0  # of the prices: from before, because the last fetch had none to put in their place

    @property
    def failing(self) -> bool:
        """Whether the last attempt went wrong."""
        return self.failed_at is not None and (self.fetched_at is None or self.failed_at >= self.fetched_at)


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """Something the gate did not believe."""

    cloud: str
    region: str
    market: str
    place: str
    instance_type: str
    price: str
    reason: str
    detail: str
    source: str
    first_seen: datetime
    last_seen: datetime
    fetches: int
    resolution: str | None


def utc(seconds: float | None) -> datetime | None:
    """Seconds since 1970 as a UTC time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def normal_url(url: str) -> str:
    """The URL as SQLAlchemy takes it: a bare path is SQLite, `postgres://` is psycopg."""
    if "://" not in url:
        return f"sqlite:///{url}"
    scheme, rest = url.split("://", 1)
    if scheme in ("postgres", "postgresql"):
        return f"postgresql+psycopg://{rest}"
    if scheme.partition("+")[0] not in TYPES:
        known = ("sqlite:///PATH", "postgresql://HOST/NAME")
        raise WorkloadError(f"unknown kind of database {scheme!r}", field="database_url", value=scheme, nearest=known)
    return url


class Store:
    """The price database. Cheap to construct; connects when asked something."""

    def __init__(self, url: str, answer_s: float = ANSWER_SECONDS) -> None:
        self.answer_s = answer_s  # the longest that PostgreSQL may take for one answer
        self.url = normal_url(url)
        self.dialect = self.url.partition("://")[0].partition("+")[0]
        self.path = Path(self.url.removeprefix("sqlite:///")) if self.dialect == "sqlite" else None
        self.mended = 0  # how often this file was found damaged, set aside and begun anew
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """The database for people: the file, or the URL without its password."""
        if self.path is not None:
            return str(self.path)
        from sqlalchemy import make_url

        return make_url(self.url).render_as_string(hide_password=True)

    def exists(self) -> bool:
        """Whether there is something to read (a PostgreSQL URL always counts)."""
        return self.path is None or self.path.exists()

    # --- connections ------------------------------------------------------------------------------------------------

    def engine(self) -> Engine:
        """The SQLAlchemy engine, made at first use; brings the schema up to date."""
        if self._engine is None:
            from pricing.store_migrating import bring_up_to_date
            from pricing.store_writing import connect_engine

            with telling(self):
                engine = connect_engine(self)
                try:
                    bring_up_to_date(engine, self.name)
                except BaseException:
                    engine.dispose()
                    raise
            self._engine = engine
        return self._engine

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that may write; for SQLite it holds the one write lock."""
        engine = self.engine()
        with telling(self), engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Callable[..., list[Row]]]:
        """A consistent view: yields `ask(sql, **values)`; all questions inside see the same moment."""
        if self.path is not None:
            with telling(self), sqlite_view(self.path) as ask:
                yield ask
            return
        from sqlalchemy import text

        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        engine = self.engine()
        with telling(self), engine.connect().execution_options(**options) as connection, connection.begin():
            yield lambda sql, **values: [tuple(row) for row in connection.execute(text(sql), values)]

    def again(self, work: Callable[[], Result]) -> Result:
        """What `work` gives; once more where it finds a damaged file, which has then been set aside and begun anew."""
        try:
            return work()
        except StoreDamaged as damage:
            from pricing.store_mending import mend

            mend(self, damage)
            return work()

    def close(self) -> None:
        """Let go of all connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # --- writing: see pricing.store_writing -------------------------------------------------------------------------

    def switch(
        self,
        fetched: PriceSet,
        *,
        judge: Callable[[PriceSet, LastGood, Mapping[PriceKey, float]], Verdict] | None = None,
        now: datetime | None = None,
    ) -> Switch:
        """Judge a fetched set and make it the current one, in one transaction; a newer one that is there stays.

        With `now`, the present, one that is dated long after it (by a clock that ran ahead) does not.
        """
        from pricing.store_writing import switch_set

        return self.again(lambda: switch_set(self, fetched, judge, now))

    def repack(self) -> bool:
        """Pack the current set for fast reading, if a switch has outdated the last pack; call after a refresh."""
        from pricing.store_writing import repack

        return repack(self)

    def record_failure(self, failure: Failure, at: datetime) -> None:
        """Remember why a (cloud, region, market) was not renewed; its last good set stays."""
        from pricing.store_writing import record_failure

        record_failure(self, failure, at)

    def put_instance_types(self, shapes: Iterable[InstanceType], at: datetime) -> int:
        """Keep machine facts; returns how many are new or changed."""
        from pricing.store_writing import put_instance_types

        return put_instance_types(self, shapes, at)

    def put_interruptions(self, facts: Sequence[InterruptionFact]) -> int:
        """Keep reclaim statistics; returns how many are new or changed."""
        from pricing.store_writing import put_interruptions

        return put_interruptions(self, facts)

    def record_run(self, started: datetime, finished: datetime, summary: Mapping[str, object]) -> None:
        """Keep one line about a refresh."""
        from sqlalchemy import text

        sql = "INSERT INTO runs (started_at, finished_at, summary) VALUES (:started, :finished, :summary)"
        values = {"started": started.timestamp(), "finished": finished.timestamp(), "summary": json.dumps(summary)}
        with self.writing() as connection:
            connection.execute(text(sql), values)

    # --- reading: see pricing.store_queries -------------------------------------------------------------------------

    def current(self) -> Current:
        """Everything that the current offers are made of, as read now."""
        from pricing.store_queries import read_current

        return self.again(lambda: read_current(self))

    def current_table(self, *, now: datetime, freshness: Freshness) -> tuple[OfferTable, set[tuple[str, str, str]]]:
        """The current offers of all fetched sets, and which (cloud, region, market) these are."""
        return self.current().current_table(now=now, freshness=freshness)

    def table_as_of(self, moment: datetime, *, freshness: Freshness) -> tuple[OfferTable, set[tuple[str, str, str]]]:
        """The offers as they were known at a moment."""
        from pricing.store_queries import table_as_of

        return self.again(lambda: table_as_of(self, moment, freshness))

    def scopes(self) -> list[ScopeState]:
        """Every (cloud, region, market) that was ever asked for."""
        sql = """SELECT cloud, region, market, source, fetched_at, rows_now, failed_at, failure, failure_detail,
                        (SELECT count(*) FROM current_prices c WHERE c.scope_id = scopes.id AND kept_since IS NOT NULL)
                 FROM scopes ORDER BY cloud, region, market"""
        with self.reading() as ask:
            return [
                ScopeState(cloud, region, market, source, utc(fetched), rows, utc(failed), failure, detail, kept)
                for cloud, region, market, source, fetched, rows, failed, failure, detail, kept in ask(sql)
            ]

    def quarantined(self, *, open_only: bool = False) -> list[QuarantinedRow]:
        """What the gate did not believe, newest first."""
        columns = ("cloud", "region", "market", "place", "instance_type", "price", "reason", "detail", "source",
                   "fetches", "resolution")  # fmt: skip
        sql = f"""SELECT cloud, region, market, place, instance_type, price, reason, detail, q.source, fetches,
                         resolution, first_seen, last_seen
                  FROM quarantine q JOIN scopes s ON s.id = q.scope_id
                  {"WHERE resolution IS NULL" if open_only else ""} ORDER BY last_seen DESC, q.id"""
        with self.reading() as ask:
            found = ask(sql)
        return [
            QuarantinedRow(
                **dict(zip(columns, row, strict=True)),
                first_seen=datetime.fromtimestamp(first, UTC),
                last_seen=datetime.fromtimestamp(last, UTC),
            )
            for *row, first, last in found
        ]

    def fetched(self) -> tuple[int, float]:
        """What changes with every fetch: the count of switches, and the time of the newest fetch."""
        with self.reading() as ask:
            ((switches, newest),) = ask("SELECT (SELECT n FROM generation), (SELECT max(fetched_at) FROM scopes)")
        return switches, newest or 0.0

    def doubts(self) -> dict[tuple[str, str], int]:
        """How many open quarantined rows there are by (cloud, reason)."""
        sql = """SELECT s.cloud, q.reason, count(*) FROM quarantine q JOIN scopes s ON s.id = q.scope_id
                 WHERE q.resolution IS NULL GROUP BY s.cloud, q.reason ORDER BY s.cloud, q.reason"""
        with self.reading() as ask:
            return {(cloud, reason): count for cloud, reason, count in ask(sql)}

    def instance_types(self) -> list[InstanceType]:
        """Machine facts seen live."""
        with self.reading() as ask:
            rows = ask("SELECT facts FROM instance_types ORDER BY cloud, instance_type")
        return [shape_of(text) for (text,) in rows]

    def interruptions(self) -> dict[tuple[str, str, str], InterruptionFact]:
        """Reclaim statistics seen live, by (cloud, region, instance type)."""
        with self.reading() as ask:
            return {(row[0], row[1], row[2]): interruption_of(row) for row in ask(INTERRUPTIONS)}

    def last_run(self) -> tuple[datetime, dict[str, object]] | None:
        """When the last refresh ended, and its summary."""
        with self.reading() as ask:
            rows = ask("SELECT finished_at, summary FROM runs ORDER BY id DESC LIMIT 1")
        return (datetime.fromtimestamp(rows[0][0], UTC), json.loads(rows[0][1])) if rows else None


def open_store(url: str) -> Store | None:
    """The store if there is one to read, None before the first refresh."""
    store = Store(url)
    return store if store.exists() else None


def interruption_of(row: Row) -> InterruptionFact:
    """One row of `INTERRUPTIONS`."""
    cloud, region, name, low, high, savings, seen, source = row
    return InterruptionFact(cloud, region, name, low, high, savings, datetime.fromtimestamp(seen, UTC), source)


def shape_of(text: str) -> InstanceType:
    """Machine facts from their JSON text; what a newer version may have added to it is passed over."""
    return InstanceType(**{name: value for name, value in json.loads(text).items() if name in FACTS})


def facts_text(shape: InstanceType) -> str:
    """Machine facts as JSON text, keys in a fixed order."""
    return json.dumps(asdict(shape), sort_keys=True)


__all__ = ["BUSY_SECONDS", "Market", "QuarantinedRow", "Row", "ScopeState", "Store", "StoreError", "Switch",
           "open_store", "utc"]  # fmt: skip
