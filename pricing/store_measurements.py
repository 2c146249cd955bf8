"""Which measurements does a team share? Rows of `benchmarks_db.contribute`, kept in the database beside the prices.

On a laptop they stay in a file; where `ESTIMATOR_DATABASE_URL` names a database, `benchmarks add` keeps them there and
every replica of the server leans on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from benchmarks_db.contribute import identity, own_rows
from benchmarks_db.errors import WorkloadError
from pricing.store import Store

Row = Mapping[str, str]


def add_measurements(store: Store, rows: Sequence[Row], *, now: datetime, by: str | None = None) -> int:
    """Keep checked rows, all or none; returns how many are new. The same row twice is one."""
    from sqlalchemy import text

    values = [
        {"id": row["id"], "cells": json.dumps(dict(row), sort_keys=True), "at": now.timestamp(), "by": by}
        for row in {row["id"]: row for row in rows}.values()
    ]
    sql = """INSERT INTO measurements (id, cells, added_at, added_by) VALUES (:id, :cells, :at, :by)
             ON CONFLICT (id) DO NOTHING"""
    with store.writing() as connection:
        return sum(connection.execute(text(sql), one).rowcount for one in values)


def measurements_of(store: Store) -> list[dict[str, str]]:
    """Every row, oldest first. WorkloadError for one whose cells are no longer those that were added."""
    if not store.exists():
        return []
    with store.reading() as ask:
        rows = ask("SELECT id, cells FROM measurements ORDER BY added_at, id")
    found = [json.loads(cells) for _, cells in rows]
    for (key, _), cells in zip(rows, found, strict=True):
        if identity(cells) != key:
            words = f"a row of {store.name} is not what was added: remove it"
            raise WorkloadError(words, field="measurements", value=key)
    return found


def kept_measurements(folder: Path, store: Store | None) -> list[dict[str, str]]:
    """What `benchmarks add` has kept: in the file of this computer, then in the shared database, each row once.

    Raises WorkloadError with the line of the file that cannot be used, StoreError for the database.
    """
    rows = {row["id"]: row for row in own_rows(folder)}
    for row in measurements_of(store) if store is not None else ():
        rows.setdefault(row["id"], row)
    return list(rows.values())


def remove_measurement(store: Store, key: str) -> bool:
    """Forget one row; False where there is none of this id."""
    from sqlalchemy import text

    with store.writing() as connection:
        return connection.execute(text("DELETE FROM measurements WHERE id = :id"), {"id": key}).rowcount > 0
