"""How does a fetched set become the current one? Everything that writes to the price database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from pricing.instances import InstanceType
from pricing.interruptions import InterruptionFact
from pricing.offers import Market
from pricing.quality import JUMP, LastGood, PriceKey, Quarantined, Suspicion, Verdict
from pricing.quality import judge as judge_set
from pricing.sources.base import Failure, FailureReason, PriceSet
from pricing.store import BUSY_SECONDS, Store, StoreError, Switch, facts_text, utc

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

FUTURE_SECONDS = 6 * 3600.0  # a set dated so far after the present was fetched by a wrong clock

Judge = Callable[[PriceSet, LastGood, Mapping[PriceKey, float]], Verdict]


def connect_engine(store: Store) -> Engine:
    """An engine whose transactions take the write lock at once (SQLite) and wait for each other."""
    try:
        if store.path is None:
            from pricing.store_postgres import connect_postgres

            return connect_postgres(store)
        store.path.parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(store.url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise StoreError(f"cannot open the price database {store.name}: {error}", field="database") from None

    @event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _default_judge(fetched: PriceSet, last: LastGood, on_demand: Mapping[PriceKey, float]) -> Verdict:
    return judge_set(fetched, last, on_demand=on_demand)


def switch_set(store: Store, fetched: PriceSet, judge: Judge | None, now: datetime | None) -> Switch:
    """Judge and switch one set (see Store.switch)."""
    at = fetched.fetched_at.timestamp()
    with store.writing() as connection:
        scope = _locked_scope(connection, store.dialect, fetched.cloud, fetched.region, fetched.market)
        if scope["fetched_at"] is not None and scope["fetched_at"] > at:
            if now is None or scope["fetched_at"] - now.timestamp() < FUTURE_SECONDS:
                return Switch("superseded", detail="a newer fetch is already current")
            _redate(connection, scope, at)
        current = _current(connection, scope["id"])
        last = _last_good(connection, scope, current)
        on_demand = _on_demand(connection, fetched) if fetched.market is Market.SPOT else {}
        verdict = (judge or _default_judge)(fetched, last, on_demand)
        _quarantine(connection, scope["id"], fetched.source, verdict.quarantined, at)
        if verdict.suspect:
            _doubt_scope(connection, scope, verdict, at)
            return Switch("suspect", counts=verdict.counts, detail=verdict.suspect)
        return _switch(connection, scope, current, fetched, verdict)


def _locked_scope(connection: Connection, dialect: str, cloud: str, region: str, market: str) -> dict[str, Any]:
    """The scope's row, made if new, locked against other refreshers until the transaction ends."""
    key = {"cloud": cloud, "region": region, "market": str(market)}
    where = "cloud = :cloud AND region = :region AND market = :market"
    lock = " FOR UPDATE" if dialect == "postgresql" else ""
    select = text(f"SELECT * FROM scopes WHERE {where}{lock}")
    row = connection.execute(select, key).mappings().one_or_none()
    if row is None:
        insert = "INSERT INTO scopes (cloud, region, market) VALUES (:cloud, :region, :market) ON CONFLICT DO NOTHING"
        connection.execute(text(insert), key)
        row = connection.execute(select, key).mappings().one()
    return dict(row)


def _redate(connection: Connection, scope: dict[str, Any], at: float) -> None:
    """Take back the dates of a clock that ran ahead: nothing was seen after now, and newer prices must get in."""
    keys = "SELECT id FROM price_keys WHERE scope_id = :scope"
    values = {"scope": scope["id"], "at": at}
    connection.execute(text(f"UPDATE prices SET seen_at = :at WHERE seen_at > :at AND key_id IN ({keys})"), values)
    sql = "UPDATE current_prices SET kept_since = :at WHERE scope_id = :scope AND kept_since > :at"
    connection.execute(text(sql), values)
    scope["fetched_at"] = at


def _current(connection: Connection, scope_id: int) -> dict[PriceKey, dict[str, Any]]:
    sql = """SELECT k.place, k.instance_type, c.key_id, c.usd_per_hour, c.kept_since, c.note, c.zone_id
             FROM current_prices c JOIN price_keys k ON k.id = c.key_id WHERE c.scope_id = :scope"""
    rows = connection.execute(text(sql), {"scope": scope_id}).mappings()
    return {PriceKey(row["place"], row["instance_type"]): dict(row) for row in rows}


