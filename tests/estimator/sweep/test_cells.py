"""The answer to a cell: the planner's own figures, whatever is remembered between cells, or the reason for none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from estimator.planning.planner import plan
from estimator.sheets.answers import market_at
from estimator.sweep import cells
from estimator.sweep.cells import Physics, Question, rows_of
from estimator.sweep.spec import spec_of
from estimator.sweep.table import parquet_of, schema_of, table_of
from pricing.offers import current_offers
from tests.estimator.sweep.conftest import GRID, NOW, question_of


def test_a_row_has_the_figures_of_the_plan(question: Question) -> None:
    varied = question.spec.varied(3)
    assert varied == {"model": "llama3-8b", "seq_len": 1024, "deadline": "30h", "budget": 500}
    document = plan(question.spec.workload(varied), offers=question.markets[""].offers, now=NOW)
    (row,) = rows_of(question, 3, Physics())
    assert {key: row[key] for key in document.records()[0]} == document.records()[0]
    assert (row["status"], row["asked_seq_len"], row["cell"]) == ("ok", 1024, 3)


def test_cells_that_differ_in_limits_share_the_physics_and_no_figure_changes(question: Question) -> None:
    shared = Physics()
    for cell in range(len(question.spec)):
        assert rows_of(question, cell, shared) == rows_of(question, cell, Physics())
    assert shared.reused == 18  # of the 24 cells whose model takes adapters: 6 sequence lengths, 4 limits each


def test_the_physics_of_other_prices_is_not_shared() -> None:
    body = {**GRID, "grid": {"model": ["llama3-8b"], "as_of": ["2026-10-01", "2026-11-01"]}}
    shared, question = Physics(), question_of(body)
    rows = [rows_of(question, cell, shared) for cell in range(2)]
    same = question.markets["2026-10-01"].state == question.markets["2026-11-01"].state
    assert shared.reused == int(same)
    assert [row["asked_as_of"] for (row,) in rows] == ["2026-10-01", "2026-11-01"]


def test_negotiated_prices_end_on_their_day_though_the_listed_ones_stay() -> None:
    ended = {"name": "E", "cloud": "aws", "percent": 50, "until": "2026-10-31"}
    limits = {"clouds": ["aws"], "markets": ["on-demand"], "gpus": ["H100:8"]}
    request = {"model": "llama3-8b", "method": "lora", "tokens": "20M", "constraints": limits}
    body = {**request, "negotiated": {"discounts": [ended]}, "grid": {"as_of": ["2026-10-31", "2026-11-01"]}}
    spec, offers, shared = spec_of(body, Path()), current_offers(now=NOW), Physics()
    dated = {text: market_at(offers, datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in spec.dates()}
    before, after = (rows_of(Question(spec, dated), cell, shared)[0] for cell in range(2))
    assert before["usd_per_hour"] == pytest.approx(after["usd_per_hour"] / 2)


def test_a_cell_without_a_plan_says_what_stands_in_the_way(question: Question) -> None:
    (late,) = rows_of(question, 0, Physics())
    (invalid,) = rows_of(question, 24, Physics())
    assert (late["status"], late["binding"]) == ("no-plan", "deadline")
    assert "the fastest plan takes" in late["error"]
    assert invalid["status"] == "invalid"
    assert "method" in invalid["error"]


def test_a_fault_of_the_program_is_the_row_s_alone(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cells, "plan", broken)
    (row,) = rows_of(question, 3, Physics())
    assert (row["status"], row["error"]) == ("fault", "internal fault: ZeroDivisionError: division by zero")


def test_names_that_read_as_formulas_are_made_plain(tmp_path: Path) -> None:
    case = [{"name": '=HYPERLINK("http://x")', "model": "llama3-8b"}, {"name": "@SUM(A1)", "seq_len": 8}]
    question = question_of({**GRID, "grid": {"case": case}})
    rows = [row for cell in range(2) for row in rows_of(question, cell, Physics())]
    (tmp_path / "t.parquet").write_bytes(parquet_of(table_of(rows, schema_of(question.spec, {}))))
    read = pq.read_table(tmp_path / "t.parquet").to_pylist()
    assert [row["asked_name"] for row in read] == ['\'=HYPERLINK("http://x")', "'@SUM(A1)"]
    assert [row["asked_model"] for row in read] == ["llama3-8b", None]


def test_an_axis_of_numbers_is_a_column_of_numbers() -> None:
    grid = {"seq_len": [1024, 2048], "epochs": [1, 0.5], "deadline": ["24h", 24], "packing": [True, False]}
    schema = schema_of(question_of({**GRID, "model": "llama3-8b", "grid": grid}).spec, {})
    assert [str(schema.field(f"asked_{key}").type) for key in grid] == ["int64", "double", "string", "bool"]
