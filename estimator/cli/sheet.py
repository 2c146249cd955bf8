"""`sheet`: fill a person's own spreadsheet with plans, row by row, or start one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from estimator.cli.errors import note
from estimator.cli.flags import MaxAgeOption, OfflineOption, OverridesOption, surroundings
from estimator.cli.offers import AsOfOption

app = typer.Typer(help="Fill a spreadsheet with plans, or start one.", no_args_is_help=True)

PROGRESS_SECONDS = 5.0


@app.command()
def fill(
    source: Annotated[Path, typer.Argument(metavar="IN", help="XLSX, ODS or CSV with a row for each run.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Where the filled file goes.")],
    sheet: Annotated[
        str | None, typer.Option("--sheet", help="Name of the sheet, if not the first that fits.", show_default=False)
    ] = None,
    header_row: Annotated[
        int | None, typer.Option("--header-row", min=1, help="Row of the headers, from 1.", show_default=False)
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="HEADER=KEY", help="What a column means: 'Card=gpu'.", show_default=False),
    ] = None,
    as_of: AsOfOption = None,
    max_age: MaxAgeOption = None,
    overrides: OverridesOption = None,
    offline: OfflineOption = False,
) -> None:
    """Write cost, hours, memory and prices behind every run of a sheet.

    Columns, formats, formulas, comments and other sheets stay as they are. A row that cannot be planned says why in
    its column `error`; the exit code is still 0, and the count is on standard error.
    """
    from estimator.cli.measured import kept_rows
    from estimator.cli.offers import date_of, offers_of
    from estimator.cli.prices_in_use import spot_history_at
    from estimator.sheets.answers import Answers, market_at
    from estimator.sheets.columns import mapping_of
    from estimator.sheets.fill import fill_file
    from estimator.sheets.options import FillOptions
    from estimator.sheets.rows import RowFiller

    here = surroundings(offline=offline, overrides=overrides)
    now = date_of(as_of, "--as-of") if as_of else here.now
    offers = offers_of(here, as_of=now if as_of else None, max_age=max_age)
    market = market_at(offers, now).with_past(spot_history_at(here, now), kept_rows(here))
    filler = RowFiller(market, Answers(), progress=_progress())
    options = FillOptions(sheet=sheet, header_row=header_row, mapping=mapping_of(map or ()))
    report = fill_file(source, output, options, filler)
    for words in report.notes:
        note(f"warning: {words}")
    done = report.rows - report.failed
    failed = f", {report.failed:,} with an error" if report.failed else ""
    where = f" of {report.sheet}" if report.sheet else ""
    note(f"{done:,} of {report.rows:,} rows{where} planned{failed}: {output}")


@app.command()
def template(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The workbook to write (.xlsx).")],
) -> None:
    """Write a workbook to start from: the columns that are read, with examples, lists to choose from and help."""
    from benchmarks_db.errors import WorkloadError
    from estimator.sheets.output import write_bytes
    from estimator.sheets.template import template_workbook

    if output.suffix.lower() != ".xlsx":
        raise WorkloadError(
            "the template is an XLSX workbook", field="output", value=str(output), nearest=(f"{output.stem}.xlsx",)
        )
    write_bytes(output, template_workbook())
    note(f"written: {output}; fill it in, then: estimator sheet fill {output} -o {output}")


def _progress() -> Callable[[int], None]:
    """Says every few seconds how far a long sheet is, where somebody watches."""
    last = time.monotonic()

    def tell(rows: int) -> None:
        nonlocal last
        if sys.stderr.isatty() and time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            note(f"{rows:,} rows ...")

    return tell
