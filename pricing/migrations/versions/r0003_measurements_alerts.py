"""Measurements of a team, and what price alerts remember. Released: never edited again."""

from __future__ import annotations

from pricing.migrations.dialects import execute

revision = "0003"
down_revision = "0002"

STATEMENTS = (
    """CREATE TABLE measurements (
        id TEXT PRIMARY KEY, cells TEXT NOT NULL, added_at {real} NOT NULL, added_by TEXT)""",
    """CREATE TABLE alerts (
        id TEXT PRIMARY KEY, last_state TEXT NOT NULL, last_usd {real}, notified_at {real})""",
)


def upgrade() -> None:
    """Two tables more: older programs do not look at them."""
    execute(STATEMENTS)
