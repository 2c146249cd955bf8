"""Prices, their history and what was not believed. Released: never edited again."""

from __future__ import annotations

from pricing.migrations.dialects import execute, reached

revision = "0001"
down_revision = None

STATEMENTS = (
    """CREATE TABLE runs (
        id {id}, started_at {real} NOT NULL, finished_at {real}, summary TEXT)""",
    """CREATE TABLE scopes (
        id {id}, cloud TEXT NOT NULL, region TEXT NOT NULL, market TEXT NOT NULL,
        source TEXT, fetched_at {real}, rows_now INTEGER NOT NULL DEFAULT 0,
        failed_at {real}, failure TEXT, failure_detail TEXT,
        suspicion TEXT, suspicion_since {real}, suspicion_fetches INTEGER NOT NULL DEFAULT 0,
        UNIQUE (cloud, region, market))""",
    """CREATE TABLE price_keys (
        id {id}, scope_id BIGINT NOT NULL REFERENCES scopes (id),
        place TEXT NOT NULL, zone TEXT, zone_id TEXT, instance_type TEXT NOT NULL,
        UNIQUE (scope_id, place, instance_type))""",
    """CREATE TABLE prices (
        id {id}, key_id BIGINT NOT NULL REFERENCES price_keys (id),
        usd_per_hour {real} CHECK (usd_per_hour > 0), seen_at {real} NOT NULL, effective_at {real},
        source TEXT NOT NULL, raw_id TEXT, note TEXT)""",
    "CREATE INDEX prices_by_key ON prices (key_id, seen_at)",
    """CREATE TABLE current_prices (
        key_id BIGINT PRIMARY KEY REFERENCES price_keys (id), scope_id BIGINT NOT NULL REFERENCES scopes (id),
        zone TEXT, zone_id TEXT, instance_type TEXT NOT NULL,
        usd_per_hour {real} CHECK (usd_per_hour > 0), kept_since {real}, note TEXT)""",
    "CREATE INDEX current_by_scope ON current_prices (scope_id)",
    """CREATE TABLE quarantine (
        id {id}, scope_id BIGINT NOT NULL REFERENCES scopes (id),
        place TEXT NOT NULL, instance_type TEXT NOT NULL, price TEXT NOT NULL, reason TEXT NOT NULL,
        detail TEXT NOT NULL, source TEXT NOT NULL, first_seen {real} NOT NULL, last_seen {real} NOT NULL,
        fetches INTEGER NOT NULL, resolution TEXT,
        UNIQUE (scope_id, place, instance_type, reason, price))""",
    """CREATE TABLE instance_types (
        cloud TEXT NOT NULL, instance_type TEXT NOT NULL, facts TEXT NOT NULL, seen_at {real} NOT NULL,
        PRIMARY KEY (cloud, instance_type))""",
    """CREATE TABLE interruptions (
        cloud TEXT NOT NULL, region TEXT NOT NULL, instance_type TEXT NOT NULL,
        low_pct {real} NOT NULL, high_pct {real}, savings_pct {real}, source TEXT NOT NULL,
        observed_at {real} NOT NULL, PRIMARY KEY (cloud, region, instance_type))""",
    "CREATE TABLE generation (n BIGINT NOT NULL)",
    "INSERT INTO generation VALUES (0)",
    "CREATE TABLE packed (generation BIGINT NOT NULL, content {blob} NOT NULL)",
)


def upgrade() -> None:
    """The tables as the first releases made them."""
    execute(STATEMENTS)
    reached(1)
