"""How are results written into somebody's ODS? Into the rows of the one table; everything else stays as it is."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO
from xml.sax.saxutils import quoteattr

from estimator.sheets.archive import ATTRIBUTES, Archive, attributes_of, checked_text, refuse
from estimator.sheets.columns import Columns, columns_of, is_header
from estimator.sheets.markup import Piece, content, pieces, plain
from estimator.sheets.options import FillOptions
from estimator.sheets.ranges import Area
from estimator.sheets.rows import NO_VALUE, RowFiller, also_filled
from estimator.sheets.safety import neutral
from estimator.sheets.values import Value, written

MIMETYPE = "application/vnd.oasis.opendocument.spreadsheet"
ROW = "table:table-row"
HEADER_WITHIN = 50
MOST_COLUMNS = 16_384
TABLE = re.compile(rf"<table:table(?=[\s>])({ATTRIBUTES})>", re.DOTALL)
CELL = re.compile(
    rf"<table:(covered-)?table-cell(?=[\s/>])({ATTRIBUTES})(?:/>|>(.*?)</table:(?:covered-)?table-cell>)", re.DOTALL
)
OPENING = re.compile(rf"<table:table-row(?=[\s/>])({ATTRIBUTES})(/?)>", re.DOTALL)
REPEATED = re.compile(r"""\stable:number-columns-repeated\s*=\s*("[^"]*"|'[^']*')""")
ANNOTATION = re.compile(r"<office:annotation\b.*?</office:annotation>", re.DOTALL)
PARAGRAPH = re.compile(r"<text:p(?=[\s/>])[^>]*(?:/>|>(.*?)</text:p>)", re.DOTALL)
LISTENERS = re.compile(r"<office:event-listeners\b(?:[^>]*/>|.*?</office:event-listeners>)", re.DOTALL)
SCRIPTS = re.compile(r"<office:scripts\b(?:[^>]*/>|.*?</office:scripts>)", re.DOTALL)
DATE_STYLE, NUMBER_STYLE = "plan-date", "plan-number"
STYLES = (
    '<number:date-style style:name="plan-date-format"><number:year number:style="long"/><number:text>-</number:text>'
    '<number:month number:style="long"/><number:text>-</number:text><number:day number:style="long"/>'
    '</number:date-style><number:number-style style:name="plan-number-format"><number:number number:decimal-places="2" '
    'number:min-integer-digits="1" number:grouping="true"/></number:number-style>'
    '<style:style style:name="plan-date" style:family="table-cell" style:data-style-name="plan-date-format"/>'
    '<style:style style:name="plan-number" style:family="table-cell" style:data-style-name="plan-number-format"/>'
)
LINKS_OUT = re.compile(r"<(table:table-source|office:dde-source|table:database-source-\w+|table:cell-range-source)\b")
RANGE = re.compile(
    r"""(<table:database-range\b[^>]*?\stable:target-range-address=")([^"]*?)\.(\$?[A-Z]+\$?\d+:)\2?\.?(\$?[A-Z]+\$?\d+)(?=")"""
)
FORMULA_OUT = re.compile(r"""table:formula="[^"]*(?:\bDDE\s*\(|(?:'|&apos;)[^"']*(?:'|&apos;)\s*#)""", re.IGNORECASE)
WHAT_LINKS = {
    "table:table-source": "sheets linked to other files", "office:dde-source": "DDE links",
    "table:cell-range-source": "ranges linked to other files",
}  # fmt: skip


