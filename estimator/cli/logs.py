"""`benchmarks add --from-log`: what a log says and what the flags add to it, as a file of measurements."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks_db.errors import UnknownName, WorkloadError


@contextmanager
def as_csv_file(log: Path, said: Mapping[str, str], settings: Sequence[str]) -> Iterator[Path]:
    """A CSV of one row while it is needed: the cells of the log, over them what the flags say."""
    from estimator.cli.errors import note
    from estimator.following.training_logs import read_training_log
    from estimator.request.files import MAX_BYTES, is_there, read_file, read_stdin

    if str(log) == "-":
        text = read_stdin(field="--from-log")
    elif (
        is_there(log) and log.is_file() and log.stat().st_size > MAX_BYTES
    ):  # a request of that size is a slip, a log is not
        text = log.read_text(encoding="utf-8", errors="replace")
    else:
        text = read_file(log, field="--from-log")
    found = read_training_log(text)
    note(f"read as {found.trainer}: {found.cells['throughput']} {found.cells['unit']}")
    for mind in found.notes:
        note(f"  {mind}")
    cells = found.cells | dict(said) | _columns(settings)
    for name in ("model", "gpu"):
        if not cells.get(name):
            raise WorkloadError("a log does not say this", field=f"--{name}", nearest=(f"--{name} NAME",))
    count = cells["gpu"].rpartition(":")[2] if ":" in cells["gpu"] else ""
    if "gpus" in found.cells and count.isdigit():
        cells.pop("gpus")
    with TemporaryDirectory() as folder:
        file = Path(folder) / (log.name or "log")
        with file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(cells), lineterminator="\n")
            writer.writeheader()
            writer.writerow(cells)
        yield file


def _columns(settings: Sequence[str]) -> dict[str, str]:
    """`seq_len=2048` as columns and cells."""
    from benchmarks_db import schema

    names = schema.names(schema.MEASUREMENT)
    cells = {}
    for text in settings:
        name, equals, value = text.partition("=")
        key = name.strip().replace("-", "_")
        if not equals or not value.strip():
            raise WorkloadError(f"{text!r} is not column=value", field="--set", value=text, nearest=("seq_len=2048",))
        if key not in names:
            raise UnknownName("column", key, names, field="--set")
        cells[key] = value.strip()
    return cells
