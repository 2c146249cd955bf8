"""Workbooks as finance people have them: nothing of theirs is written over, nothing is read as what it is not."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.styles import PatternFill
from openpyxl.worksheet.table import Table

from benchmarks_db.errors import WorkloadError
from estimator.sheets.columns import RESULTS
from estimator.sheets.fill import Report, fill_bytes, fill_file
from estimator.sheets.numbers import as_number
from estimator.sheets.options import FillOptions
from estimator.sheets.rows import RowFiller
from estimator.sheets.xlsx_styles import shown_as

from .conftest import Office, parts

HEADER: list[Any] = ["Name", "Model", "Method", "Tokens", "GPU", "GPUs"]
RUN: list[Any] = ["a", "llama3-8b", "lora", "50M", "H100", 1]
OTHER: list[Any] = ["b", "mistral-7b", "lora", "50M", "H100", 1]


def book(rows: Sequence[list[Any]], change: Callable[[Any, Any], object] | None = None) -> bytes:
    """A workbook of one sheet `Runs`."""
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.title = "Runs"
    for row in rows:
        sheet.append(row)
    if change is not None:
        change(made, sheet)
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def fill(data: bytes, filler: RowFiller, options: FillOptions | None = None) -> tuple[Any, Report]:
    out, report = fill_bytes("xlsx", data, options or FillOptions(), RowFiller(filler.market, filler.answers))
    return openpyxl.load_workbook(io.BytesIO(out)), report


def column(sheet: Any, title: str, row: int = 1) -> int:
    """The last column of a title."""
    return max(int(cell.column) for cell in sheet[row] if cell.value == title)


# --- what is theirs -------------------------------------------------------------------------------------------------


def test_columns_that_only_share_a_name_with_results_are_not_written_over(filler: RowFiller) -> None:
    own = ["GPU hours", "USD per hour", "Error", "Fits", "evidence"]
    data = book([["Model", "Tokens", *own], ["llama3-8b", "50M", 12, 2.5, "none", "=1+1", "a paper"]])
    once, _ = fill(data, filler)
    out = io.BytesIO()
    once.save(out)
    twice, _ = fill(out.getvalue(), filler)
    for found in (once, twice):
        sheet = found["Runs"]
        assert [cell.value for cell in sheet[1]] == ["Model", "Tokens", *own, *RESULTS]
        assert [cell.value for cell in sheet[2]][2:7] == [12, 2.5, "none", "=1+1", "a paper"]
        assert sheet.cell(2, column(sheet, "gpu_hours")).value != 12


def test_a_filter_grows_by_the_results_so_that_sorting_keeps_rows_together(filler: RowFiller) -> None:
    def filtered(_: Any, sheet: Any) -> None:
        sheet.auto_filter.ref = "A1:F3"

    assert fill(book([HEADER, RUN, OTHER], filtered), filler)[0]["Runs"].auto_filter.ref == "A1:V3"


def listed(name: str, area: str) -> Callable[[Any, Any], None]:
    def change(_: Any, sheet: Any) -> None:
        sheet.add_table(Table(displayName=name, ref=area))

    return change


def test_a_table_grows_by_the_results(filler: RowFiller) -> None:
    found, report = fill(book([HEADER, RUN, OTHER], listed("Quarter", "A1:F3")), filler)
    table = found["Runs"].tables["Quarter"]
    assert (table.ref, table.autoFilter.ref) == ("A1:V3", "A1:V3")
    assert [part.name for part in table.tableColumns] == [*HEADER, *RESULTS]
    assert len({part.id for part in table.tableColumns}) == len(table.tableColumns)
    assert not report.notes
    out = io.BytesIO()
    found.save(out)
    assert fill(out.getvalue(), filler)[0]["Runs"].tables["Quarter"].ref == "A1:V3"


def test_a_table_that_cannot_grow_is_named(filler: RowFiller) -> None:
    data = book([[*HEADER, None, "remark"], RUN], listed("Quarter", "A1:F2"))
    found, report = fill(data, filler)
    assert found["Runs"].tables["Quarter"].ref == "A1:F2"
    assert report.notes == (
        "the table Quarter does not reach to the results: sorting it would part them from their runs",
    )


def test_results_look_like_the_cells_beside_them(filler: RowFiller) -> None:
    fill_of = PatternFill("solid", fgColor="DDEBF7")

    def coloured(_: Any, sheet: Any) -> None:
        for n in range(1, 40):  # a person formats whole rows
            sheet.cell(2, n).fill = fill_of
        for n in range(1, 7):
            sheet.cell(3, n).fill = fill_of
        sheet["F2"].number_format = sheet["F3"].number_format = "0.0"

    sheet = fill(book([HEADER, RUN, OTHER], coloured), filler)[0]["Runs"]
    for row in (2, 3):
        for title, code in (("cost_usd_p50", "#,##0.00"), ("price_date", "yyyy-mm-dd"), ("plan_cloud", "General")):
            cell = sheet.cell(row, column(sheet, title))
            assert cell.fill.fgColor.rgb == "00DDEBF7", (row, title)
            assert cell.number_format == code
        assert isinstance(sheet.cell(row, column(sheet, "price_date")).value, datetime)


ALSO = ("the sheet 'Q2' has runs too, which were not read: fill it with --sheet 'Q2'",)


def second_quarter(made: Any, _: Any) -> None:
    second, empty = made.create_sheet("Q2"), made.create_sheet("Empty")
    for row in (["Quarter two"], HEADER, OTHER):
        second.append(row)
    empty.append(HEADER)


def test_other_sheets_with_runs_are_named(filler: RowFiller) -> None:
    data = book([HEADER, RUN], second_quarter)
    assert fill(data, filler)[1].notes == ALSO
    assert fill(data, filler, FillOptions(sheet="Q2"))[1].notes == ()


def test_a_column_in_an_unknown_unit_is_named(filler: RowFiller) -> None:
    data = book([[*HEADER, "Budget (EUR)", "Notes (mine)"], [*RUN, 1, "x"]])
    report = fill(data, filler)[1]
    assert (report.failed, len(report.notes)) == (0, 1)
    assert report.notes[0].startswith("the column 'Budget (EUR)' was not read")


# --- what is no run -------------------------------------------------------------------------------------------------


def test_headings_sums_and_repeated_headers_are_no_runs(filler: RowFiller) -> None:
    rows: list[list[Any]] = [
        ["Team NLP"], RUN, ["Subtotal", None, None, "50M", None, 1], [], HEADER, OTHER, [None, "n/a"], [None, "-"],
        [None, "Total", "all"], ["Gesamt", None, "lora", "100M"], ["* list prices"],
    ]  # fmt: skip
    _, report = fill(book([HEADER, *rows]), filler)
    assert (report.rows, report.failed) == (2, 0)


def test_a_failed_formula_is_named_by_its_column(filler: RowFiller) -> None:
    rows: list[list[Any]] = [
        HEADER,
        ["a", "llama3-8b", "lora", "50M", "H100", "#REF!"],
        ["b", "#N/A", "lora", "50M", "H100", 1],
    ]
    sheet = fill(book(rows), filler)[0]["Runs"]
    said = [sheet.cell(row, column(sheet, "error")).value for row in (2, 3)]
    assert said == ["gpus: the cell shows #REF!", "model: the cell shows #N/A"]


# --- numbers, hours and dates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "typed", "read"),
    [
        ("tokens", "50 000 000", "50000000"), ("tokens", "50\u00a0000\u00a0000", "50000000"),
        ("tokens", "50\u202f000", "50000"), ("tokens", "50.000.000", "50000000"),
        ("tokens", "50'000'000", "50000000"), ("tokens", "50\u2019000\u2019000", "50000000"),
        ("tokens", "50,000,000", "50,000,000"), ("tokens", "0,05B", "0.05B"), ("tokens", "1,5T", "1.5T"),
        ("tokens", "50 Mio.", "50M"), ("tokens", "1,5 Mrd", "1.5B"), ("tokens", "50M", "50M"),
        ("epochs", "1,5", "1.5"), ("epochs", "1.500", "1.500"), ("deadline", "24,5 h", "24.5 h"),
        ("budget", "$1.000,50", "$1000.50"), ("budget", "1,000.50", "1,000.50"), ("budget", "1.000 €", "1.000 €"),
        ("gpus", "0.125", "0.125"), ("seq_len", "2 048", "2048"), ("model", "gpt 2 1,5", "gpt 2 1,5"),
    ],
)  # fmt: skip
def test_a_number_is_read_as_it_was_meant(key: str, typed: str, read: str) -> None:
    assert as_number(key, typed) == read


@pytest.mark.parametrize("typed", ["50.000", "1.024", "128.000"])
def test_a_number_that_could_be_two_is_asked(typed: str) -> None:
    with pytest.raises(WorkloadError, match="could be"):
        as_number("tokens", typed)


DEADLINES = (24, "24,5", timedelta(hours=30), time(12), datetime(2027, 3, 1), time(0, 15))


def deadlines() -> bytes:
    def change(made: Any, sheet: Any) -> None:
        sheet.auto_filter.ref = "A1:G7"
        second_quarter(made, sheet)

    return book([[*HEADER, "Deadline"], *([*RUN, deadline] for deadline in DEADLINES)], change)


def check_deadlines(sheet: Any) -> None:
    said = [str(sheet.cell(row, column(sheet, "error")).value or "") for row in range(2, 2 + len(DEADLINES))]
    assert said[:4] == [""] * 4
    assert "'2027-03-01' is not a duration" in said[4]
    assert said[5].startswith("no plan satisfies the request, deadline")


def test_cells_of_hours_are_hours_and_a_date_is_no_deadline(filler: RowFiller) -> None:
    check_deadlines(fill(deadlines(), filler)[0]["Runs"])


def test_an_ods_is_treated_alike(filler: RowFiller, office: Office, tmp_path: Path) -> None:
    (tmp_path / "own.xlsx").write_bytes(deadlines())
    report = fill_file(office(tmp_path / "own.xlsx", "ods"), tmp_path / "filled.ods", FillOptions(), filler)
    assert report.notes == ALSO
    sheet = openpyxl.load_workbook(office(tmp_path / "filled.ods", "xlsx"))["Runs"]
    assert sheet.auto_filter.ref == "A1:W7"
    check_deadlines(sheet)


@pytest.mark.parametrize(
    ("number", "code", "kind"),
    [(14, "", "date"), (46, "", "time"), (2, "", ""), (164, "[h]:mm:ss", "time"), (165, '0" days"', ""),
     (166, "[$-409]d/m/yy", "date"), (167, "#,##0.00 [$€-407]", ""), (168, "[Red]0.0", ""), (169, "General", "")],
)  # fmt: skip
def test_formats_of_dates_and_hours_are_known(number: int, code: str, kind: str) -> None:
    assert shown_as(number, code) == kind


def test_parts_that_results_do_not_touch_stay_as_they_are(filler: RowFiller) -> None:
    data = book([HEADER, RUN, [], ["GPU", "USD"], ["H100", 7]], listed("Prices", "A4:B5"))
    before = parts(data)
    after = parts(fill_bytes("xlsx", data, FillOptions(), RowFiller(filler.market, filler.answers))[0])
    assert before["xl/tables/table1.xml"] == after["xl/tables/table1.xml"]


# --- CSV of other programs ------------------------------------------------------------------------------------------

GERMAN = "Name;Modell;Methode;Tokens;GPU;GPUs;Epochs\r\nKöln;llama3-8b;lora;50 Mio;H100;1;1,5\r\n"
MEANT = FillOptions(mapping={"Modell": "model", "Methode": "method"})


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8", "utf-8-sig"])
def test_a_csv_is_read_as_its_program_wrote_it(encoding: str, filler: RowFiller) -> None:
    out, report = fill_bytes("csv", GERMAN.encode(encoding), MEANT, RowFiller(filler.market, filler.answers))
    assert out.startswith(codecs.BOM_UTF8) == (encoding != "utf-8")
    (row,) = csv.DictReader(io.StringIO(out.decode("utf-8-sig"), newline=""), delimiter=";")
    assert (row["Name"], row["error"]) == ("Köln", "")
    assert re.fullmatch(r"\d+,\d+", row["cost_usd_p50"])  # as the file writes its own figures
    assert bool(report.notes) == (not encoding.startswith("utf-8"))


def test_points_stay_points_where_the_file_has_them(filler: RowFiller) -> None:
    text = "model;method;tokens;gpu;epochs\nllama3-8b;lora;50M;H100:1;1.5\n"
    out, _ = fill_bytes("csv", text.encode(), FillOptions(), RowFiller(filler.market, filler.answers))
    (row,) = csv.DictReader(io.StringIO(out.decode(), newline=""), delimiter=";")
    assert re.fullmatch(r"\d+\.\d+", row["cost_usd_p50"])
