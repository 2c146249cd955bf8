"""The schema moves forward on SQLite and PostgreSQL alike: it equals the models, and nothing old is lost."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from pricing.offers import Freshness
from pricing.store import Store, StoreError
from pricing.store_migrating import FOLDER
from pricing.store_schema import COMPATIBLE, HEAD, REVISIONS
from pricing.store_tables import METADATA
from tests.pricing.old_schema import old_database, rows_of
from tests.pricing.sets import NOW, hours, price_set

OLD_QUESTION = "SELECT max(version) FROM schema_version"  # what the releases before Alembic ask first
OLD_READ = """SELECT scope_id, zone, zone_id, instance_type, usd_per_hour, kept_since, note FROM current_prices"""
OLD_KEYS = "SELECT id, name, scopes, digest, created_at, expires_at, revoked_at FROM api_keys"


def differences(connection: Connection) -> list[object]:
    """What Alembic would still change, so that the database is as the models say.

    How SQLite numbers rows and that it lets a text key be NULL cannot be said in DDL, so it is no difference.
    """
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    found = [
        one for group in compare_metadata(context, METADATA) for one in (group if isinstance(group, list) else [group])
    ]
    if connection.dialect.name == "postgresql":
        return found
    return [
        one
        for one in found
        if one[0] not in ("modify_nullable", "modify_default") or not METADATA.tables[one[2]].c[one[3]].primary_key
    ]


def checks(store: Store) -> dict[str, int]:
    inspector = inspect(store.engine())
    return {name: len(inspector.get_check_constraints(name)) for name in ("prices", "current_prices")}


def test_the_migrated_schema_is_that_of_the_models(store: Store) -> None:
    with store.engine().connect() as connection:
        assert differences(connection) == []
    assert checks(store) == {"prices": 1, "current_prices": 1}


@pytest.mark.parametrize("version", [1, 2])
def test_a_database_of_an_earlier_release_keeps_every_row_and_gets_the_schema_of_a_new_one(
    database: str, version: int
) -> None:
    before = old_database(database, version)
    store = Store(database)
    table, _ = store.current_table(now=NOW, freshness=Freshness())
    assert [offer.price_usd_per_hour for offer in table.offers()] == [1.006]
    with store.engine().connect() as connection:
        after = rows_of(connection)
        assert differences(connection) == []
        assert MigrationContext.configure(connection).get_current_revision() == HEAD
    for name, rows in before.items():
        assert [row for row in after[name] if row in rows] == rows, name
    assert store.switch(price_set({"g5.xlarge": 1.1}, at=hours(1))).outcome == "switched"
    store.close()


def test_an_earlier_release_goes_on_reading_and_writing_the_new_schema(store: Store, database: str) -> None:
    store.switch(price_set({"g5.xlarge": 1.006}))
    old = create_engine(database)
    with old.begin() as connection:
        assert connection.execute(text(OLD_QUESTION)).scalar_one() == COMPATIBLE
        assert [row.usd_per_hour for row in connection.execute(text(OLD_READ))] == [1.006]
        assert connection.execute(text(OLD_KEYS)).all() == []
        connection.execute(text("INSERT INTO scopes (cloud, region, market) VALUES ('aws', 'x', 'spot')"))
    old.dispose()


def test_a_database_of_a_later_release_that_only_added_is_read_and_written_as_it_is(
    store: Store, database: str
) -> None:
    store.switch(price_set({"g5.xlarge": 1.006}))
    with store.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("ALTER TABLE scopes ADD COLUMN later TEXT"))
    store.close()
    ours = Store(database)
    assert len(ours.current_table(now=NOW, freshness=Freshness())[0]) == 1
    assert ours.switch(price_set({"g5.xlarge": 1.2}, at=hours(1))).changed == 1
    with ours.reading() as ask:
        assert ask("SELECT version_num FROM alembic_version") == [("9999",)]
    ours.close()


def test_a_database_of_a_later_release_that_changed_what_we_know_is_refused(store: Store, database: str) -> None:
    with store.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("INSERT INTO schema_version VALUES (99, 0)"))
    store.close()
    with pytest.raises(StoreError, match="newer version"):
        store.scopes()


def test_the_revisions_are_those_that_the_program_knows_in_one_line() -> None:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [HEAD]
    assert tuple(reversed([one.revision for one in script.walk_revisions()])) == REVISIONS


def _open(url: str) -> None:
    Store(url).engine().dispose()


def test_replicas_that_start_together_migrate_once(database: str) -> None:
    old_database(database, 1)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pricing.store_migrating", "pricing.store_writing", "alembic.command"])
    starters = [context.Process(target=_open, args=(database,)) for _ in range(3)]
    for one in starters:
        one.start()
    for one in starters:
        one.join(60)
    assert [one.exitcode for one in starters] == [0] * 3
    store = Store(database)
    with store.reading() as ask:
        assert ask("SELECT version_num FROM alembic_version") == [(HEAD,)]
        assert ask("SELECT count(*) FROM schema_version") == [(2,)]
    store.close()


def test_reading_for_a_plan_loads_neither_alembic_nor_sqlalchemy(tmp_path: Path) -> None:
    import subprocess
    import sys

    url = str(tmp_path / "prices.db")
    Store(url).switch(price_set({"g5.xlarge": 1.006}))
    code = (
        "import sys; from datetime import datetime, UTC; from pricing.store import Store; "
        "from pricing.offers import Freshness; "
        f"Store({url!r}).current_table(now=datetime.now(UTC), freshness=Freshness()); "
        "print([m for m in ('alembic', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_file_that_cannot_be_migrated_because_it_is_read_only_is_read_in_its_older_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/prices.db"
    old_database(url)

    def read_only(*_: object) -> object:
        raise StoreError("read-only", field="database")

    monkeypatch.setattr("pricing.store_writing.connect_engine", read_only)
    assert len(Store(url).current_table(now=NOW, freshness=Freshness())[0]) == 1
    with sqlite3.connect(tmp_path / "prices.db") as connection:
        assert connection.execute(OLD_QUESTION).fetchone() == (2,)
