"""The tables of the database as SQLAlchemy sees them; tests hold the migrated schema against them on both databases.

What each table is for stands in `pricing.store_schema`. Queries are SQL text and need none of this: only writing
migrations and checking them does.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DOUBLE_PRECISION,
    REAL,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

METADATA = MetaData()
REALS: TypeEngine[float] = REAL().with_variant(DOUBLE_PRECISION(), "postgresql")
IDS: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")


def _id() -> Column[Any]:
    return Column("id", IDS, Identity(always=False), primary_key=True)


def _text(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=null)


def _real(name: str, *, null: bool = True) -> Column[Any]:
    return Column(name, REALS, nullable=null)


def _counter(name: str, **more: Any) -> Column[Any]:
    return Column(name, Integer, nullable=False, **more)


def _of(name: str, table: str, **more: Any) -> Column[Any]:
    return Column(name, BigInteger, ForeignKey(f"{table}.id"), nullable=False, **more)


def _positive(name: str) -> CheckConstraint:
    return CheckConstraint(f"{name} > 0")


RUNS = Table(
    "runs", METADATA, _id(), _real("started_at", null=False), _real("finished_at"), _text("summary", null=True)
)

SCOPES = Table(
    "scopes", METADATA,
    _id(), _text("cloud"), _text("region"), _text("market"),
    _text("source", null=True), _real("fetched_at"), _counter("rows_now", server_default="0"),
    _real("failed_at"), _text("failure", null=True), _text("failure_detail", null=True),
    _text("suspicion", null=True), _real("suspicion_since"), _counter("suspicion_fetches", server_default="0"),
    UniqueConstraint("cloud", "region", "market"),
)  # fmt: skip

PRICE_KEYS = Table(
    "price_keys", METADATA,
    _id(), _of("scope_id", "scopes"), _text("place"), _text("zone", null=True), _text("zone_id", null=True),
    _text("instance_type"), UniqueConstraint("scope_id", "place", "instance_type"),
)  # fmt: skip

PRICES = Table(
    "prices", METADATA,
    _id(), _of("key_id", "price_keys"), _real("usd_per_hour"), _real("seen_at", null=False), _real("effective_at"),
    _text("source"), _text("raw_id", null=True), _text("note", null=True),
    _positive("usd_per_hour"), Index("prices_by_key", "key_id", "seen_at"),
)  # fmt: skip

CURRENT_PRICES = Table(
    "current_prices", METADATA,
    Column("key_id", BigInteger, ForeignKey("price_keys.id"), primary_key=True, autoincrement=False),
    _of("scope_id", "scopes"), _text("zone", null=True), _text("zone_id", null=True), _text("instance_type"),
    _real("usd_per_hour"), _real("kept_since"), _text("note", null=True),
    _positive("usd_per_hour"), Index("current_by_scope", "scope_id"),
)  # fmt: skip

QUARANTINE = Table(
    "quarantine", METADATA,
    _id(), _of("scope_id", "scopes"), _text("place"), _text("instance_type"), _text("price"), _text("reason"),
    _text("detail"), _text("source"), _real("first_seen", null=False), _real("last_seen", null=False),
    _counter("fetches"), _text("resolution", null=True),
    UniqueConstraint("scope_id", "place", "instance_type", "reason", "price"),
)  # fmt: skip

INSTANCE_TYPES = Table(
    "instance_types", METADATA,
    Column("cloud", Text, primary_key=True), Column("instance_type", Text, primary_key=True), _text("facts"),
    _real("seen_at", null=False),
)  # fmt: skip

INTERRUPTIONS = Table(
    "interruptions", METADATA,
    *(Column(name, Text, primary_key=True) for name in ("cloud", "region", "instance_type")),
    _real("low_pct", null=False), _real("high_pct"), _real("savings_pct"), _text("source"),
    _real("observed_at", null=False),
)  # fmt: skip

API_KEYS = Table(
    "api_keys", METADATA,
    Column("id", Text, primary_key=True), _text("name"), _text("scopes"), _text("digest"),
    _real("created_at", null=False), _real("expires_at"), _real("revoked_at"),
)  # fmt: skip

MEASUREMENTS = Table(
    "measurements", METADATA,
    Column("id", Text, primary_key=True), _text("cells"), _real("added_at", null=False), _text("added_by", null=True),
)  # fmt: skip

ALERTS = Table(
    "alerts", METADATA,
    Column("id", Text, primary_key=True), _text("last_state"), _real("last_usd"), _real("notified_at"),
)  # fmt: skip

GENERATION = Table("generation", METADATA, Column("n", BigInteger, nullable=False))

PACKED = Table(
    "packed", METADATA, Column("generation", BigInteger, nullable=False), Column("content", LargeBinary, nullable=False)
)

SCHEMA_VERSION = Table(
    "schema_version", METADATA, Column("version", Integer, primary_key=True, autoincrement=False),
    _real("applied_at", null=False),
)  # fmt: skip
