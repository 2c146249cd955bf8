"""How are rows read from a CSV that a person wrote, and where exactly is it not one?"""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks_db.errors import WorkloadError
from estimator.request.files import read_stdin

DELIMITERS = (",", ";", "\t", "|")
EXCEL = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE)  # its own first line, which names the separator
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"-?\d+,\d+"), re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A header and its rows as text, in order, and how they were written."""

    header: list[str]
    rows: list[dict[str, str]]
    ragged: dict[int, str]  # row number (from 0) -> what is wrong with its cells
    delimiter: str
    comma: bool  # in front of decimals


def read_sheet(path: Path) -> Sheet:
    """A CSV file (`-` = standard input) with a header; WorkloadError where it cannot be read at all.

    Columns may be separated by commas, semicolons, tabs or bars, whichever the header has most of.
    """
    text = read_stdin(field="ROWS").removeprefix("\ufeff") if str(path) == "-" else _read(path)
    csv.field_size_limit(2**31 - 1)
    first, _, rest = text.lstrip("\r\n").partition("\n")
    named = EXCEL.fullmatch(first)
    delimiter = named[1] if named else max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(rest if named else text, newline=""), delimiter=delimiter)
    rows: list[dict[str, str]] = []
    ragged: dict[int, str] = {}
    try:
        header = next((cells for cells in reader if any(cell.strip() for cell in cells)), None)
        if header is None:
            raise WorkloadError(f"{path} has no header", field="ROWS", value=str(path))
        header = [cell.strip() for cell in header]
        for name in header:
            if name and header.count(name) > 1:
                raise WorkloadError(f"{path} has the column {name!r} twice", field="ROWS", value=name)
        for cells in reader:
            if not cells:
                continue
            if len(cells) > len(header):
                ragged[len(rows)] = f"line {reader.line_num}: {len(cells)} cells under {len(header)} headers"
            padded = [*cells, *[""] * (len(header) - len(cells))]
            rows.append(dict(zip(header, padded, strict=False)))
    except csv.Error as error:
        raise WorkloadError(f"{path} line {reader.line_num}: {error}", field="ROWS", value=str(path)) from None
    return Sheet(header, rows, ragged, delimiter, delimiter != "," and _decimal_commas(rows))


def _decimal_commas(rows: list[dict[str, str]]) -> bool:
    cells = [cell.strip() for row in rows for cell in row.values()]
    return any(map(DECIMAL_COMMA.fullmatch, cells)) and not any(map(DECIMAL_POINT.fullmatch, cells))


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
        wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return content.decode("utf-16" if wide else "utf-8-sig")
    except FileNotFoundError:
        raise WorkloadError(f"there is no file {path}", field="ROWS", value=str(path)) from None
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{path} is not UTF-8 text (byte {error.start}); save it as CSV UTF-8", field="ROWS", value=str(path)
        ) from None
    except OSError as error:
        reason = error.strerror or error
        raise WorkloadError(f"{path} cannot be read: {reason}", field="ROWS", value=str(path)) from None
