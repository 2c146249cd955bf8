"""How are results written into somebody's CSV? Behind their columns, in their dialect, row by row."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import IO

from benchmarks_db.errors import WorkloadError
from estimator.sheets.archive import refuse
from estimator.sheets.columns import Columns, columns_of, is_header
from estimator.sheets.options import FillOptions
from estimator.sheets.rows import RowFiller
from estimator.sheets.safety import BOM, neutral
from estimator.sheets.values import written

HEADER_WITHIN = 50
LONGEST_CELL = 1_000_000
DELIMITERS = (",", ";", "\t", "|")


def fill_csv(source: IO[bytes], target: IO[bytes], options: FillOptions, filler: RowFiller) -> str:
    """Write `source` with results to `target`; the name of the "sheet" is empty.

    The separator, the line ends and a byte order mark stay as they are. Cells that would run as formulas get an
    apostrophe in front, the person's own too: a CSV has no formulas, so nothing is lost.
    """
    size = source.seek(0, io.SEEK_END)
    if size > options.limits.unpacked_bytes:
        raise refuse(f"the file has {size:,} bytes; {options.limits.unpacked_bytes:,} are read")
    source.seek(0)
    sample = source.read(1 << 16)
    source.seek(0)
    if b"\0" in sample:
        raise refuse("the file is no CSV text (it holds zero bytes)")
    delimiter = _delimiter(sample)
    csv.field_size_limit(LONGEST_CELL)
    with closing(_rows(source, delimiter, options.limits.cells)) as rows:
        _write(rows, target, sample, options, filler)
    return ""


def _write(
    rows: Iterator[list[str]], target: IO[bytes], sample: bytes, options: FillOptions, filler: RowFiller
) -> None:
    delimiter = _delimiter(sample)
    line_end = "\r\n" if b"\r\n" in sample else "\n"
    before, header = _header(rows, options)
    columns = columns_of(header, len(header), options.mapping)
    if "model" not in {known.key for known in columns.inputs.values()}:
        raise refuse("the header has no column `model`")
    width = len(header) + len(columns.appended)
    text = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=False)
    try:
        if sample.startswith(codecs.BOM_UTF8):
            text.write(BOM)
        writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end)
        writer.writerows([neutral(cell) for cell in row] for row in before)
        writer.writerow([neutral(cell) for cell in [*header, *columns.appended]])
        writer.writerows(_filled(rows, len(header), width, columns, filler))
        text.flush()
    finally:
        text.detach()


def _filled(
    rows: Iterator[list[str]], given: int, width: int, columns: Columns, filler: RowFiller
) -> Iterator[list[str]]:
    for row in rows:
        if len(row) > given and any(cell.strip() for cell in row[given:]):
            result = filler.failure(f"{len(row)} cells under {given} headers")
            row = row[:given]
        else:
            row = row[:given]
            found = filler.fill(columns, dict(enumerate(row)))
            if found is None:
                yield [neutral(cell) for cell in row]
                continue
            result = found
        cells = [*row, *[""] * (width - len(row))]
        for name, column in columns.results.items():
            cells[column] = written(result.get(name))
        yield [neutral(cell) for cell in cells]


def _delimiter(sample: bytes) -> str:
    """The separator that the first line with any has most of."""
    for line in sample.decode("utf-8", "replace").splitlines():
        counts = {mark: line.count(mark) for mark in DELIMITERS}
        best = max(counts, key=lambda mark: counts[mark])
        if counts[best]:
            return best
    return ","


def _rows(source: IO[bytes], delimiter: str, most_cells: int) -> Generator[list[str], None, None]:
    lines = io.TextIOWrapper(source, encoding="utf-8-sig", newline="")
    cells = 0
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        for row in reader:
            cells += len(row)
            if cells > most_cells:
                raise refuse(f"the file has more than {most_cells:,} cells")
            yield row
    except UnicodeDecodeError as error:
        raise refuse(f"the file is not UTF-8 text (byte {error.start} after line {reader.line_num})") from None
    except csv.Error as error:
        raise refuse(f"line {reader.line_num}: {error}") from None
    finally:
        lines.detach()


def _header(rows: Iterator[list[str]], options: FillOptions) -> tuple[list[list[str]], list[str]]:
    before: list[list[str]] = []
    for number, row in enumerate(rows, start=1):
        if number == options.header_row or (options.header_row is None and is_header(row, options.mapping)):
            while row and not row[-1].strip():
                row = row[:-1]
            return before, row
        before.append(row)
        if number > HEADER_WITHIN and options.header_row is None:
            break
    raise WorkloadError(
        "no header row was found: it needs a column `model` and one more that is read (or say which with a mapping)",
        field="sheet",
    )
