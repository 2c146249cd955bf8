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
XLSX = ("xlsx",)
WORKBOOKS = "a workbook (xlsx) is written by plan, estimate and the listings (offers, instances, gpus, models, ...)"
GAP = "  "
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, how a row's cell reads, and how soon it goes where a terminal is too narrow."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    spare: int = 0  # 0 stays; the highest goes first


def chosen_format(name: str | None, output: Path | None, *, also: tuple[str, ...] = ()) -> str:
    """The format asked for, else what the file's ending says, else a table; `also` are formats of some commands."""
    found = _format_named(name, output, (*FORMATS, *also))
    if found == "xlsx" and (output is None or str(output) == "-"):
        raise WorkloadError("a workbook goes into a file", field="--output", nearest=("-o FILE.xlsx",))
    return found


def _format_named(name: str | None, output: Path | None, known: tuple[str, ...]) -> str:
    if name is None:
        endings = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".xlsx": "xlsx"}
        found = endings.get(output.suffix.lower(), "table") if output else "table"
        if found not in known:
            raise WorkloadError(
                f"this command writes {', '.join(known)}; {WORKBOOKS}",
                field="--output",
                value=str(output),
                nearest=("--format csv",),
            )
        return found
    word = name.strip().lower()
    word = {"md": "markdown", "text": "table", "plain": "table", "excel": "xlsx"}.get(word, word)
    if word == "xlsx" not in known:
        raise WorkloadError(
            f"this command writes {', '.join(known)}; {WORKBOOKS}", field="--format", value=name, nearest=("csv",)
        )
    if word not in known:
        near = get_close_matches(word, known, n=1, cutoff=0.5)
        raise WorkloadError(f"{name!r} is not one of {', '.join(known)}", field="--format", value=name, nearest=near)
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


def emit_workbook(name: str, rows: Sequence[Row], columns: Sequence[str], output: Path | None) -> None:
    """Write rows as a workbook of one sheet into the file `output`."""
    from estimator.sheets.output import write_bytes
    from estimator.sheets.table_book import table_workbook

    if output is not None:  # as `chosen_format` has seen to
        write_bytes(output, table_workbook(name, rows, columns))


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
    """CSV with a header; unknown is an empty cell, numbers have a decimal point and no separators.

    Text that a spreadsheet would run as a formula is made plain.
    """
    from estimator.sheets.safety import csv_cell

    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([csv_cell(str(_cell(row.get(name))), ",") for name in columns] for row in rows)
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
    """A table for people: Markdown or plain text; on a terminal with a bold header and the columns that fit."""
    cells = [[printable(column.cell(row)) for column in columns] for row in rows]
    if how == "markdown":
        return _markdown(cells, columns)
    shown = _fitting(cells, columns, settings.width)
    kept = [columns[i] for i in shown]
    lines = _lines([[line[i] for i in shown] for line in cells], kept)
    if settings.color:
        lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
    hidden = [column.title for i, column in enumerate(columns) if i not in shown]
    if hidden:
        lines.append(f"(too narrow for: {', '.join(hidden)})")
    return "\n".join(lines)


def printable(text: str) -> str:
    """The text on one line, control characters taken out, so that no name can move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)


def _lines(cells: list[list[str]], columns: Sequence[Column]) -> list[str]:
    widths = _widths(cells, columns)
    lines = []
    for line in [[column.title for column in columns], *cells]:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        lines.append(GAP.join(parts).rstrip())
    return lines


def _widths(cells: list[list[str]], columns: Sequence[Column]) -> list[int]:
    return [max(len(column.title), *(len(line[i]) for line in cells), 0) for i, column in enumerate(columns)]


def _fitting(cells: list[list[str]], columns: Sequence[Column], width: int | None) -> list[int]:
    """The columns that are shown: all, or as many as a terminal of `width` holds; spare ones go first."""
    shown = list(range(len(columns)))
    if width is None:
        return shown
    widths = _widths(cells, columns)
    for i in sorted(shown, key=lambda i: -columns[i].spare):
        if sum(widths[j] for j in shown) + len(GAP) * (len(shown) - 1) <= width or not columns[i].spare:
            break
        shown.remove(i)
    return shown


def _markdown(cells: list[list[str]], columns: Sequence[Column]) -> str:
    def line(parts: Iterable[str]) -> str:
        return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"

    rule = "| " + " | ".join("---:" if column.right else "---" for column in columns) + " |"
    return "\n".join([line(column.title for column in columns), rule, *(line(row) for row in cells)])
