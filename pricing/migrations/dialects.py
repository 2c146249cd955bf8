"""What do the revisions share? Types by dialect, and the mark that the first releases go by."""

from __future__ import annotations

import time
from collections.abc import Iterable

import sqlalchemy as sa
from alembic import op

from pricing.store_schema import TYPES, VERSION_TABLE


def execute(statements: Iterable[str]) -> None:
    """Run statements with `{id}`, `{real}` and `{blob}` standing for the dialect's types."""
    types = TYPES[op.get_bind().dialect.name]
    for text in statements:
        op.execute(sa.text(text.format(**types)))


def reached(version: int) -> None:
    """Write down a `schema_version`, the only mark that programs before Alembic look at."""
    execute([VERSION_TABLE])
    mark = sa.text("INSERT INTO schema_version (version, applied_at) VALUES (:version, :at)")
    op.execute(mark.bindparams(version=version, at=time.time()))