def _last_good(
    connection: Connection, scope: Mapping[str, Any], current: Mapping[PriceKey, Mapping[str, Any]]
) -> LastGood:
    sql = """SELECT place, instance_type, price FROM quarantine
             WHERE scope_id = :scope AND reason = :jump AND resolution IS NULL ORDER BY last_seen, id"""
    jumped = {}
    for place, name, price in connection.execute(text(sql), {"scope": scope["id"], "jump": JUMP}):
        jumped[PriceKey(place, name)] = float(price)
    suspicion = None
    if scope["suspicion"]:
        since = utc(scope["suspicion_since"])
        assert since is not None
        suspicion = Suspicion(scope["suspicion"], since, scope["suspicion_fetches"])
    prices = {key: row["usd_per_hour"] for key, row in current.items() if row["usd_per_hour"] is not None}
    return LastGood(scope["source"] or "", prices, jumped, suspicion)


def _on_demand(connection: Connection, fetched: PriceSet) -> dict[PriceKey, float]:
    """The last good on-demand prices of the region (of this refresh, where it switched them first)."""
    sql = """SELECT k.place, k.instance_type, c.usd_per_hour FROM scopes s
             JOIN current_prices c ON c.scope_id = s.id JOIN price_keys k ON k.id = c.key_id
             WHERE s.cloud = :cloud AND s.region = :region AND s.market = 'on-demand'
             AND c.usd_per_hour IS NOT NULL"""
    rows = connection.execute(text(sql), {"cloud": fetched.cloud, "region": fetched.region})
    return {PriceKey(place, name): usd for place, name, usd in rows}


def _quarantine(connection: Connection, scope_id: int, source: str, rows: Sequence[Quarantined], at: float) -> None:
    """Keep what was not believed; the same doubt seen again only counts up."""
    merged = {(r.place, r.instance_type or "", r.reason, r.price): r for r in rows}
    if not merged:
        return
    sql = """INSERT INTO quarantine (scope_id, place, instance_type, price, reason, detail, source, first_seen,
                                     last_seen, fetches, resolution)
             VALUES (:scope, :place, :name, :price, :reason, :detail, :source, :at, :at, 1, :resolution)
             ON CONFLICT (scope_id, place, instance_type, reason, price) DO UPDATE SET
             last_seen = excluded.last_seen, fetches = quarantine.fetches + 1, detail = excluded.detail,
             resolution = excluded.resolution"""
    values = [
        {"scope": scope_id, "place": r.place, "name": r.instance_type or "", "price": r.price, "reason": r.reason,
         "detail": r.detail, "source": source, "at": at, "resolution": r.resolution}
        for _, r in sorted(merged.items())
    ]  # fmt: skip
    connection.execute(text(sql), values)
    resolved = [
        {"scope": scope_id, "place": r.place, "name": r.instance_type, "jump": JUMP, "resolution": r.resolution}
        for r in rows
        if r.reason == JUMP and r.resolution
    ]
    if resolved:
        sql = """UPDATE quarantine SET resolution = :resolution WHERE scope_id = :scope AND place = :place
                 AND instance_type = :name AND reason = :jump AND resolution IS NULL"""
        connection.execute(text(sql), resolved)


def _doubt_scope(connection: Connection, scope: Mapping[str, Any], verdict: Verdict, at: float) -> None:
    again = verdict.fingerprint is not None and scope["suspicion"] == verdict.fingerprint
    sql = """UPDATE scopes SET failed_at = :at, failure = :failure, failure_detail = :detail, suspicion = :suspicion,
             suspicion_since = :since, suspicion_fetches = :fetches WHERE id = :id"""
    values = {
        "id": scope["id"],
        "at": at,
        "failure": FailureReason.SUSPECT.value,
        "detail": verdict.suspect,
        "suspicion": verdict.fingerprint,
        "since": scope["suspicion_since"] if again else at,
        "fetches": scope["suspicion_fetches"] + 1 if again else 1,
    }
    connection.execute(text(sql), values)


