"""A person's sheet comes back with plans behind every run, and is otherwise the sheet it was."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import openpyxl
import pytest

from benchmarks_db.errors import WorkloadError
from estimator import Workload, plan
from estimator.sheets.answers import Answers, Market
from estimator.sheets.columns import RESULTS
from estimator.sheets.fill import Report, fill_bytes, fill_file
from estimator.sheets.options import FillOptions
from estimator.sheets.rows import RowFiller

from .conftest import HEADER, RUNS, Office, packed, parts

PLAIN = FillOptions()


def filled(data: bytes, filler: RowFiller, kind: str = "xlsx", options: FillOptions = PLAIN) -> tuple[bytes, Report]:
    return fill_bytes(kind, data, options, filler)


def again(filler: RowFiller) -> RowFiller:
    return RowFiller(filler.market, filler.answers)


def results(data: bytes) -> list[dict[str, object]]:
    """Result columns by row of the analyst's sheet."""
    sheet = openpyxl.load_workbook(io.BytesIO(data))["Runs"]
    titles = [cell.value for cell in sheet[3]]
    return [dict(zip(titles, [c.value for c in row], strict=True)) for row in sheet.iter_rows(min_row=4, max_row=17)]


# --- XLSX ----------------------------------------------------------------------------------------------------------


def test_every_run_gets_the_cheapest_plan_of_the_planner(workbook: Path, filler: RowFiller) -> None:
    data, report = filled(workbook.read_bytes(), filler)
    assert (report.sheet, report.rows, report.failed) == ("Runs", 14, 2)
    rows = results(data)
    first = plan(
        Workload.from_flat(
            {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "precision": "bf16",
             "gpu": "H100:1", "market": "on-demand", "epochs": 1}
        ),
        offers=filler.market.offers,
        now=filler.market.now,
    ).plans[0]  # fmt: skip
    assert first.cost_usd is not None
    assert rows[0]["cost_usd_p50"] == first.cost_usd.p50
    assert rows[0]["hours_p50"] == first.hours.p50
    assert rows[0]["plan_instance"] == first.instance_type
    assert first.price.observed_at is not None
    assert rows[0]["price_date"] == first.price.observed_at.replace(tzinfo=None)
    assert [row["Run"] for row in rows] == [run[0] for run in RUNS]
    assert all(isinstance(row["cost_usd_p50"], float) != bool(row["error"]) for row in rows)


def test_a_row_that_cannot_be_planned_says_why_and_has_no_figures(workbook: Path, filler: RowFiller) -> None:
    rows = {str(row["Run"]): row for row in results(filled(workbook.read_bytes(), filler)[0])}
    assert str(rows["typo"]["error"]).startswith("unknown model 'llama3-8bb', did you mean llama3-8b")
    assert "memory" in str(rows["small-gpu"]["error"])
    assert rows["small-gpu"]["fits"] == "no"
    for run in ("typo", "small-gpu"):
        assert all(rows[run][name] is None for name in RESULTS if name not in ("fits", "error"))


def test_everything_else_of_the_workbook_is_kept_byte_by_byte(workbook: Path, filler: RowFiller) -> None:
    before, after = parts(workbook.read_bytes()), parts(filled(workbook.read_bytes(), filler)[0])
    touched = {"xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/workbook.xml"}
    assert set(before) == set(after)
    assert {name for name in before if before[name] != after[name]} <= touched
    assert any("chart" in name for name in before)
    assert any("comment" in name for name in before)
    sheet = openpyxl.load_workbook(io.BytesIO(packed(after)))
    assert sheet["Runs"]["F4"].comment.text == "counted with our tokenizer"
    assert sheet["Runs"]["H19"].value == "=SUM(H4:H17)"
    assert sheet["Runs"]["P19"].value is None  # a total is no run
    assert sheet["Runs"]["A3"].fill.fgColor.rgb == sheet["Runs"]["P3"].fill.fgColor.rgb
    assert 'fullCalcOnLoad="1"' in after["xl/workbook.xml"].decode()


