"""Alembic's entry: runs revisions on the connection that it is given (see `pricing.store_migrating`)."""

from __future__ import annotations

from alembic import context

from pricing.store_tables import METADATA

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
