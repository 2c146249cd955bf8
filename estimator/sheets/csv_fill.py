"""How are results written into somebody's CSV? Behind their columns, in their dialect, row by row."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import IO

from benchmarks_db.errors import WorkloadError
from estimator.sheets.archive import refuse
from estimator.sheets.columns import Columns, columns_of, is_header
from estimator.sheets.options import FillOptions
from estimator.sheets.rows import RowFiller
from estimator.sheets.safety import BOM, csv_cell
from estimator.sheets.values import written

HEADER_WITHIN = 50
LONGEST_CELL = 1_000_000
UTF8 = "utf-8-sig"
COMMA, POINT = re.compile(r"\s*-?\d+,\d+\s*"), re.compile(r"\s*-?\d+\.\d+\s*")
DELIMITERS = (",", ";", "\t", "|")


def fill_csv(source: IO[bytes], target: IO[bytes], options: FillOptions, filler: RowFiller) -> str:
    """Write `source` with results to `target`; the name of the "sheet" is empty.

    The separator, the line ends, the decimal mark and a byte order mark stay as they are; what is not UTF-8 becomes
    UTF-8 with such a mark. Cells that would run as formulas get an apostrophe in front, the person's own too: a CSV
    has no formulas, so nothing is lost.
    """
    size = source.seek(0, io.SEEK_END)
    if size > options.limits.unpacked_bytes:
        raise refuse(f"the file has {size:,} bytes; {options.limits.unpacked_bytes:,} are read")
    dialect = _dialect(source)
    if dialect.encoding != UTF8:
        filler.tally.notes.append(f"the file was read as {dialect.encoding} and is written as UTF-8")
    csv.field_size_limit(LONGEST_CELL)
    with closing(_rows(source, dialect, options.limits.cells)) as rows:
        _write(rows, target, dialect, options, filler)
    return ""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a file is written."""

    encoding: str
    mark: bool  # a byte order mark in front
    delimiter: str
    line_end: str
    comma: bool  # in front of decimals

    @property
    def errors(self) -> str:
        """Five bytes mean nothing in Windows-1252; everything else that cannot be read is said."""
        return "replace" if self.encoding == "windows-1252" else "strict"


def _dialect(source: IO[bytes]) -> _Dialect:
    """What the file shows of itself; WorkloadError for what is no text."""
    source.seek(0)
    sample = source.read(1 << 16)
    encoding = UTF8
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in sample:
        raise refuse("the file is no CSV text (it holds zero bytes)")
    elif not _is_utf8(source):
        encoding = "windows-1252"
    source.seek(0)
    text = sample[: len(sample) // 2 * 2].decode(encoding, "ignore")
    delimiter = _delimiter(text)
    cells = re.split(rf'["\r\n{re.escape(delimiter)}]+', text)
    commas = delimiter != "," and any(COMMA.fullmatch(cell) for cell in cells)
    return _Dialect(
        encoding=encoding,
        mark=encoding != UTF8 or sample.startswith(codecs.BOM_UTF8),
        delimiter=delimiter,
        line_end="\r\n" if "\r\n" in text else "\n",
        comma=commas and not any(POINT.fullmatch(cell) for cell in cells),
    )


def _is_utf8(source: IO[bytes]) -> bool:
    source.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while piece := source.read(1 << 20):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _write(
    rows: Iterator[list[str]], target: IO[bytes], dialect: _Dialect, options: FillOptions, filler: RowFiller
) -> None:
    before, header = _header(rows, options)
    columns = columns_of(header, len(header), options.mapping)
    if "model" not in {known.key for known in columns.inputs.values()}:
        raise refuse("the header has no column `model`")
    filler.tally.notes.extend(columns.doubts)
    width = len(header) + len(columns.appended)
    text = io.TextIOWrapper(target, encoding="utf-8", newline="", write_through=False)
    try:
        if dialect.mark:
            text.write(BOM)
        mark = dialect.delimiter
        writer = csv.writer(text, delimiter=mark, lineterminator=dialect.line_end)
        writer.writerows([csv_cell(cell, mark) for cell in row] for row in before)
        writer.writerow([csv_cell(cell, mark) for cell in [*header, *columns.appended]])
        cells = _filled(rows, len(header), width, columns, filler, comma=dialect.comma)
        writer.writerows([csv_cell(cell, mark) for cell in row] for row in cells)
        text.flush()
    finally:
        text.detach()


def _filled(
    rows: Iterator[list[str]], given: int, width: int, columns: Columns, filler: RowFiller, *, comma: bool
) -> Iterator[list[str]]:
    for row in rows:
        if len(row) > given and any(cell.strip() for cell in row[given:]):
            result = filler.failure(f"{len(row)} cells under {given} headers")
            row = row[:given]
        else:
            row = row[:given]
            found = filler.fill(columns, dict(enumerate(row)))
            if found is None:
                yield row
                continue
            result = found
        cells = [*row, *[""] * (width - len(row))]
        for name, column in columns.results.items():
            value = result.get(name)
            cells[column] = written(value).replace(".", ",") if comma and isinstance(value, float) else written(value)
        yield cells


def _delimiter(text: str) -> str:
    """The separator that the first line with any has most of."""
    for line in text.splitlines():
        counts = {mark: line.count(mark) for mark in DELIMITERS}
        best = max(counts, key=lambda mark: counts[mark])
        if counts[best]:
            return best
    return ","


def _rows(source: IO[bytes], dialect: _Dialect, most_cells: int) -> Generator[list[str], None, None]:
    lines = io.TextIOWrapper(source, encoding=dialect.encoding, errors=dialect.errors, newline="")
    cells = 0
    reader = csv.reader(lines, delimiter=dialect.delimiter)
    try:
        for row in reader:
            cells += len(row)
            if cells > most_cells:
                raise refuse(f"the file has more than {most_cells:,} cells")
            yield row
    except UnicodeDecodeError as error:
        where = f"byte {error.start} after line {reader.line_num}"
        raise refuse(f"the file is not {dialect.encoding} text ({where}); save it as CSV UTF-8") from None
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
