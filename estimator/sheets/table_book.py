"""A table as a workbook of one sheet: for whoever opens a listing or a comparison in a spreadsheet program."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from estimator.sheets.template import xlsxwriter
from estimator.sheets.workbook import Book

WIDEST = 40


def table_workbook(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """The rows as bytes of an XLSX file, numbers as numbers and unknown empty; WorkloadError without its library."""
    out = io.BytesIO()
    book = Book(xlsxwriter().Workbook(out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}))
    sheet = book.file.add_worksheet(name[:31])
    book.head(sheet, list(columns), rows=len(rows), still=1)
    for column, title in enumerate(columns):
        values = [_plain(row.get(title)) for row in rows]
        longest = max((len(str(value)) for value in values if value is not None), default=0)
        sheet.set_column(column, column, min(WIDEST, max(len(title), longest) + 3))
        for place, value in enumerate(values, start=1):
            book.put(sheet, place, column, value)
    book.file.close()
    return out.getvalue()


def _plain(value: Any) -> Any:
    """A value that a cell takes: enums by their words, moments as ISO 8601, lists as one text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | tuple | set | frozenset):
        return "; ".join(map(str, value))
    if hasattr(value, "item"):  # a NumPy scalar
        return value.item()
    return value if value is None or isinstance(value, str | int | float) else str(value)
