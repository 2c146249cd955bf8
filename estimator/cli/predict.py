"""`predict`: throughput, memory and interval for every row of a CSV; with --runs hours and dollars of whole runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from estimator.cli.csv_rows import read_sheet
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, OfflineOption, OutputOption
from estimator.cli.output import as_csv, as_json, chosen_format, emit

NUMBER = re.compile(r"[\d.]+(e[+-]?\d+)?")


def predict(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.csv", help="CSV with a header; - reads standard input.")],
    output: OutputOption = None,
    runs: Annotated[bool, typer.Option("--runs", help="Rows are whole runs: predict hours and dollars.")] = False,
    format: FormatOption = None,
    offline: OfflineOption = False,
) -> None:
    """Predict every row of a CSV; a row that cannot be predicted gets an error, the others go on.

    Measured columns (throughput, mfu, memory, hours, cost) are never read. Separators, decimal commas and the spelling
    of headers may be those of any spreadsheet; the answer is written with the same separator and decimal mark.
    """
    how = chosen_format(format or (None if output and output.suffix == ".json" else "csv"), output)
    sheet = read_sheet(rows)
    if runs:
        from estimator.rows import run_steps, whole_runs

        predicted: Callable[[Sequence[Mapping[str, str]]], list[dict[str, str]]] = whole_runs.predict_runs
        read: tuple[str, ...] = run_steps.READS
        names: tuple[str, ...] = whole_runs.ADDED
    else:
        from estimator.rows import cells
        from estimator.rows import predict as steps

        predicted = steps.predict_rows
        read, names = cells.READS, steps.ADDED
    from estimator.rows.headers import doubts, near_misses

    for text in (*near_misses(sheet.header, read), *doubts(sheet.rows, read)):
        note(text)
    answers = predicted([row for i, row in enumerate(sheet.rows) if i not in sheet.ragged])
    waiting = iter(answers)
    out = [
        {**row, **dict.fromkeys(names, ""), "error": sheet.ragged[i]} if i in sheet.ragged else {**row, **next(waiting)}
        for i, row in enumerate(sheet.rows)
    ]
    header = [*(name for name in sheet.header if name not in names), *names]
    if how == "json":
        emit(as_json({"version": "1", "rows": out}), output)
    else:
        shown = [_local(row, names) for row in out] if sheet.comma else out
        emit(as_csv(shown, header, verbatim=True, delimiter=sheet.delimiter), output)
    failed = sum(1 for row in out if row["error"])
    note(f"{len(out) - failed:,} of {len(out):,} rows predicted" + (f", {failed:,} with an error" if failed else ""))


def _local(row: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The row with decimal commas in what was predicted, as the rest of its file has them."""
    return row | {name: row[name].replace(".", ",") for name in names if NUMBER.fullmatch(row[name])}
