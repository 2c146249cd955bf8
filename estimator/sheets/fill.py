"""A person's sheet with our results in it: which kind of file is it, and how did it go?"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks_db.errors import WorkloadError
from estimator.sheets.archive import refuse
from estimator.sheets.csv_fill import fill_csv
from estimator.sheets.ods_fill import fill_ods
from estimator.sheets.options import FillOptions
from estimator.sheets.output import lock_of, whole_file
from estimator.sheets.rows import RowFiller
from estimator.sheets.xlsx_fill import fill_xlsx

Fill = Callable[[IO[bytes], IO[bytes], FillOptions, RowFiller], str]
FILLS: dict[str, Fill] = {"xlsx": fill_xlsx, "ods": fill_ods, "csv": fill_csv}
ENDINGS = {".xlsx": "xlsx", ".xlsm": "xlsx", ".ods": "ods", ".csv": "csv", ".tsv": "csv", ".txt": "csv"}


@dataclass(frozen=True, slots=True)
class Report:
    """How a filling went."""

    sheet: str
    rows: int
    failed: int
    notes: tuple[str, ...]


def kind_of(path: Path) -> str:
    """`xlsx`, `ods` or `csv` by the ending; WorkloadError for another."""
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise WorkloadError(
            f"{path.name}: XLSX, ODS and CSV are read", field="sheet", value=path.suffix, nearest=(".xlsx", ".ods")
        )
    return kind


def fill_file(source: Path, target: Path, options: FillOptions, filler: RowFiller) -> Report:
    """Fill the sheet in `source` and put the result at `target` (which may be the same), whole or not at all."""
    kind = kind_of(source)
    if kind_of(target) != kind or target.suffix.lower() == ".xlsm":
        ending = ".xlsx" if kind == "xlsx" else source.suffix
        raise WorkloadError(
            f"{target.name} must be of the kind of {source.name}, without macros",
            field="output",
            value=str(target),
            nearest=(target.with_suffix(ending).name,),
        )
    try:
        file = source.open("rb")
    except FileNotFoundError:
        raise WorkloadError(f"there is no file {source}", field="sheet", value=str(source)) from None
    except OSError as error:
        reason = error.strerror or error
        raise WorkloadError(f"{source} cannot be read: {reason}", field="sheet", value=str(source)) from None
    with file:
        before = os.fstat(file.fileno())
        with whole_file(target) as out:
            report = fill_stream(kind, file, out, options, filler)
            after = source.stat()
            if (before.st_size, before.st_mtime_ns, before.st_ino) != (after.st_size, after.st_mtime_ns, after.st_ino):
                raise refuse(f"{source} was changed while it was read; try again")
    lock = lock_of(source)
    notes = (f"{source.name} is open in a spreadsheet program: what is not saved there was not read",) if lock else ()
    return Report(report.sheet, report.rows, report.failed, (*report.notes, *notes))


def fill_bytes(kind: str, body: bytes, options: FillOptions, filler: RowFiller) -> tuple[bytes, Report]:
    """The same for a file in memory."""
    out = io.BytesIO()
    report = fill_stream(kind, io.BytesIO(body), out, options, filler)
    return out.getvalue(), report


def fill_stream(kind: str, source: IO[bytes], target: IO[bytes], options: FillOptions, filler: RowFiller) -> Report:
    """The same for open files; `source` can be sought."""
    sheet = FILLS[kind](source, target, options, filler)
    tally = filler.tally
    return Report(sheet, tally.rows, tally.failed, tuple(tally.notes))
