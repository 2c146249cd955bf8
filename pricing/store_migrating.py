"""How is a database brought up to date? By Alembic, inside one transaction, by whoever comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from pricing.store_errors import StoreError
from pricing.store_schema import HEAD, REVISIONS, Reached, reached

FOLDER = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 0x67707570  # PostgreSQL advisory lock: any number, the same everywhere


def state_of(connection: Connection) -> Reached:
    """How far the database is; a question about a table that is not there leaves the transaction usable."""

    def first_of(sql: str) -> Any:
        savepoint = connection.begin_nested()
        try:
            row = connection.execute(text(sql)).first()
        except (OperationalError, ProgrammingError) as error:
            savepoint.rollback()
            if "no such table" in str(error) or "does not exist" in str(error):
                return None
            raise
        savepoint.commit()
        return row[0] if row else None

    return reached(first_of)


def bring_up_to_date(engine: Engine, name: str) -> None:
    """Migrate what is behind; StoreError for a database that this program no longer understands."""
    if migrate(engine) is Reached.BEYOND:
        raise StoreError(too_new(name), field="database")


def too_new(name: str) -> str:
    """What to tell of a database whose `schema_version` is higher than this program's."""
    return f"the price database {name} was written by a newer version of this program: upgrade it"


def migrate(engine: Engine) -> Reached:
    """Apply the missing revisions, all in one transaction; returns how far the database was before.

    Safe to run side by side: the second one waits and finds nothing to do.
    """
    with engine.connect() as connection:  # most often nothing is to be done: no lock is taken for that
        before = state_of(connection)
    if before in (Reached.HERE, Reached.AHEAD, Reached.BEYOND):
        return before
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            from pricing.store_postgres import be_patient

            be_patient(connection)
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        before = state_of(connection)
        if before in (Reached.NOTHING, Reached.BEHIND):
            _upgrade(connection)
        return before


def configured(connection: Connection) -> Any:
    """Alembic's configuration for a connection of ours."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    from alembic import command

    config = configured(connection)
    version = _before_alembic(connection)
    if version:
        command.stamp(config, REVISIONS[version - 1])
    command.upgrade(config, HEAD)


def _before_alembic(connection: Connection) -> int:
    """The `schema_version` of a database that Alembic has never seen, 0 for any other."""
    from sqlalchemy import inspect

    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables or "schema_version" not in tables:
        return 0
    return int(connection.execute(text("SELECT coalesce(max(version), 0) FROM schema_version")).scalar_one())