def _switch(
    connection: Connection,
    scope: Mapping[str, Any],
    current: Mapping[PriceKey, Mapping[str, Any]],
    fetched: PriceSet,
    verdict: Verdict,
) -> Switch:
    """Write only what differs, then point the scope at this fetch."""
    at = fetched.fetched_at.timestamp()
    priced = {key for key, row in current.items() if row["usd_per_hour"] is not None}
    added = [key for key in verdict.accepted if key not in priced]
    changed = [
        key
        for key, new in verdict.accepted.items()
        if key in priced
        and (current[key]["usd_per_hour"] != new.usd_per_hour or current[key]["kept_since"] is not None)
    ]
    named = [
        key for key, new in verdict.accepted.items()
        if key in priced and new.zone_id and current[key]["zone_id"] != new.zone_id
    ]  # fmt: skip
    moved = [key for key in changed if current[key]["usd_per_hour"] != verdict.accepted[key].usd_per_hour]
    gone = [key for key in current if key not in verdict.accepted and key not in verdict.kept
            and key not in verdict.unpriced and key.place not in fetched.silent_zones]  # fmt: skip
    unpriced = [
        key for key, note in verdict.unpriced.items()
        if key not in current or key in priced or current[key]["note"] != note
    ]  # fmt: skip
    touched = [*added, *changed, *named, *unpriced]
    ids = _key_ids(connection, scope["id"], touched, verdict)
    ids.update({key: row["key_id"] for key, row in current.items()})

    history = [
        {"key": ids[key], "usd": verdict.accepted[key].usd_per_hour, "at": at, "source": fetched.source,
         "effective": _seconds(verdict.accepted[key].effective_at), "raw": verdict.accepted[key].raw_id, "note": None}
        for key in (*added, *moved)
    ] + [
        {"key": ids[key], "usd": None, "at": at, "source": fetched.source, "effective": None, "raw": None,
         "note": verdict.unpriced.get(key, "no longer offered")}
        for key in (*(k for k in gone if k in priced), *(k for k in unpriced if k in priced))
    ]  # fmt: skip
    if history:
        sql = """INSERT INTO prices (key_id, usd_per_hour, seen_at, effective_at, source, raw_id, note)
                 VALUES (:key, :usd, :at, :effective, :source, :raw, :note)"""
        connection.execute(text(sql), history)
    now = []
    for key in dict.fromkeys((*added, *changed, *named)):
        new = verdict.accepted[key]
        now.append({"key": ids[key], "scope": scope["id"], "zone": new.zone, "zone_id": new.zone_id,
                    "name": key.instance_type, "usd": new.usd_per_hour, "kept": None, "note": None})  # fmt: skip
    now += [
        {"key": ids[key], "scope": scope["id"], "zone": key.place or None, "zone_id": None,
         "name": key.instance_type, "usd": None, "kept": None, "note": verdict.unpriced[key]}
        for key in unpriced
    ]  # fmt: skip
    if now:
        sql = """INSERT INTO current_prices (key_id, scope_id, zone, zone_id, instance_type, usd_per_hour, kept_since,
                                             note)
                 VALUES (:key, :scope, :zone, :zone_id, :name, :usd, :kept, :note)
                 ON CONFLICT (key_id) DO UPDATE SET usd_per_hour = excluded.usd_per_hour, zone = excluded.zone,
                 zone_id = excluded.zone_id, kept_since = excluded.kept_since, note = excluded.note"""
        connection.execute(text(sql), now)
    _keep(connection, scope, current, verdict)
    if gone:
        connection.execute(text("DELETE FROM current_prices WHERE key_id = :key"), [{"key": ids[key]} for key in gone])
    sql = """UPDATE scopes SET source = :source, fetched_at = :at, rows_now = :rows, failed_at = NULL, failure = NULL,
             failure_detail = NULL, suspicion = NULL, suspicion_since = NULL, suspicion_fetches = 0 WHERE id = :id"""
    rows = len(verdict.accepted) + len(verdict.kept)
    connection.execute(text(sql), {"id": scope["id"], "source": fetched.source, "at": at, "rows": rows})
    still = bool(added or changed or gone or unpriced)
    if still or named or verdict.kept:
        connection.execute(text("UPDATE generation SET n = n + 1"))
    return Switch(
        "switched" if still else "unchanged",
        added=len(added),
        changed=len(moved),
        gone=len(gone),
        same=len(verdict.accepted) - len(added) - len(moved),
        kept=len(verdict.kept),
        unpriced=len(verdict.unpriced),
        counts=verdict.counts,
    )


def repack(store: Store) -> bool:
    """See Store.repack."""
    from pricing.store_queries import current_rows, pack_rows

    with store.reading() as ask:
        (generation,) = ask("SELECT n FROM generation")[0]
        if ask("SELECT 1 FROM packed WHERE generation = :n", n=generation):
            return False
        content = pack_rows(current_rows(ask))
    with store.writing() as connection:
        connection.execute(text("DELETE FROM packed"))
        insert = text("INSERT INTO packed (generation, content) VALUES (:n, :content)")
        connection.execute(insert, {"n": generation, "content": content})
    return True


def _keep(
    connection: Connection,
    scope: Mapping[str, Any],
    current: Mapping[PriceKey, Mapping[str, Any]],
    verdict: Verdict,
) -> None:
    """Mark the prices that stay although the fetch has none to put in their place, once, with their date."""
    values = [
        {"key": current[key]["key_id"], "note": note, "since": current[key]["kept_since"] or scope["fetched_at"]}
        for key, note in verdict.kept.items()
        if key in current and (current[key]["kept_since"] is None or current[key]["note"] != note)
    ]
    if values:
        sql = "UPDATE current_prices SET kept_since = :since, note = :note WHERE key_id = :key"
        connection.execute(text(sql), values)