def fill_ods(source: IO[bytes], target: IO[bytes], options: FillOptions, filler: RowFiller) -> str:
    """Write `source` with results to `target`; the name of the table that was filled."""
    archive = Archive(source, options.limits)
    if _is_encrypted(archive):
        raise refuse("the file is protected by a password")
    if "content.xml" not in archive.names or not _is_spreadsheet(archive):
        raise refuse("the file is no OpenDocument spreadsheet")
    macros = {name for name in archive.names if name.startswith(("Basic/", "Scripts/"))}
    if macros:
        filler.tally.notes.append("macros of the file were left out")
    found = _find(archive, options)
    filler.tally.notes.extend([*found.columns.doubts, *(also_filled(name) for name in found.others)])
    table = _Table(found, filler)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
        for entry in archive.zip.infolist():
            if entry.filename in macros:
                continue
            like = zipfile.ZipInfo(entry.filename, entry.date_time)
            like.compress_type = zipfile.ZIP_STORED if entry.filename == "mimetype" else zipfile.ZIP_DEFLATED
            with out.open(like, "w", force_zip64=entry.file_size > 2**30) as part:
                if entry.filename == "content.xml":
                    for text in table.rewritten(checked_text(archive, "content.xml")):
                        part.write(text.encode())
                elif entry.filename == "META-INF/manifest.xml":
                    manifest = archive.text(entry.filename)
                    part.write(re.sub(rf"<manifest:file-entry\b{ATTRIBUTES}/>", _kept_entry, manifest).encode())
                elif entry.filename == "meta.xml":  # a program recalculates what another one has written
                    meta = archive.text(entry.filename)
                    part.write(re.sub(r"(<meta:generator>)[^<]*", r"\1gpu-cost-estimator", meta).encode())
                else:
                    for n, piece in enumerate(archive.pieces(entry.filename)):
                        if n == 0 and entry.filename.endswith(".xml") and b"<!DOCTYPE" in piece[:4096]:
                            raise refuse(f"{entry.filename} has a document type, in which entities could hide")
                        part.write(piece)
    return found.name


def _is_encrypted(archive: Archive) -> bool:
    manifest = "META-INF/manifest.xml"
    return "encrypted-package" in archive.names or (
        manifest in archive.names and b"encryption-data" in archive.read(manifest)
    )


def _is_spreadsheet(archive: Archive) -> bool:
    if "mimetype" in archive.names:
        return archive.read("mimetype").strip().startswith(MIMETYPE.encode())
    return "META-INF/manifest.xml" in archive.names and MIMETYPE.encode() in archive.read("META-INF/manifest.xml")


def _kept_entry(match: re.Match[str]) -> str:
    path = attributes_of(match[0]).get("full-path", "")
    return "" if path.startswith(("Basic/", "Scripts/")) else match[0]


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    row: int  # of the header
    columns: Columns
    last: int  # last used column, from 0
    others: tuple[str, ...]  # tables that have runs too

    def widened(self, text: str) -> str:
        """What stands behind the tables: a filter over the runs is one over their results too."""
        return RANGE.sub(self._range, text) if self.columns.appended else text

    def _range(self, match: re.Match[str]) -> str:
        sheet, area = plain(match[2]).strip("$'").replace("''", "'"), Area.of(match[3] + match[4])
        if sheet != self.name or area is None or area.top != self.row:
            return match[0]
        wide = area.to(max(self.columns.results.values()))
        return f"{match[1]}{match[2]}.{wide.left}{wide.top}:{match[2]}.{wide.right}{wide.bottom}"


@dataclass(slots=True)
class _Cell:
    """A cell, or several alike beside each other."""

    first: int
    count: int
    covered: bool
    attributes: str
    inner: str | None

    @property
    def xml(self) -> str:
        """The cell as it is written for its present count."""
        tag = "covered-table-cell" if self.covered else "table-cell"
        repeat = f' table:number-columns-repeated="{self.count}"' if self.count > 1 else ""
        start = f"<table:{tag}{REPEATED.sub('', self.attributes).rstrip()}{repeat}"
        return f"{start}/>" if self.inner is None else f"{start}>{self.inner}</table:{tag}>"

    @property
    def empty(self) -> bool:
        return self.inner is None and "office:value" not in self.attributes and "table:formula" not in self.attributes


def _repeats(opening: re.Match[str] | None) -> int:
    """How many rows of the sheet an element stands for."""
    text = attributes_of(opening[1]).get("number-rows-repeated", "1") if opening is not None else "1"
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 else 1


def _cells(xml: str, start: int) -> list[_Cell]:
    if "<![CDATA[" in xml or "<!--" in xml:
        raise refuse("the rows of the sheet hold what no spreadsheet program writes")
    cells = []
    column = 0
    for match in CELL.finditer(xml, start):
        text = attributes_of(match[2]).get("number-columns-repeated", "1")
        count = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
        if not 0 < count <= MOST_COLUMNS:
            raise refuse(f"a cell is repeated {text} times")
        cells.append(_Cell(column, count, bool(match[1]), match[2], match[3]))
        column += count
    return cells


