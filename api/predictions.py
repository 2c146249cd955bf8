"""How do rows of `predict` travel over HTTP? As JSON objects with the columns of the CSV file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from benchmarks_db.errors import WorkloadError
from estimator.request.errors import unwritable

Cell = str | int | float | bool | None
Row = dict[str, Cell]


class RowsIn(BaseModel):
    """Rows to predict; columns as in the interface contract, unknown ones pass through."""

    model_config = ConfigDict(extra="forbid")

    rows: list[Row] = Field(min_length=1)

    def texts(self, limit: int) -> list[dict[str, str]]:
        """The rows as the CSV reader would give them; WorkloadError for more than `limit`."""
        if len(self.rows) > limit:
            raise WorkloadError(f"at most {limit} rows in one request", field="rows", value=len(self.rows))
        if (broken := unwritable(self.rows, "rows")) is not None:
            raise WorkloadError("holds half of a surrogate pair, which is no text", field=broken)
        return [{name: _text(cell) for name, cell in row.items()} for row in self.rows]


class RowsOut(BaseModel):
    """The same rows in the same order, with what was predicted."""

    version: Literal["1"] = "1"
    rows: list[dict[str, str]]


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell)
