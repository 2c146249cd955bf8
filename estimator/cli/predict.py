"""`predict`: throughput, memory and interval for every row of a CSV; with --runs hours and dollars of whole runs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from benchmarks_db.errors import WorkloadError
from estimator.cli.csv_rows import read_sheet
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, OfflineOption, OutputOption
from estimator.cli.output import Column, as_json, as_table, chosen_format, emit
from estimator.cli.settings import settings

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
    how = chosen_format(format, output)
    if how == "table" and not format:
        how = "csv"
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
    from estimator.rows.headers import doubts, near_misses, places_of

    places = places_of(sheet.header, read)
    for title in places.values():
        if sheet.header.count(title) > 1:
            raise WorkloadError(f"{rows} has the column {title!r} twice", field="ROWS", value=title)
    given = sheet.rows(places.values())
    for text in (*sheet.notes, *near_misses(sheet.header, read), *doubts(given, read)):
        note(text)
    waiting = iter(predicted(given))
    answers = [
        {**dict.fromkeys(names, ""), "error": sheet.ragged[i]} if i in sheet.ragged else next(waiting)
        for i in range(len(sheet.cells))
    ]
    kept = [i for i, title in enumerate(sheet.header) if title not in names]
    header = [*(sheet.header[i] for i in kept), *names]
    out = [
        [*(row[i] for i in kept), *(answer[name] for name in names)]
        for row, answer in zip(sheet.cells, answers, strict=True)
    ]
    if how == "json":
        titles = _distinct(header)
        emit(as_json({"version": "1", "rows": [dict(zip(titles, row, strict=True)) for row in out]}), output)
    elif how == "csv":
        shown = [[*row[: len(kept)], *map(_local, row[len(kept) :])] for row in out] if sheet.comma else out
        emit(_lines([header, *shown], sheet.delimiter), output)
    else:
        columns = [Column(title, itemgetter(str(i))) for i, title in enumerate(header)]
        emit(as_table([{str(i): cell for i, cell in enumerate(row)} for row in out], columns, how, settings()), output)
    failed = sum(1 for answer in answers if answer["error"])
    note(f"{len(out) - failed:,} of {len(out):,} rows predicted" + (f", {failed:,} with an error" if failed else ""))
    if unsaid := sum(1 for answer in answers if runs and answer["assumed"]):
        note(f"{unsaid:,} of them leave open what matters: the column `assumed` says what was taken instead")


def _lines(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _distinct(titles: Sequence[str]) -> list[str]:
    """Names of columns, each once: the second `note` is `note.2`, one without a name `column 3`."""
    out: list[str] = []
    for i, title in enumerate(titles, start=1):
        name, count = title or f"column {i}", 2
        while name in out:
            name, count = f"{title}.{count}", count + 1
        out.append(name)
    return out


def _local(cell: str) -> str:
    """A predicted figure with a decimal comma, as the rest of its file has them."""
    return cell.replace(".", ",") if NUMBER.fullmatch(cell) else cell