def _key_ids(connection: Connection, scope_id: int, keys: Sequence[PriceKey], verdict: Verdict) -> dict[PriceKey, int]:
    """The ids of keys, made where new."""
    if not keys:
        return {}
    values = []
    for key in sorted(set(keys)):
        new = verdict.accepted.get(key)
        zone, zone_id = (new.zone, new.zone_id) if new else (key.place or None, None)
        values.append({"scope": scope_id, "place": key.place, "name": key.instance_type, "zone": zone,
                       "zone_id": zone_id})  # fmt: skip
    sql = """INSERT INTO price_keys (scope_id, place, zone, zone_id, instance_type)
             VALUES (:scope, :place, :zone, :zone_id, :name)
             ON CONFLICT (scope_id, place, instance_type) DO UPDATE SET
             zone_id = coalesce(excluded.zone_id, price_keys.zone_id)"""
    connection.execute(text(sql), values)
    rows = connection.execute(
        text("SELECT place, instance_type, id FROM price_keys WHERE scope_id = :scope"), {"scope": scope_id}
    )
    return {PriceKey(place, name): key_id for place, name, key_id in rows}


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def record_failure(store: Store, failure: Failure, at: datetime) -> None:
    """See Store.record_failure. A failure of a whole cloud marks every set of it that exists."""
    sets = "UPDATE scopes SET failed_at = :at, failure = :failure, failure_detail = :detail WHERE "
    values = {"at": at.timestamp(), "failure": failure.reason.value, "detail": failure.detail, "cloud": failure.cloud}
    with store.writing() as connection:
        if failure.region is not None and failure.market is not None:
            scope = _locked_scope(connection, store.dialect, failure.cloud, failure.region, failure.market)
            connection.execute(text(f"{sets} id = :id"), {**values, "id": scope["id"]})
            return
        where = "cloud = :cloud"
        if failure.region is not None:
            where += " AND region = :region"
        if failure.market is not None:
            where += " AND market = :market"
        values |= {"region": failure.region or "", "market": str(failure.market or "")}
        connection.execute(text(sets + where), values)


def put_instance_types(store: Store, shapes: Iterable[InstanceType], at: datetime) -> int:
    """See Store.put_instance_types; facts that did not change are not written."""
    wanted = {(s.cloud, s.instance_type): facts_text(s) for s in shapes}
    if not wanted:
        return 0
    with store.writing() as connection:
        rows = connection.execute(text("SELECT cloud, instance_type, facts FROM instance_types"))
        known = {(cloud, name): facts for cloud, name, facts in rows}
        values = [
            {"cloud": cloud, "name": name, "facts": facts, "at": at.timestamp()}
            for (cloud, name), facts in sorted(wanted.items())
            if known.get((cloud, name)) != facts
        ]
        if values:
            sql = """INSERT INTO instance_types (cloud, instance_type, facts, seen_at)
                     VALUES (:cloud, :name, :facts, :at) ON CONFLICT (cloud, instance_type)
                     DO UPDATE SET facts = excluded.facts, seen_at = excluded.seen_at"""
            connection.execute(text(sql), values)
    return len(values)


def put_interruptions(store: Store, facts: Sequence[InterruptionFact]) -> int:
    """See Store.put_interruptions; the date moves only with the figures."""
    if not facts:
        return 0
    store.engine()
    known = store.interruptions()
    values = []
    for fact in sorted(facts, key=lambda f: (f.cloud, f.region, f.instance_type)):
        before = known.get((fact.cloud, fact.region, fact.instance_type))
        figures = (fact.low_pct, fact.high_pct, fact.savings_pct, fact.source)
        if before is None or figures != (before.low_pct, before.high_pct, before.savings_pct, before.source):
            values.append({"cloud": fact.cloud, "region": fact.region, "name": fact.instance_type,
                           "low": fact.low_pct, "high": fact.high_pct, "savings": fact.savings_pct,
                           "source": fact.source, "at": fact.observed_at.timestamp()})  # fmt: skip
    if values:
        sql = """INSERT INTO interruptions (cloud, region, instance_type, low_pct, high_pct, savings_pct, source,
                                            observed_at)
                 VALUES (:cloud, :region, :name, :low, :high, :savings, :source, :at)
                 ON CONFLICT (cloud, region, instance_type) DO UPDATE SET low_pct = excluded.low_pct,
                 high_pct = excluded.high_pct, savings_pct = excluded.savings_pct, source = excluded.source,
                 observed_at = excluded.observed_at"""
        with store.writing() as connection:
            connection.execute(text(sql), values)
    return len(values)
