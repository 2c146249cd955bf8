"""Which filters and tables lie over the runs? They grow by the result columns, so that sorting keeps rows together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from xml.sax.saxutils import quoteattr

from estimator.sheets.archive import ATTRIBUTES, Archive, attributes_of
from estimator.sheets.markup import plain

FILTER = re.compile(rf"<(?:[\w.-]+:)?autoFilter(?=\s){ATTRIBUTES}/?>", re.DOTALL)
TABLE = re.compile(rf"<(?:[\w.-]+:)?table(?=\s)({ATTRIBUTES})>", re.DOTALL)
COLUMNS = re.compile(rf"<((?:[\w.-]+:)?)tableColumns(?=[\s>])({ATTRIBUTES})>(.*?)</\1tableColumns>", re.DOTALL)
COLUMN = re.compile(rf"<(?:[\w.-]+:)?tableColumn(?=\s)({ATTRIBUTES})/?>", re.DOTALL)
AREA = re.compile(r"\$?([A-Z]{1,3})\$?([1-9]\d{0,6}):\$?([A-Z]{1,3})\$?([1-9]\d{0,6})")
DEFINED = re.compile(rf"(<(?:[\w.-]+:)?definedName(?=\s)({ATTRIBUTES})>)([^<]*)(?=</)", re.DOTALL)


def column_number(letters: str) -> int:
    """Place of a column, from 0.

    >>> column_number("A"), column_number("AB")
    (0, 27)
    """
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1


def column_letters(column: int) -> str:
    """Letters of a column that counts from 0.

    >>> column_letters(0), column_letters(27)
    ('A', 'AB')
    """
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


@dataclass(frozen=True, slots=True)
class Area:
    """A range of cells as a workbook writes it."""

    left: str
    top: int
    right: str
    bottom: str

    @classmethod
    def of(cls, text: str) -> Area | None:
        """None for what is no range."""
        match = AREA.fullmatch(text)
        return cls(match[1], int(match[2]), match[3], match[4]) if match else None

    def to(self, column: int) -> Area:
        """The range up to a column, never narrower."""
        right = column_letters(max(column, column_number(self.right)))
        return Area(self.left, self.top, right, self.bottom)

    def __str__(self) -> str:
        return f"{self.left}{self.top}:{self.right}{self.bottom}"

    @property
    def fixed(self) -> str:
        """As formulas of names write it."""
        return f"${self.left}${self.top}:${self.right}${self.bottom}"


def filter_of(text: str) -> Area | None:
    """The range of the filter of a sheet, in what stands behind its rows."""
    found = FILTER.search(text)
    return Area.of(attributes_of(found[0]).get("ref", "")) if found else None


def with_filter(text: str, old: Area, new: Area) -> str:
    """What stands behind the rows, with the filter's new range."""
    return FILTER.sub(lambda m: re.sub(rf"""(\sref\s*=\s*["']){old}(?=["'])""", rf"\g<1>{new}", m[0], count=1), text)


def with_filter_name(text: str, sheet: str, old: Area, new: Area) -> str:
    """The list of sheets and names, where programs keep the range of each filter a second time."""
    written = {f"{name}!{old.fixed}" for name in (sheet, "'" + sheet.replace("'", "''") + "'")}

    def renamed(match: re.Match[str]) -> str:
        ours = attributes_of(match[2]).get("name") == "_xlnm._FilterDatabase" and plain(match[3]) in written
        return match[1] + (match[3].replace(old.fixed, new.fixed) if ours else match[3])

    return DEFINED.sub(renamed, text)


def widened_tables(
    archive: Archive, sheet: str, row: int, first: int, names: Sequence[str]
) -> tuple[dict[str, bytes], list[str]]:
    """The tables with a header in `row` that end before column `first`, with the results as columns of their own.

    Gives the changed parts, and a sentence for each table whose rows the results do not follow when it is sorted.
    """
    changed: dict[str, bytes] = {}
    notes: list[str] = []
    path = PurePosixPath(sheet)
    relations = f"{path.parent}/_rels/{path.name}.rels"
    for tag, attributes in archive.elements(relations) if relations in archive.names else []:
        if tag != "Relationship" or not attributes.get("Type", "").endswith("/table"):
            continue
        part = _resolved(path.parent, attributes.get("Target", ""))
        if part not in archive.names:
            continue
        text = archive.text(part)
        archive.elements(part)  # well formed and without entities
        start, columns = TABLE.search(text), COLUMNS.search(text)
        area = Area.of(attributes_of(start[1]).get("ref", "")) if start else None
        if start is None or columns is None or area is None or area.top != row:
            continue
        have = [attributes_of(m[1]) for m in COLUMN.finditer(columns[3])]
        taken = {plain(one.get("name", "")).casefold() for one in have}
        if column_number(area.right) + 1 != first or taken & set(names):
            title = plain(attributes_of(start[1]).get("displayName", "a table"))
            notes.append(f"the table {title} does not reach to the results: sorting it would part them from their runs")
            continue
        new = area.to(first + len(names) - 1)
        free = max([0, *(int(one["id"]) for one in have if one.get("id", "").isdigit())]) + 1
        p = columns[1]
        added = "".join(f"<{p}tableColumn id={quoteattr(str(free + n))} name={quoteattr(name)}/>"
                        for n, name in enumerate(names))  # fmt: skip
        opening = re.sub(r'\scount\s*=\s*"\d+"', f' count="{len(have) + len(names)}"', columns[2])
        whole = f"<{p}tableColumns{opening}>{columns[3]}{added}</{p}tableColumns>"
        text = text[: columns.start()] + whole + text[columns.end() :]
        text = re.sub(rf"""(\sref\s*=\s*["']){area}(?=["'])""", rf"\g<1>{new}", text, count=1)
        inside = filter_of(text)
        if inside is not None:
            text = with_filter(text, inside, inside.to(column_number(new.right)))
        changed[part] = text.encode()
    return changed, notes


def _resolved(folder: PurePosixPath, target: str) -> str:
    """A part named beside a sheet, as a path from the root."""
    if target.startswith("/"):
        return target.lstrip("/")
    parts = list(folder.parts)
    for piece in PurePosixPath(target).parts:
        if piece == "..":
            parts = parts[:-1]
        else:
            parts.append(piece)
    return "/".join(parts)
