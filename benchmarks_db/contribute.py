"""How does a user's own measurement count? Reading, validating and keeping a CSV of measurements.

The file has the measurement columns of `schema.MEASUREMENT` in any order; `model`, `gpu`, `throughput` and `unit`
must be filled, everything else may be absent, and columns of the user's own are passed over. Rows are kept in
`measurements.csv` of the user's data directory, written whole to a temporary file and moved into place, so that a
reader never sees half a file.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import tempfile
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

from benchmarks_db import schema
from benchmarks_db.columns import Table, from_rows
from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import resolve_gpu
from benchmarks_db.models import resolve_model
from benchmarks_db.package import MEASUREMENTS, is_package, read_member

OWN_FILE = "measurements.csv"
REQUIRED = ("model", "gpu", "throughput", "unit")
_COLUMNS = schema.names(schema.MEASUREMENT)
_OURS = ("id", "quality", "quality_reason", "mended")  # filled here, whatever the file says
_DEFAULTS = {"gpus": "1", "scope": "total", "task": "training", "source": "own", "stack": "plain", "quality": "ok"}

Row = dict[str, str]


def identity(row: Mapping[str, str]) -> str:
    """The same measurement has the same id, so that adding a file twice adds nothing."""
    text = "\x1f".join(row.get(name, "") for name in _COLUMNS if name not in _OURS)
    return "own-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def _check_header(columns: Iterable[str], where: str) -> None:
    known = list(columns)
    for name in known:
        # A slip of a name we know is refused; a column of the user's own passes
        if name not in _COLUMNS and (near := get_close_matches(name.casefold(), _COLUMNS, n=2, cutoff=0.75)):
            raise WorkloadError(f"{where} line 1: unknown column", field=name, value=name, nearest=near)
    for name in REQUIRED:
        if name not in known:
            raise WorkloadError(f"{where} line 1: this column is missing", field=name)


def _named(row: Row, where: str) -> Row:
    """Canonical model and GPU; a count in the GPU's name becomes `gpus`."""
    try:
        model, match = resolve_model(row["model"]).model.name, resolve_gpu(row["gpu"])
    except WorkloadError as error:
        raise WorkloadError(
            f"{where}: {error.message}", field=error.field, value=error.value, nearest=error.nearest
        ) from None
    gpus = row.get("gpus", "")
    if match.count is not None:
        if gpus and schema.number_of(gpus) != match.count:
            raise WorkloadError(f"{where}: {gpus} GPUs here, {match.count:g} in `gpu`", field="gpus", value=gpus)
        gpus = f"{match.count:g}"
    # A name that fits several cards stays as it is, so that its ambiguity stays visible
    name = row["gpu"].partition(":")[0].strip() if match.loose else match.gpu.name
    return row | {"model": model, "gpu": name, "gpus": gpus}


def _clean(raw: Mapping[str, str], where: str) -> Row:
    """One row in the project's form: canonical names, defaults, every cell checked."""
    row = {name: cell.strip() for name, cell in raw.items() if name in _COLUMNS and name not in _OURS}
    for name in REQUIRED:
        if not row[name]:
            raise WorkloadError(f"{where}: must not be empty", field=name)
    row = _named(row, where)
    row |= {name: row.get(name) or default for name, default in _DEFAULTS.items()}
    row["id"] = identity(row)
    schema.check(schema.MEASUREMENT, row, where)
    return row


def read_measurements(path: Path) -> list[Row]:
    """The measurements of a CSV file, or of a package of data, checked.

    WorkloadError names the line, the column and the nearest valid value.
    """
    try:
        with _opened(path) as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip() for name in next(reader, [])]
            _check_header(header, path.name)
            rows = []
            for cells in reader:
                where = f"{path.name} line {reader.line_num}"
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(header):
                    raise WorkloadError(f"{where}: {len(cells)} cells under {len(header)} columns", field="row")
                rows.append(_clean(dict(zip(header, cells, strict=True)), where))
            return rows
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror}", field="file", value=str(path)) from error
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{path.name} is not UTF-8 text (byte {error.start})", field="file", value=str(path)
        ) from error
    except csv.Error as error:
        raise WorkloadError(f"{path.name} line {reader.line_num}: {error}", field="file", value=str(path)) from error


def _opened(path: Path) -> TextIO:
    if path.is_file() and is_package(path):
        return io.StringIO(read_member(path, MEASUREMENTS).decode("utf-8-sig"), newline="")
    return path.open(encoding="utf-8-sig", newline="")


def own_rows(data_dir: Path) -> list[Row]:
    """The user's kept measurements as text by column; empty where there are none."""
    path = data_dir / OWN_FILE
    return read_measurements(path) if path.exists() else []


def load_own(data_dir: Path) -> Table:
    """The user's kept measurements as columns, in the form of `measurements.load`."""
    return from_rows(own_rows(data_dir), schema.MEASUREMENT)


def add(path: Path, data_dir: Path) -> tuple[int, int]:
    """Keep the measurements of `path` in `data_dir`: (rows added, rows that were there already).

    Nothing is kept unless the whole file is valid.
    """
    kept = {row["id"]: row for row in own_rows(data_dir)}
    before, found = len(kept), read_measurements(path)
    for row in found:
        kept.setdefault(row["id"], row)
    added = len(kept) - before
    if added:
        _write(data_dir / OWN_FILE, kept.values())
    return added, len(found) - added


def _write(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, _COLUMNS, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