def _shown(cell: _Cell) -> str:
    """The text of a cell, numbers without their format, comments left aside."""
    attributes = attributes_of(cell.attributes)
    kind = attributes.get("value-type")
    if kind in ("float", "percentage", "currency"):
        try:
            return written(float(attributes.get("value", "")))
        except (ValueError, OverflowError):
            return ""
    if kind == "date":
        return attributes.get("date-value", "").removesuffix("T00:00:00")
    if kind == "time":
        return _hours(attributes.get("time-value", ""))
    if kind == "boolean":
        return "yes" if attributes.get("boolean-value") == "true" else "no"
    if "string-value" in attributes:
        return plain(attributes["string-value"])
    if kind is None and "formula" in attributes:
        return NO_VALUE
    inner = ANNOTATION.sub("", cell.inner or "")
    lines = [re.sub(r"<[^>]+>", "", re.sub(r"<text:(s|tab)\b[^>]*/>", " ", line)) for line in PARAGRAPH.findall(inner)]
    return plain("\n".join(lines))


def _hours(duration: str) -> str:
    """A duration of the standard as hours.

    >>> _hours("PT36H30M00S")
    '36.5h'
    """
    match = re.fullmatch(r"P(?:(\d+)D)?T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", duration)
    if match is None:
        return duration
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return written(round(days * 24 + hours + minutes / 60 + seconds / 3600, 6)) + "h"


def _find(archive: Archive, options: FillOptions) -> _Found:
    """The table and its header; the table is read to its end for the last used column, the others for their runs."""
    names: list[str] = []
    others: list[str] = []
    name, number, header_row, last, cells, headed = "", 0, 0, -1, 0, False
    header: list[str] | None = None
    filled: str | None = None
    for piece in pieces(checked_text(archive, "content.xml"), ROW):
        if not piece.row:
            _refuse_links(piece.text)
            for match in TABLE.finditer(piece.text):
                name, number, headed = plain(attributes_of(match[1]).get("name", "")), 0, False
                names.append(name)
            continue
        if "formula=" in piece.text and FORMULA_OUT.search(piece.text):
            raise refuse("the document has formulas that reach for other files or programs; take them out")
        start = OPENING.match(piece.text)
        number += _repeats(start)
        if options.sheet not in (None, name):
            continue
        if filled not in (None, name) and (number > HEADER_WITHIN or name in others):
            continue
        found = _cells(piece.text, start.end() if start else 0)
        cells += len(found)
        if cells > archive.limits.cells:
            raise refuse(f"the document has more than {archive.limits.cells:,} cells")
        if filled not in (None, name):
            texts = [_shown(cell) for cell in found if not cell.empty]
            if headed and any(text.strip() for text in texts):
                others.append(name)
            headed = headed or is_header(texts, options.mapping)
            continue
        asked = options.header_row == number
        if header is None and (asked or (options.header_row is None and number <= HEADER_WITHIN)):
            shown = {cell.first: _shown(cell) for cell in found if not cell.empty}
            if asked or is_header(shown.values(), options.mapping):
                header = [shown.get(n, "") for n in range(max(shown, default=-1) + 1)]
                header_row, filled = number, name
        last = max(last, max((cell.first + cell.count - 1 for cell in found if not cell.empty), default=-1))
    if header is not None and filled is not None:
        return _Found(filled, header_row, _columns(header, last, header_row, options), last, tuple(others))
    if options.sheet is not None and options.sheet not in names:
        raise refuse(f"there is no sheet {options.sheet!r}; there are {', '.join(names)}")
    raise refuse(
        "no header row was found: it needs a column `model` and one more that is read (or say which with a mapping)"
    )


def _refuse_links(text: str) -> None:
    link = LINKS_OUT.search(text)
    if link is not None:
        what = WHAT_LINKS.get(link[1], "links to a database")
        raise refuse(f"the document has {what}; take them out and save it again")


def _columns(header: list[str], last: int, row: int, options: FillOptions) -> Columns:
    columns = columns_of(header, last + 1, options.mapping)
    if "model" not in {known.key for known in columns.inputs.values()}:
        raise refuse(f"row {row} has no column `model`")
    return columns


