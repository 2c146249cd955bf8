"""A team's measurements in the database, beside those in the file of one computer."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from sqlalchemy import text

from benchmarks_db.contribute import OWN_FILE, add, read_measurements
from benchmarks_db.errors import WorkloadError
from pricing.store import Store
from pricing.store_measurements import add_measurements, kept_measurements, measurements_of, remove_measurement
from tests.pricing.conftest import Estimator
from tests.pricing.sets import NOW, hours

ROWS = "model,gpu,throughput,unit,seq_len\nllama3-8b,H100:8,60000,tokens/s,4096\nresnet50,A100-40GB,2500,samples/s,\n"


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, str]]:
    file = tmp_path / "rows.csv"
    file.write_text(ROWS)
    return read_measurements(file)


def test_rows_come_back_as_they_were_added_each_once(store: Store, rows: list[dict[str, str]]) -> None:
    assert add_measurements(store, rows[:1], now=NOW, by="ci") == 1
    assert add_measurements(store, [*rows, rows[1]], now=hours(1)) == 1
    assert measurements_of(store) == rows


def test_a_row_can_be_removed(store: Store, rows: list[dict[str, str]]) -> None:
    add_measurements(store, rows, now=NOW)
    assert remove_measurement(store, rows[0]["id"])
    assert not remove_measurement(store, rows[0]["id"])
    assert measurements_of(store) == rows[1:]


def test_a_row_that_was_changed_in_the_database_is_told_and_not_used(store: Store, rows: list[dict[str, str]]) -> None:
    add_measurements(store, rows, now=NOW)
    with store.writing() as connection:
        connection.execute(text("UPDATE measurements SET cells = replace(cells, '60000', '90000')"))
    with pytest.raises(WorkloadError, match="not what was added"):
        measurements_of(store)


def test_the_file_of_this_computer_and_the_database_count_together(
    store: Store, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    add(tmp_path / "rows.csv", folder)
    add_measurements(store, rows[1:], now=NOW)
    assert [row["id"] for row in kept_measurements(folder, store)] == [row["id"] for row in rows]
    assert len(kept_measurements(folder, None)) == 2
    (folder / OWN_FILE).write_text("model,gpu\x00")
    with pytest.raises(WorkloadError, match=r"measurements\.csv"):
        kept_measurements(folder, store)


def test_a_sheet_that_is_filled_leans_on_what_the_team_has_measured(
    estimator: Estimator, rows: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_measurements(Store(str(tmp_path / "team.db")), rows, now=NOW)
    monkeypatch.setenv("ESTIMATOR_DATABASE_URL", f"sqlite:///{tmp_path}/team.db")
    (tmp_path / "asked.csv").write_text("model,images,gpu\nresnet50,50k,A100-40GB:1\n")
    code, _, told = estimator("sheet", "fill", str(tmp_path / "asked.csv"), "-o", str(tmp_path / "filled.csv"))
    assert code == 0, told
    (row,) = csv.DictReader((tmp_path / "filled.csv").read_text().splitlines())
    assert row["evidence"] == "own"
