"""How is a table of facts read? Typed access to the CSV files of `benchmarks_db/data`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parent / "data"


def read(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file, in order, each cell as text."""
    with path.open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def number(text: str | None) -> float | None:
    """A figure, or None where the cell is empty (unknown is never 0)."""
    return float(text) if text else None


def flag(text: str | None) -> bool | None:
    """`yes` or `no`; None where the cell is empty."""
    return {"yes": True, "no": False}.get(text or "")


def plain(value: float) -> str:
    """A figure as its shortest text: `318`, `0.45`, `1e+20`; empty for NaN."""
    if value != value:
        return ""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