class _Table:
    """The content of the document with the results in it."""

    def __init__(self, found: _Found, filler: RowFiller) -> None:
        self._found = found
        self._filler = filler
        self._styled = False

    def rewritten(self, text: Iterator[str]) -> Iterator[str]:
        """The content, piece by piece; without event handlers and scripts, which are macros."""
        name, number = "", 0
        for piece in pieces(text, ROW):
            if not piece.row:
                _refuse_links(piece.text)
                for match in TABLE.finditer(piece.text):
                    name, number = plain(attributes_of(match[1]).get("name", "")), 0
                yield self._found.widened(self._with_styles(LISTENERS.sub("", SCRIPTS.sub("", piece.text))))
                continue
            number += _repeats(OPENING.match(piece.text))
            here = name == self._found.name and number >= self._found.row
            yield self._row(piece, header=number == self._found.row) if here else LISTENERS.sub("", piece.text)

    def _with_styles(self, text: str) -> str:
        """Formats of figures and dates, where the document declares what they are written with."""
        if "<office:document-content" in text:
            self._styled = all(f"xmlns:{name}=" in text for name in ("number", "style"))
            if f'"{DATE_STYLE}"' in text:
                return text
        if self._styled and (place := re.search(r"<office:automatic-styles\s*(/?)>", text)):
            inner = STYLES if place[1] == "" else f"{STYLES}</office:automatic-styles>"
            return f"{text[: place.start()]}<office:automatic-styles>{inner}{text[place.end() :]}"
        return text

    def _style_of(self, value: Value) -> str:
        if not self._styled or value is None or isinstance(value, str):
            return ""
        return DATE_STYLE if isinstance(value, datetime) else NUMBER_STYLE

    def _row(self, piece: Piece, *, header: bool) -> str:
        start = OPENING.match(piece.text)
        if start is None or start[2]:
            return piece.text
        cells = _cells(piece.text, start.end())
        columns = self._found.columns
        if header:
            values: Mapping[int, Value] = {columns.results[name]: name for name in columns.appended}
        else:
            given = {c: _at(cells, c) for c in columns.inputs}
            result = self._filler.fill(columns, given)
            if result is None:
                return piece.text
            values = {column: result.get(name) for name, column in columns.results.items()}
        style = next((s for c in reversed(cells) if not c.empty and (s := _style(c))), "") if header else ""
        for column, value in sorted(values.items()):
            cells = _put(cells, column, value, style or self._style_of(value))
        return piece.text[: start.end()] + "".join(cell.xml for cell in cells) + "</table:table-row>"


def _at(cells: list[_Cell], column: int) -> str:
    for cell in cells:
        if cell.first <= column < cell.first + cell.count:
            return _shown(cell)
    return ""


def _style(cell: _Cell) -> str:
    return attributes_of(cell.attributes).get("style-name", "")


def _put(cells: list[_Cell], column: int, value: Value, style: str) -> list[_Cell]:
    """The cells with one of them replaced: repeats are split around it, a gap before it is filled."""
    end = cells[-1].first + cells[-1].count if cells else 0
    if column >= end:
        gap = [_Cell(end, column - end, False, "", None)] if column > end else []
        return [*cells, *gap, _new(column, value, style)]
    n = next(n for n, cell in enumerate(cells) if cell.first <= column < cell.first + cell.count)
    old = cells[n]
    if old.covered:
        raise refuse("a result would lie under merged cells; unmerge them or move the header")
    before = [_Cell(old.first, column - old.first, False, old.attributes, old.inner)] if column > old.first else []
    rest = old.first + old.count - column - 1
    after = [_Cell(column + 1, rest, False, old.attributes, old.inner)] if rest else []
    note = "".join(ANNOTATION.findall(old.inner or ""))
    return [*cells[:n], *before, _new(column, value, _style(old) or style, note), *after, *cells[n + 1 :]]


def _new(column: int, value: Value, style: str, note: str = "") -> _Cell:
    styled = f" table:style-name={quoteattr(style)}" if style else ""
    if value is None:
        return _Cell(column, 1, False, styled, note or None)
    if isinstance(value, datetime):
        day = value.astimezone(UTC).date().isoformat()
        kind, text = f' office:value-type="date" office:date-value="{day}"', day
    elif isinstance(value, int | float):
        kind, text = f' office:value-type="float" office:value="{value!r}"', written(value)
    else:
        kind, text = ' office:value-type="string"', content(neutral(value))
    return _Cell(column, 1, False, f"{styled}{kind}", f"{note}<text:p>{text}</text:p>")