def test_cells_have_formats_that_people_read(workbook: Path, filler: RowFiller) -> None:
    sheet = openpyxl.load_workbook(io.BytesIO(filled(workbook.read_bytes(), filler)[0]))["Runs"]
    titles = {cell.value: cell.column for cell in sheet[3]}
    assert sheet.cell(4, titles["cost_usd_p50"]).number_format == "#,##0.00"
    assert sheet.cell(4, titles["price_date"]).number_format == "yyyy-mm-dd"


def test_a_second_filling_refreshes_the_same_columns(workbook: Path, filler: RowFiller) -> None:
    once, _ = filled(workbook.read_bytes(), filler)
    twice, _ = filled(once, again(filler))
    assert parts(once) == parts(twice)


def test_a_refresh_keeps_what_the_person_made_of_the_result_columns(
    workbook: Path, filler: RowFiller, tmp_path: Path
) -> None:
    book = openpyxl.load_workbook(io.BytesIO(filled(workbook.read_bytes(), filler)[0]))
    sheet = book["Runs"]
    sheet["P4"].number_format = '"$"0'
    sheet["P4"], sheet["AE5"] = 1.0, "old error"
    sheet["AG4"] = "=P4*2"
    book.save(tmp_path / "mine.xlsx")
    sheet = openpyxl.load_workbook(io.BytesIO(filled((tmp_path / "mine.xlsx").read_bytes(), again(filler))[0]))["Runs"]
    assert sheet["P4"].number_format == '"$"0'
    assert sheet["P4"].value > 1
    assert sheet["AE5"].value is None
    assert sheet["AG4"].value == "=P4*2"


def test_cells_beyond_the_header_are_not_written_over(workbook: Path, filler: RowFiller, tmp_path: Path) -> None:
    book = openpyxl.load_workbook(workbook)
    book["Runs"]["R7"] = "a remark under no header"
    book.save(tmp_path / "remark.xlsx")
    sheet = openpyxl.load_workbook(io.BytesIO(filled((tmp_path / "remark.xlsx").read_bytes(), filler)[0]))["Runs"]
    assert sheet["R7"].value == "a remark under no header"
    assert sheet["S3"].value == "cost_usd_p50"


def test_a_formula_that_no_program_has_calculated_is_said_so(filler: RowFiller) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["model", "tokens", "gpu"], ["llama3-8b", "=2*25000000", "H100:1"]):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    read = openpyxl.load_workbook(io.BytesIO(filled(out.getvalue(), filler)[0])).active
    assert read is not None
    assert "open the file in a spreadsheet program" in str(read.cell(2, 3 + len(RESULTS)).value)


def test_another_sheet_and_row_can_be_named(filler: RowFiller) -> None:
    book = openpyxl.Workbook()
    second = book.create_sheet("Zweites")
    for row in (["x"], ["Was", "Wieviel"], ["resnet50", 1000]):
        second.append(row)
    out = io.BytesIO()
    book.save(out)
    options = FillOptions("Zweites", 2, {"Was": "model", "Wieviel": "images"})
    data, report = filled(out.getvalue(), filler, options=options)
    assert (report.rows, report.failed) == (1, 0)
    assert isinstance(openpyxl.load_workbook(io.BytesIO(data))["Zweites"]["C3"].value, float)
    with pytest.raises(WorkloadError, match="there is no sheet 'Drittes'; there are Sheet, Zweites"):
        filled(out.getvalue(), again(filler), options=FillOptions("Drittes"))


def test_a_sheet_without_a_header_says_what_one_needs(filler: RowFiller) -> None:
    out = io.BytesIO()
    openpyxl.Workbook().save(out)
    with pytest.raises(WorkloadError, match="needs a column `model`"):
        filled(out.getvalue(), filler)


def test_the_template_can_be_filled(filler: RowFiller) -> None:
    from estimator.sheets.template import template_workbook

    data, report = filled(template_workbook(), filler)
    assert (report.sheet, report.rows, report.failed) == ("Runs", 3, 0)
    book = openpyxl.load_workbook(io.BytesIO(data))
    assert book.sheetnames == ["Runs", "Help"]
    assert book["Runs"].data_validations.dataValidation


