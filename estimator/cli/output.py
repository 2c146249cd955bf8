"""How does a result leave the program: as a table, JSON, CSV or Markdown, on standard output or into a file?"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

from benchmarks_db.errors import WorkloadError
from estimator.cli.settings import Settings

FORMATS = ("table", "json", "csv", "markdown")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, and how a row's cell reads."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False


def chosen_format(name: str | None, output: Path | None) -> str:
    """The format asked for, else what the file's ending says, else a table."""
    if name is None:
        endings = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown"}
        return endings.get(output.suffix.lower(), "table") if output else "table"
    word = name.strip().lower()
    word = {"md": "markdown", "text": "table", "plain": "table"}.get(word, word)
    if word not in FORMATS:
        near = get_close_matches(word, FORMATS, n=1, cutoff=0.5) or FORMATS
        raise WorkloadError(f"{name!r} is not one of {', '.join(FORMATS)}", field="--format", value=name, nearest=near)
    return word


def emit(text: str, output: Path | None) -> None:
    """Write a result to standard output, or to `output` as UTF-8."""
    text = text if text.endswith("\n") else text + "\n"
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise WorkloadError(
            f"{output} cannot be written: {error.strerror or error}", field="--output", value=str(output)
        ) from None


def as_json(value: object) -> str:
    """JSON with dates in ISO 8601; NaN and infinity are unknown, so null."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # a NumPy scalar
        return _plain(value.item())
    return value


def as_csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """CSV with a header; unknown is an empty cell, numbers have a decimal point and no separators."""
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return sheet.getvalue()


def _cell(value: Any) -> Any:
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, float):
        return repr(plain) if plain != int(plain) or abs(plain) >= 1e15 else str(int(plain))
    if isinstance(plain, list):
        return "; ".join(str(item) for item in plain)
    return plain


def as_table(rows: Sequence[Row], columns: Sequence[Column], how: str, settings: Settings) -> str:
    """A table for people: Markdown, plain text, or styled where standard output is a terminal that shows colour."""
    cells = [[printable(column.cell(row)) for column in columns] for row in rows]
    if how == "markdown":
        return _markdown(cells, columns)
    if settings.color:
        return _rich(cells, columns)
    return _text(cells, columns)


def printable(text: str) -> str:
    """The text on one line, control characters taken out, so that no name can move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)


def _text(cells: list[list[str]], columns: Sequence[Column]) -> str:
    grid = [[column.title for column in columns], *cells]
    widths = [max(len(line[i]) for line in grid) for i in range(len(columns))]
    lines = []
    for line in grid:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _markdown(cells: list[list[str]], columns: Sequence[Column]) -> str:
    def line(parts: Iterable[str]) -> str:
        return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"

    rule = "| " + " | ".join("---:" if column.right else "---" for column in columns) + " |"
    return "\n".join([line(column.title for column in columns), rule, *(line(row) for row in cells)])


def _rich(cells: list[list[str]], columns: Sequence[Column]) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    sheet = io.StringIO()
    Console(file=sheet, force_terminal=True, width=_width()).print(table)
    return sheet.getvalue()


def _width() -> int:
    import shutil

    return max(60, shutil.get_terminal_size((120, 40)).columns)
