"""Which measurements has the user: files that the request names, and what `benchmarks add` has kept?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks_db.errors import WorkloadError
from estimator.cli.settings import Settings
from estimator.request.measured_text import is_text

if TYPE_CHECKING:
    from estimator.request.workload import Workload

Rows = list[dict[str, str]]


def measured_rows(workload: Workload, here: Settings) -> Rows:
    """Every measurement of the user that a plan may lean on: the kept ones, then those of the request's files.

    Measurements in words are the planner's to read: what they leave open is in the request.
    """
    from estimator.request.files import is_there

    rows = kept_rows(here)
    for name in workload.measured:
        if not is_text(name):
            file = Path(name).expanduser()
            if not is_there(file):
                words = f"{name!r} is neither a file nor words such as '3100 tokens/s on 1xRTX-3090, micro-batch 4'"
                raise WorkloadError(words, field="measured", value=name)
            rows += read_measured(file)[0]
    return rows


def kept_rows(here: Settings) -> Rows:
    """What `benchmarks add` has kept: on this computer, and in the database that ESTIMATOR_DATABASE_URL names."""
    if here.database_url is None:
        if not (here.data_dir / "measurements.csv").exists():
            return []
        from benchmarks_db.contribute import own_rows

        return own_rows(here.data_dir)
    from pricing.store import Store
    from pricing.store_measurements import kept_measurements

    return kept_measurements(here.data_dir, Store(here.database_url))


def keep_rows(file: Path, here: Settings) -> tuple[int, int, str]:
    """Keep the rows of a checked CSV: how many are new, how many were known, and where they are."""
    if here.database_url is None:
        from benchmarks_db.contribute import add

        try:
            return (*add(file, here.data_dir), str(here.data_dir))
        except OSError as error:
            words = f"{here.data_dir} cannot be written: {error.strerror or error}"
            raise WorkloadError(words, field="ESTIMATOR_DATA_DIR", value=str(here.data_dir)) from None
    from benchmarks_db.contribute import read_measurements
    from pricing.store import Store
    from pricing.store_measurements import add_measurements

    rows, store = read_measurements(file), Store(here.database_url)
    new = add_measurements(store, rows, now=here.now)
    store.close()
    return new, len(rows) - new, store.name


def read_measured(file: Path) -> tuple[Rows, list[float | None]]:
    """The checked rows of one CSV of measurements, and the utilisation that each implies."""
    from benchmarks_db.contribute import read_measurements
    from estimator.planning.own_measurements import believed

    rows = read_measurements(file)
    return rows, believed(rows, source=file.name)
