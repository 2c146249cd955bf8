from __future__ import annotations

import doctest
from types import ModuleType

import pytest

import estimator.cli.numbers
import estimator.planning.explain
import estimator.request.custom
import estimator.request.quantities
import estimator.request.sections
from estimator.cli.numbers import count, figure, span, usd


@pytest.mark.parametrize(
    "module",
    [
        estimator.cli.numbers,
        estimator.request.custom,
        estimator.planning.explain,
        estimator.request.quantities,
        estimator.request.sections,
    ],
)
def test_the_examples_in_the_docstrings_hold(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("read", [figure, usd, count])
@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_is_unknown_reads_as_a_dash(read: object, value: float | None) -> None:
    assert callable(read)
    assert read(value) == "-"


def test_an_interval_reads_as_its_middle_and_its_ends() -> None:
    assert span({"p10": 1.0, "p50": 2.5, "p90": 1234.0}, "hours") == "2.5 (1-1,234)"
    assert span(None, "usd") == "-"


def test_a_narrow_terminal_loses_spare_columns_first() -> None:
    from datetime import UTC, datetime
    from pathlib import Path

    from estimator.cli.output import Column, as_table
    from estimator.cli.settings import Settings

    def table(width: int | None, *, color: bool = False) -> list[str]:
        here = Settings(
            now=datetime(2026, 1, 1, tzinfo=UTC),
            offline=True,
            data_dir=Path(),
            database_url=None,
            overrides=None,
            color=color,
            width=width,
            debug=False,
        )
        columns = [
            Column("name", lambda row: str(row["name"])),
            Column("note", lambda row: str(row["note"]), spare=2),
            Column("n", lambda row: str(row["n"]), right=True, spare=1),
        ]
        return as_table([{"name": "a" * 8, "note": "b" * 20, "n": 1}], columns, "table", here).splitlines()

    assert table(None) == ["name      note                  n", "aaaaaaaa  bbbbbbbbbbbbbbbbbbbb  1"]
    assert table(33) == table(None)
    assert table(20) == ["name      n", "aaaaaaaa  1", "(too narrow for: note)"]
    assert table(1) == ["name", "aaaaaaaa", "(too narrow for: note, n)"]
    assert table(None, color=True)[0].startswith("\x1b[1mname")


def test_no_name_becomes_a_formula_in_a_sheet() -> None:
    from estimator.cli.output import as_csv

    rows = [{"name": "=HYPERLINK(1)", "change": -2.5, "known": None, "yes": True, "all": ["a", "b"]}]
    columns = list(rows[0])
    assert as_csv(rows, columns).splitlines() == ["name,change,known,yes,all", "'=HYPERLINK(1),-2.5,,yes,a; b"]