# --- LibreOffice ----------------------------------------------------------------------------------------------------


def test_libreoffice_reads_the_filled_sheet_and_calculates_its_sums(
    workbook: Path, filler: RowFiller, office: Office, tmp_path: Path
) -> None:
    target = tmp_path / "filled.xlsx"
    fill_file(workbook, target, PLAIN, filler)
    rows = list(csv.reader(io.StringIO(office(target, "csv").read_text(encoding="utf-8"), newline="")))
    assert rows[2][: len(HEADER)] == list(HEADER)
    assert rows[2][len(HEADER) :] == list(RESULTS)
    assert float(rows[3][15]) == pytest.approx(float(results(target.read_bytes())[0]["cost_usd_p50"]), abs=0.005)  # type: ignore[arg-type]
    assert rows[18][7] == "492"  # =SUM(...) of a file that held no value for it


def test_an_ods_is_filled_with_the_same_figures(
    workbook: Path, filler: RowFiller, office: Office, tmp_path: Path
) -> None:
    ods = office(workbook, "ods")
    report = fill_file(ods, tmp_path / "filled.ods", PLAIN, filler)
    assert (report.sheet, report.rows, report.failed) == ("Runs", 14, 2)
    fill_file(workbook, tmp_path / "filled.xlsx", PLAIN, again(filler))
    by_ods, by_xlsx = (office(tmp_path / f"filled.{kind}", "csv").read_text("utf-8") for kind in ("ods", "xlsx"))
    assert by_ods == by_xlsx
    before, after = parts(ods.read_bytes()), parts((tmp_path / "filled.ods").read_bytes())
    assert {name for name in before if before[name] != after[name]} == {"content.xml", "meta.xml"}
    assert b"counted with our tokenizer" in after["content.xml"]
    fill_file(tmp_path / "filled.ods", tmp_path / "twice.ods", PLAIN, again(filler))
    assert parts((tmp_path / "twice.ods").read_bytes()) == after


# --- CSV ------------------------------------------------------------------------------------------------------------

SMALL = (
    "Name;Model;Method;Tokens (M);GPU;note\r\n=1+1;llama3-8b;lora;50;H100:1;-5\r\n"
    "x;llama3-8bb;lora;50;H100:1;\r\n;;;;;\r\n"
)


def test_a_csv_keeps_its_dialect_and_order(filler: RowFiller) -> None:
    data, report = filled(("\ufeff" + SMALL).encode(), filler, "csv")
    assert data.startswith(b"\xef\xbb\xbfName;Model;")
    lines = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=";"))
    assert (report.rows, report.failed) == (2, 1)
    assert [line["Model"] for line in lines] == ["llama3-8b", "llama3-8bb", ""]
    assert re.fullmatch(r"\d+\.\d+", lines[0]["cost_usd_p50"])
    assert re.fullmatch(r"2026-\d\d-\d\d", lines[0]["price_date"])
    assert lines[1]["error"].startswith("unknown model")
    assert data.count(b"\r\n") == data.count(b"\n")


def test_no_cell_of_a_csv_runs_as_a_formula(filler: RowFiller) -> None:
    text = "model,tokens,gpu,=cmd()\n=HYPERLINK(1),1M,@SUM(1),+x\n-2+3,1M,H100,-5\n"
    data, report = filled(text.encode(), filler, "csv")
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert report.failed == 2
    assert [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == ["-5"]


def test_too_many_cells_in_a_row_are_said(filler: RowFiller) -> None:
    data, report = filled(b"model,tokens\nllama3-8b,1M,extra\n", filler, "csv")
    assert report.failed == 1
    assert b"3 cells under 2 headers" in data


def test_the_same_question_is_planned_once(market: Market) -> None:
    filler = RowFiller(market, Answers())
    rows = "".join(f"run{n},llama3-8b,{1 + n % 3}M,H100:1\n" for n in range(300))
    _, report = filled(f"name,model,tokens,gpu\n{rows}".encode(), filler, "csv")
    assert (report.rows, filler.answers.planned) == (300, 3)
