"""How are rows read from a CSV that a person wrote, and where exactly is it not one?"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from benchmarks_db.errors import WorkloadError
from estimator.request.files import read_stdin

TOO_MANY = "__more_cells_than_headers__"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A header and its rows as text, in order."""

    header: list[str]
    rows: list[dict[str, str]]
    ragged: dict[int, str]  # row number (from 0) -> what is wrong with its cells


def read_sheet(path: Path) -> Sheet:
    """A CSV file (`-` = standard input) with a header; WorkloadError where it cannot be read at all."""
    text = read_stdin(field="ROWS") if str(path) == "-" else _read(path)
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""))
    rows: list[dict[str, str]] = []
    ragged: dict[int, str] = {}
    try:
        header = next(reader, None)
        if not header or not any(cell.strip() for cell in header):
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
    return Sheet(header, rows, ragged)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise WorkloadError(f"there is no file {path}", field="ROWS", value=str(path)) from None
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path} is not UTF-8 text (byte {error.start})", field="ROWS", value=str(path)) from None
    except OSError as error:
        reason = error.strerror or error
        raise WorkloadError(f"{path} cannot be read: {reason}", field="ROWS", value=str(path)) from None
