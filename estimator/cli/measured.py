"""Which measurements has the user: files that the request names, and what `benchmarks add` has kept?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from estimator.cli.settings import Settings
from estimator.request.measured_text import is_text

if TYPE_CHECKING:
    from estimator.request.workload import Workload

Rows = list[dict[str, str]]


def measured_rows(workload: Workload, here: Settings) -> Rows:
    """Every measurement of the user that a plan may lean on: the kept ones, then those of the request's files.

    Measurements in words are the planner's to read: what they leave open is in the request.
    """
    rows: Rows = []
    files = [name for name in workload.measured if not is_text(name)]
    if files or (here.data_dir / "measurements.csv").exists():
        from benchmarks_db.contribute import own_rows

        rows = own_rows(here.data_dir)
    for name in files:
        rows += read_measured(Path(name).expanduser())[0]
    return rows


def read_measured(file: Path) -> tuple[Rows, list[float | None]]:
    """The checked rows of one CSV of measurements, and the utilisation that each implies."""
    from benchmarks_db.contribute import read_measurements
    from estimator.following.own_measurements import believed

    rows = read_measurements(file)
    return rows, believed(rows, source=file.name)
