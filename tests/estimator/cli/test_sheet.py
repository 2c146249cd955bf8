"""`estimator sheet fill` and `sheet template`, as a person runs them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import openpyxl
import pytest

from estimator.cli.main import run
from pricing.store import Store
from tests.pricing.sets import NOW, hours, price_set

ROWS = (
    "name,model,method,tokens,gpu,cloud,region\na,llama3-8b,lora,50M,H100:8,aws,us-east-1\n"
    "b,llama3-8bb,lora,50M,H100:8,aws,us-east-1\n"
)


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


def test_rows_with_an_error_exit_0_and_are_counted(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "runs.csv").write_text(ROWS)
    assert run(["sheet", "fill", "runs.csv", "-o", "out.csv"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "1 of 2 rows planned, 1 with an error: out.csv" in told.err
    first, second = rows(quiet / "out.csv")
    assert float(first["cost_usd_p50"]) > 0
    assert first["error"] == ""
    assert second["error"].startswith("unknown model")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sheet", "fill", "none.csv", "-o", "out.csv"], "there is no file none.csv"),
        (["sheet", "fill", "runs.csv", "-o", "out.xlsx"], "must be of the kind"),
        (["sheet", "fill", "runs.csv", "-o", "out.csv", "--map", "Card=gpu"], "no column 'Card'"),
        (["sheet", "fill", "runs.csv", "-o", "out.csv", "--as-of", "soon"], "is not a date"),
        (["sheet", "template", "-o", "plan.ods"], "XLSX"),
    ],
)
def test_what_cannot_be_done_exits_2_in_words(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    (quiet / "runs.csv").write_text(ROWS)
    assert run(words) == 2
    assert message in capsys.readouterr().err
    assert not (quiet / "out.csv").exists()


def test_a_sheet_is_priced_as_of_a_date_from_the_history(quiet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_NOW", hours(400).isoformat())
    (quiet / "data").mkdir()
    store = Store(f"sqlite:///{quiet}/data/prices.db")
    store.switch(price_set({"p5.48xlarge": 50.0}, at=NOW))
    store.switch(price_set({"p5.48xlarge": 60.0}, at=hours(240)))
    store.close()
    (quiet / "runs.csv").write_text(ROWS)
    seen = {}
    for name, more in (("now", []), ("then", ["--as-of", hours(24).isoformat()])):
        assert run(["sheet", "fill", "runs.csv", "-o", f"{name}.csv", *more]) == 0
        seen[name] = rows(quiet / f"{name}.csv")[0]
    assert [float(seen[name]["usd_per_hour"]) for name in ("then", "now")] == [50.0, 60.0]
    assert seen["then"]["price_date"] == NOW.date().isoformat()
    assert seen["then"]["hours_p50"] == seen["now"]["hours_p50"]
    assert float(seen["now"]["cost_usd_p50"]) == pytest.approx(float(seen["then"]["cost_usd_p50"]) * 1.2, rel=1e-3)


def test_the_template_can_be_filled_as_it_is(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sheet", "template", "-o", "plan.xlsx"]) == 0
    assert run(["sheet", "fill", "plan.xlsx", "-o", "plan.xlsx"]) == 0
    assert "3 of 3 rows of Runs planned" in capsys.readouterr().err


def test_a_plan_is_written_as_a_workbook(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--model", "llama3-8b", "--method", "lora", "--tokens", "50M"]
    for more in (["-o", "plan.xlsx"], ["--format", "xlsx", "-o", "other.xlsx"]):
        assert run([*words, *more]) == 0
        assert capsys.readouterr().out == ""
        assert openpyxl.load_workbook(quiet / more[-1]).sheetnames[0] == "Summary"
    assert run([*words, "--format", "xlsx"]) == 2
    assert "-o FILE.xlsx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sheet", "column"),
    [
        (["estimate", "--model", "llama3-8b", "--method", "lora", "--tokens", "50M", "--gpu", "H100:8"], "Estimates",
         "cost_usd_p50"),
        (["offers", "H100:8"], "Offers", "price_usd_per_hour"),
        (["gpus", "H100"], "Gpus", "usable_gib"),
    ],
)  # fmt: skip
def test_comparisons_and_listings_are_written_as_workbooks_too(
    words: list[str], sheet: str, column: str, quiet: Path
) -> None:
    assert run([*words, "-o", "out.xlsx"]) == 0
    book = openpyxl.load_workbook(quiet / "out.xlsx")
    head, first, *_ = book[sheet].iter_rows(values_only=True)
    assert isinstance(first[head.index(column)], int | float)


def test_what_writes_no_workbook_says_what_does(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--model", "llama3-8b", "--tokens", "1M", "--solve-for", "budget"]
    for more, field in ((["--format", "xlsx"], "--format"), (["-o", "out.xlsx"], "--output")):
        assert run([*words, *more]) == 2
        told = capsys.readouterr().err
        assert field in told
        assert "written by plan, estimate and the listings" in told
    assert not (quiet / "out.xlsx").exists()
