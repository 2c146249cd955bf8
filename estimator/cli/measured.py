"""Which measurements has the user: files that the request names, and what `benchmarks add` has kept?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks_db.errors import WorkloadError
from estimator.cli.csv_rows import read_sheet
from estimator.cli.output import as_csv
from estimator.cli.settings import Settings

if TYPE_CHECKING:
    from estimator.workload import Workload

Rows = list[dict[str, str]]
KEPT = "measured.csv"


def measured_rows(workload: Workload, here: Settings) -> Rows:
    """Every measurement of the user that a plan may lean on: the kept ones, then those of the request's files."""
    rows = kept_rows(here)
    for name in workload.measured:
        rows += read_measured(Path(name).expanduser())
    return rows


def kept_rows(here: Settings) -> Rows:
    """What `benchmarks add` has kept; nothing before its first use."""
    file = here.data_dir / KEPT
    return read_sheet(file, field="measured").rows if file.exists() else []


def read_measured(file: Path) -> Rows:
    """The rows of one CSV of measurements, checked."""
    from estimator.own_measurements import checked

    sheet = read_sheet(file, field="measured")
    for number, reason in sheet.ragged.items():
        raise WorkloadError(f"{file} row {number + 1}: {reason}", field="measured", value=str(file))
    return checked(sheet.rows, source=str(file))


def keep(rows: Rows, here: Settings) -> int:
    """Add rows to the kept ones; returns how many were new. The file is replaced whole, never half written."""
    from estimator.own_measurements import COLUMNS

    known = kept_rows(here)
    seen = {_key(row, COLUMNS) for row in known}
    new = [row for row in {_key(row, COLUMNS): row for row in rows}.values() if _key(row, COLUMNS) not in seen]
    if not new:
        return 0
    file = here.data_dir / KEPT
    part = file.with_name(f".{KEPT}.{os.getpid()}")
    try:
        here.data_dir.mkdir(parents=True, exist_ok=True)
        part.write_text(as_csv([*known, *new], COLUMNS), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise WorkloadError(
            f"{file} cannot be written: {error.strerror or error}", field="ESTIMATOR_DATA_DIR", value=str(here.data_dir)
        ) from None
    return len(new)


def _key(row: dict[str, str], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(row.get(name, "") for name in columns)
