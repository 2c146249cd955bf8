"""How are rows read from a CSV that a person wrote, and where exactly is it not one?"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks_db.errors import WorkloadError
from estimator.request.files import stdin_bytes

DELIMITERS = (",", ";", "\t", "|")
EXCEL = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE)  # its own first line, which names the separator
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"-?\d+,\d+"), re.compile(r"-?\d+\.\d+")
UTF8, WESTERN = "utf-8-sig", "windows-1252"
NOT_TABLES = (
    ((b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), "is a workbook or an archive; save the sheet as CSV UTF-8"),
    ((b"PAR1",), "is Parquet; write it as CSV"),
    ((b"\x1f\x8b",), "is packed; unpack it first"),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A header and its rows as text, in order, and how they were written."""

    header: list[str]
    cells: list[list[str]]  # as many a row as the header has
    ragged: dict[int, str]  # row number (from 0) -> what is wrong with its cells
    delimiter: str
    comma: bool  # in front of decimals
    notes: list[str] = field(default_factory=list)  # what the reader had to take for granted

    def rows(self, names: Iterable[str]) -> list[dict[str, str]]:
        """The cells under `names` by name, without the rows that are ragged."""
        places = [(name, self.header.index(name)) for name in dict.fromkeys(names) if name in self.header]
        return [{name: row[i] for name, i in places} for j, row in enumerate(self.cells) if j not in self.ragged]


def read_sheet(path: Path) -> Sheet:
    """A CSV file (`-` = standard input) with a header; WorkloadError where it cannot be read at all.

    Columns may be separated by commas, semicolons, tabs or bars, whichever the header has most of. Lines that begin
    with # in front of the header are comments. What is not UTF-8 (or UTF-16) is read as Windows-1252, and said.
    """
    content, name = _content(path)
    text, notes = _decoded(content, name)
    csv.field_size_limit(2**31 - 1)
    first, _, rest = text.lstrip("\r\n").partition("\n")
    if named := EXCEL.fullmatch(first):
        text, first = rest, rest.partition("\n")[0]
    text, first = _without_comments(text)
    delimiter = named[1] if named else max(DELIMITERS, key=first.count)
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(lines, delimiter=delimiter)
    header: list[str] = []
    table: list[list[str]] = []
    ragged: dict[int, str] = {}
    begun = 0
    try:
        for cells in reader:
            start, begun = begun, reader.line_num
            if not header:
                header = [cell.strip() for cell in cells] if any(cell.strip() for cell in cells) else []
                continue
            if not cells:
                continue
            if len(cells) > len(header) and any(cell.strip() for cell in cells[len(header) :]):
                ragged[len(table)] = f"line {reader.line_num}: {len(cells)} cells under {len(header)} headers"
            table.append([*cells[: len(header)], *[""] * (len(header) - len(cells))])
    except csv.Error as error:
        raise _refused(f"{name} line {reader.line_num}: {error}", path) from None
    if not header:
        raise _refused(f"{name} has no header", path)
    if begun and _open_quote(lines[start:begun], delimiter):
        raise _refused(f"{name}: a quote that begins in line {start + 1} or below it is never closed", path)
    if header[0].startswith(("{", "[")):
        raise _refused(f"{name} is JSON, not CSV", path)
    return Sheet(header, table, ragged, delimiter, delimiter != "," and _decimal_commas(table), notes)


def _refused(message: str, path: Path) -> WorkloadError:
    return WorkloadError(message, field="ROWS", value=str(path))


def _without_comments(text: str) -> tuple[str, str]:
    """(the text from its header on, the header's line); a first column may be called `#`."""
    rest = text.lstrip("\r\n")
    while rest.startswith("#"):
        line, _, below = rest.partition("\n")
        if any(mark in line for mark in DELIMITERS) and re.search(r"\b(model|gpu)\b", line, re.IGNORECASE):
            break
        rest = below.lstrip("\r\n")
    return rest, rest.partition("\n")[0]


def _open_quote(lines: list[str], delimiter: str) -> bool:
    """Whether the last record runs to the end of the file for want of a closing quote."""
    try:
        list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def _decimal_commas(table: list[list[str]]) -> bool:
    cells = [cell.strip() for row in table for cell in row]
    return any(map(DECIMAL_COMMA.fullmatch, cells)) and not any(map(DECIMAL_POINT.fullmatch, cells))


def _content(path: Path) -> tuple[bytes, str]:
    """(bytes, what to call them)."""
    if str(path) == "-":
        return stdin_bytes(), "standard input"
    try:
        return path.read_bytes(), str(path)
    except FileNotFoundError:
        raise _refused(f"there is no file {path}", path) from None
    except (OSError, ValueError) as error:
        raise _refused(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", path) from None


def _decoded(content: bytes, name: str) -> tuple[str, list[str]]:
    """(text, what was taken for granted); WorkloadError for what is no text."""
    for marks, words in NOT_TABLES:
        if content.startswith(marks):
            raise _refused(f"{name} {words}", Path(name))
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in content[:4]:
        encoding = "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
    else:
        encoding = UTF8
    try:
        return content.decode(encoding), []
    except UnicodeDecodeError as error:
        if encoding != UTF8 or _CONTROL.search(content):
            raise _refused(f"{name} is no text (byte {error.start}); save it as CSV UTF-8", Path(name)) from None
    # Five bytes mean nothing in Windows-1252; the figures and names that are read are ASCII
    return content.decode(WESTERN, "replace"), [f"{name} is not UTF-8: read as {WESTERN}, written as UTF-8"]
