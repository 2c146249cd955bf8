"""Keys of the HTTP API. Released: never edited again."""

from __future__ import annotations

from pricing.migrations.dialects import execute, reached

revision = "0002"
down_revision = "0001"

STATEMENTS = (
    """CREATE TABLE api_keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, scopes TEXT NOT NULL, digest TEXT NOT NULL,
        created_at {real} NOT NULL, expires_at {real}, revoked_at {real})""",
)


def upgrade() -> None:
    """The tables as the first releases made them."""
    execute(STATEMENTS)
    reached(2)
