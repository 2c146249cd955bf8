"""How are results written into somebody's XLSX? Into the XML of the one sheet; every other part stays as it is.

No spreadsheet library reads and writes all that Excel can put into a workbook, so none is used: charts, pivots,
comments, conditional formats and other sheets are copied byte by byte, and of the sheet only the result cells change.
Rows are streamed; 100,000 of them need little memory.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import IO

from estimator.sheets.archive import ATTRIBUTES, Archive, attributes_of, checked_text, refuse
from estimator.sheets.columns import RESULTS, Columns, columns_of, is_header
from estimator.sheets.markup import content, pieces, plain
from estimator.sheets.options import FillOptions
from estimator.sheets.ranges import (
    Area,
    column_letters,
    column_number,
    filter_of,
    widened_tables,
    with_filter,
    with_filter_name,
)
from estimator.sheets.rows import NO_VALUE, RowFiller, RowResult, also_filled
from estimator.sheets.safety import neutral
from estimator.sheets.values import Value, written
from estimator.sheets.xlsx_book import (
    Book,
    book_changes,
    book_of,
    macros_of,
    refuse_dde,
    refuse_links,
    shared_texts,
    text_of,
)
from estimator.sheets.xlsx_styles import FORMATS, Styles, styles_of

NO_STYLES = Styles()
HEADER_WITHIN = 50  # rows from the top
MOST_COLUMNS = 16_384
CELL = re.compile(rf"<((?:[\w.-]+:)?)c(?=[\s/>])({ATTRIBUTES})(?:/>|>(.*?)</(?:[\w.-]+:)?c>)", re.DOTALL)
ROW = re.compile(rf"<((?:[\w.-]+:)?)row(?=[\s/>])({ATTRIBUTES})(/?)>", re.DOTALL)
BOOK = "xl/workbook.xml"
STORED = re.compile(rf"<(?:[\w.-]+:)?v(?=[\s>]){ATTRIBUTES}>([^<]*)</", re.DOTALL)


def fill_xlsx(source: IO[bytes], target: IO[bytes], options: FillOptions, filler: RowFiller) -> str:
    """Write `source` with results to `target`; the name of the sheet that was filled."""
    archive = Archive(source, options.limits)
    book = book_of(archive)
    macros = macros_of(archive)
    if macros:
        filler.tally.notes.append("macros of the file were left out")
    refuse_links(archive)
    texts = shared_texts(archive, book)
    name, part, found = _find(archive, book, texts, options)
    filler.tally.notes.extend([*found.columns.doubts, *_others(archive, book, texts, options, name)])
    styles = styles_of(archive, book.styles, found.looks)
    sheet = _Sheet(found, texts, styles, book.epoch_1904, filler, archive.limits.cells)
    changed = book_changes(archive, macros)
    if styles.part is not None and book.styles is not None:
        changed[book.styles] = styles.part
    if found.columns.appended:
        tables, notes = widened_tables(archive, part, found.row, found.last + 1, found.columns.appended)
        changed |= tables
        filler.tally.notes.extend(notes)
        if found.filter is not None and BOOK in changed:
            wide = found.filter.to(found.right)
            changed[BOOK] = with_filter_name(changed[BOOK].decode(), name, found.filter, wide).encode()
    dropped = {*macros, "xl/calcChain.xml"}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
        for entry in archive.zip.infolist():
            if entry.filename in dropped:
                continue
            with out.open(_like(entry), "w", force_zip64=entry.file_size > 2**30) as written_part:
                if entry.filename == part:
                    for text in sheet.rewritten(checked_text(archive, part)):
                        written_part.write(text.encode())
                elif entry.filename in changed:
                    written_part.write(changed[entry.filename])
                else:
                    for n, piece in enumerate(archive.pieces(entry.filename)):
                        if n == 0 and b"<!DOCTYPE" in piece[:4096]:
                            raise refuse(f"{entry.filename} has a document type, in which entities could hide")
                        written_part.write(piece)
    return name


def _like(entry: zipfile.ZipInfo) -> zipfile.ZipInfo:
    like = zipfile.ZipInfo(entry.filename, entry.date_time)
    like.compress_type = zipfile.ZIP_DEFLATED
    like.external_attr = entry.external_attr
    return like


# --- the sheet ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """The header of the sheet that is filled."""

    row: int
    columns: Columns
    last: int  # last used column, from 0
    looks: frozenset[tuple[str, str]]  # formats of cells that results of a kind may stand beside or in
    filter: Area | None  # of the sheet, where it begins at the header

    @property
    def right(self) -> int:
        """Last column of the results."""
        return max(self.columns.results.values())


@dataclass(slots=True)
class _Cell:
    column: int
    xml: str
    attributes: Mapping[str, str]
    inner: str | None


@dataclass(slots=True)
class _Row:
    number: int
    prefix: str
    attributes: str
    cells: list[_Cell] = field(default_factory=list)


def _find(archive: Archive, book: Book, texts: list[str], options: FillOptions) -> tuple[str, str, _Found]:
    wanted = [(name, part) for name, part in book.sheets if options.sheet in (None, name)]
    if not wanted:
        names = [name for name, _ in book.sheets]
        raise refuse(f"there is no sheet {options.sheet!r}; there are {', '.join(names)}")
    for name, part in wanted:
        found = _header(archive, part, texts, options)
        if found is not None:
            return name, part, found
    raise refuse(
        "no header row was found: it needs a column `model` and one more that is read (or say which with a mapping)"
    )


def _header(archive: Archive, part: str, texts: list[str], options: FillOptions) -> _Found | None:
    """The header row and the last used column; the sheet is read to its end for the latter."""
    header: list[str] | None = None
    at, last = 0, -1
    blank: set[tuple[int, str]] = set()  # columns and formats of cells without content, and of the last ones with
    ends: set[tuple[int, str]] = set()
    behind: list[str] = []
    for row in _rows(checked_text(archive, part), archive.limits.cells, behind):
        if header is None:
            if options.header_row is None and row.number > HEADER_WITHIN:
                return None
            cells = {cell.column: _shown(cell, texts) for cell in row.cells}
            asked = options.header_row == row.number
            if asked or (options.header_row is None and is_header(cells.values(), options.mapping)):
                header = [cells.get(n, "") for n in range(max(cells, default=-1) + 1)]
                at = row.number
        elif row.cells:
            blank.update((cell.column, style) for cell in row.cells if not cell.inner and (style := _format(cell)))
            end = next((cell for cell in reversed(row.cells) if cell.inner), None)
            if end is not None and (style := _format(end)):
                ends.add((end.column, style))
        last = max(last, max((cell.column for cell in row.cells if cell.inner), default=-1))
    if header is None:
        return None
    columns = columns_of(header, last + 1, options.mapping)
    if max(columns.results.values()) >= MOST_COLUMNS:
        raise refuse("there is no room for the results: the sheet has too many columns")
    if "model" not in {known.key for known in columns.inputs.values()}:
        raise refuse(f"row {at} has no column `model`")
    area = filter_of("".join(behind))
    first, names = min(columns.results.values()), columns.writes
    looks = {(style, _kind(names[column])) for column, style in blank if column in names}
    looks |= {(style, kind) for column, style in ends if column < first for kind in FORMATS}
    return _Found(at, columns, last, frozenset(looks), area if area is not None and area.top == at else None)


def _format(cell: _Cell) -> str:
    return cell.attributes.get("s", "")


def _others(archive: Archive, book: Book, texts: list[str], options: FillOptions, filled: str) -> Iterator[str]:
    """A sentence for each other sheet that has runs too."""
    for name, part in book.sheets if options.sheet is None else ():
        if name == filled:
            continue
        headed = False
        for row in _rows(checked_text(archive, part), archive.limits.cells):
            cells = [_shown(cell, texts) for cell in row.cells if cell.inner]
            if headed and any(cell.strip() for cell in cells):
                yield also_filled(name)
                break
            headed = headed or is_header(cells, options.mapping)
            if row.number > HEADER_WITHIN:
                break


def _rows(text: Iterator[str], most_cells: int, behind: list[str] | None = None) -> Iterator[_Row]:
    """Row by row; what stands between and behind them goes to `behind`, as far as it is about filters."""
    number, cells = 0, 0
    for piece in pieces(text, "row"):
        if not piece.row and behind is not None and "autoFilter" in piece.text:
            behind.append(piece.text)
        if piece.row:
            row = _row(piece.text, number + 1)
            number, cells = row.number, cells + len(row.cells)
            if cells > most_cells:
                raise refuse(f"the sheet has more than {most_cells:,} cells")
            yield row


def _row(xml: str, number: int) -> _Row:
    if "<![CDATA[" in xml or "<!--" in xml:
        raise refuse("the rows of the sheet hold what no spreadsheet program writes")
    refuse_dde(xml)
    start = ROW.match(xml)
    if start is None:
        raise refuse("a row of the sheet cannot be read")
    said = attributes_of(start[2]).get("r", "")
    row = _Row(int(said) if said.isascii() and said.isdigit() and len(said) < 9 else number, start[1], start[2])
    column = -1
    for match in CELL.finditer(xml, start.end()):
        attributes = attributes_of(match[2])
        place = column_of(attributes["r"]) if "r" in attributes else column + 1
        column = place
        row.cells.append(_Cell(place, match[0], attributes, match[3]))
    return row


def column_of(reference: str) -> int:
    """Column of a cell reference, from 0; WorkloadError for what is no cell.

    >>> column_of("A1"), column_of("AB7")
    (0, 27)
    """
    letters = reference.rstrip("0123456789")
    if not letters.isascii() or not letters.isalpha() or len(letters) > 3:
        raise refuse(f"{reference!r} is no cell")
    return column_number(letters)


def _shown(cell: _Cell, texts: list[str], styles: Styles = NO_STYLES, first_day: datetime | None = None) -> str:
    """The text of a cell as a person reads it in the program: numbers without their format, dates and hours as such."""
    kind, inner = cell.attributes.get("t", "n"), cell.inner or ""
    if kind == "inlineStr":
        return text_of(inner)
    stored = STORED.search(inner)
    if stored is None:
        return NO_VALUE if re.search(r"<(?:[\w.-]+:)?f[\s/>]", inner) else ""
    value = plain(stored[1])
    if kind == "s":
        place = int(value) if value.strip().isdigit() else -1
        if not 0 <= place < len(texts):
            raise refuse(f"cell {cell.attributes.get('r', '')} points at a text that the file lacks")
        return texts[place]
    if kind == "b":
        return "yes" if value == "1" else "no"
    if kind == "n":
        try:
            figure = float(value)
            shown = styles.shown.get(cell.attributes.get("s", "0"), "")
            if shown == "time":
                return written(round(figure * 24.0, 6)) + "h"
            if shown == "date" and first_day is not None:
                return (first_day + timedelta(days=figure)).date().isoformat()
            return written(figure)
        except (ValueError, OverflowError):
            return value
    return value


NUMBERS = frozenset(("cost_usd_p50", "cost_usd_p10", "cost_usd_p90", "hours_p50", "gpu_hours", "memory_gib",
                     "usd_per_hour"))  # fmt: skip
WIDTHS = {"fits": 8, "plan_region": 16, "plan_instance": 24, "price_source": 28, "error": 60}  # the others: 13


def _kind(name: str) -> str:
    """The kind of a result in `FORMATS`; the same for a row without figures, which may get some later."""
    return "number" if name in NUMBERS else "date" if name == "price_date" else "text"


class _Sheet:
    """The XML of the sheet with the results in it."""

    def __init__(
        self,
        found: _Found,
        texts: list[str],
        styles: Styles,
        epoch_1904: bool,
        filler: RowFiller,
        most_cells: int,
    ) -> None:
        self._found = found
        self._texts = texts
        self._styles = styles
        self._first_day = datetime(1904, 1, 1, tzinfo=UTC) if epoch_1904 else datetime(1899, 12, 30, tzinfo=UTC)
        self._filler = filler
        self._cells = 0
        self._most_cells = most_cells

    def rewritten(self, text: Iterator[str]) -> Iterator[str]:
        """The sheet, piece by piece."""
        number = 0
        head = True
        for piece in pieces(text, "row"):
            if not piece.row:
                yield self._head(piece.text) if head else self._behind(piece.text)
                head = head and "sheetData" not in piece.text
                continue
            head = False
            row = _row(piece.text, number + 1)
            number = row.number
            self._cells += len(row.cells)
            if self._cells > self._most_cells:
                raise refuse(f"the sheet has more than {self._most_cells:,} cells")
            if number == self._found.row:
                yield self._with(row, self._titles(row), header=True)
            elif number > self._found.row:
                result = self._filler.fill(
                    self._found.columns,
                    {
                        cell.column: _shown(cell, self._texts, self._styles, self._first_day)
                        for cell in row.cells
                        if cell.column in self._found.columns.inputs
                    },
                )
                yield piece.text if result is None else self._with(row, self._results(result), header=False)
            else:
                yield piece.text

    def _titles(self, row: _Row) -> dict[int, Value]:
        return {self._found.columns.results[name]: name for name in self._found.columns.appended}

    def _results(self, result: RowResult) -> dict[int, Value]:
        return {column: result.get(name) for name, column in self._found.columns.results.items()}

    def _with(self, row: _Row, values: Mapping[int, Value], *, header: bool) -> str:
        """The row with these cells instead of those that stood there, or beside them."""
        cells = {cell.column: cell.xml for cell in row.cells}
        styles = {cell.column: cell.attributes.get("s") for cell in row.cells}
        filled = [cell.attributes.get("s") for cell in row.cells if cell.inner and cell.column <= self._found.last]
        beside = (filled[-1] if filled else None) or "0"
        names = self._found.columns.writes
        for column, value in values.items():
            style = styles.get(column)
            if not header:
                style = self._styles.of(_kind(names[column]), beside=beside, own=style)
            elif style is None and beside != "0":
                style = beside
            new = self._cell(row, column, style, value)
            if new or column in cells:
                cells[column] = new
        inner = "".join(cells[column] for column in sorted(cells))
        attributes = re.sub(r"""\sspans\s*=\s*("[^"]*"|'[^']*')""", "", row.attributes).rstrip().rstrip("/")
        if " r=" not in attributes:
            attributes += f' r="{row.number}"'
        return f"<{row.prefix}row{attributes}>{inner}</{row.prefix}row>"

    def _behind(self, text: str) -> str:
        """What stands behind the rows: a filter over the runs is one over their results too."""
        area = self._found.filter
        if area is None or not self._found.columns.appended:
            return text
        return with_filter(text, area, area.to(self._found.right))

    def _cell(self, row: _Row, column: int, style: str | None, value: Value) -> str:
        p = row.prefix
        start = f'<{p}c r="{column_letters(column)}{row.number}"' + (f' s="{style}"' if style is not None else "")
        if value is None:
            return f"{start}/>" if style is not None else ""
        if isinstance(value, datetime):
            days = (value.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - self._first_day).days
            return f"{start}><{p}v>{days}</{p}v></{p}c>"
        if isinstance(value, int | float):
            return f"{start}><{p}v>{value!r}</{p}v></{p}c>"
        text = content(neutral(value))
        return f'{start} t="inlineStr"><{p}is><{p}t xml:space="preserve">{text}</{p}t></{p}is></{p}c>'

    def _head(self, text: str) -> str:
        """What stands before the rows: the used range grows by the new columns, which get a width."""
        columns = self._found.columns
        if not columns.appended:
            return text
        first = min(columns.results[name] for name in columns.appended)
        last = max(columns.results.values())
        match = re.search(r'(dimension[^>]*\sref=")([A-Z]+)(\d+)(?::([A-Z]+)(\d+))?"', text)
        if match is not None:
            right = column_letters(max(last, column_number(match[4] or match[2])))
            whole = f'{match[1]}{match[2]}{match[3]}:{right}{match[5] or match[3]}"'
            text = text[: match.start()] + whole + text[match.end() :]
        added = [(columns.results[name] + 1, WIDTHS.get(name, 13)) for name in RESULTS if name in columns.appended]
        known = re.search(r"<((?:[\w.-]+:)?)cols(?=[\s>])[^>]*>(.*?)</\1cols>", text, re.DOTALL)
        if known is not None:
            taken = [int(n) for n in re.findall(r'\smax="(\d+)"', known[2])]
            if max(taken, default=0) <= first:
                text = text[: known.end(2)] + _widths(known[1], added) + text[known.end(2) :]
        elif rows := re.search(r"<((?:[\w.-]+:)?)sheetData(?=[\s>/])", text):
            p = rows[1]
            text = f"{text[: rows.start()]}<{p}cols>{_widths(p, added)}</{p}cols>{text[rows.start() :]}"
        return text


def _widths(prefix: str, columns: list[tuple[int, int]]) -> str:
    """Widths of columns that count from 1."""
    return "".join(f'<{prefix}col min="{n}" max="{n}" width="{width}" customWidth="1"/>' for n, width in columns)
