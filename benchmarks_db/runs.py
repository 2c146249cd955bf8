"""How long did a whole training run take, and what did it cost, as its authors say?"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from benchmarks_db import schema
from benchmarks_db.columns import Table, from_files, read_packed, write_packed
from benchmarks_db.tables import DATA

FAMILIES = ("dawnbench", "dlexamples", "mlperf", "published", "small")
FILES = tuple(f"runs/{family}.csv" for family in FAMILIES)
PACKED = "runs.npz"

Runs = Table


@cache
def load() -> Runs:
    """All shipped runs, in the order of the files.

    `computed` names the figure (wall_hours or gpu_hours) that follows from the other: do not score both.
    """
    return read_packed(DATA / PACKED) or from_files(FILES, schema.RUN)


def pack() -> Path:
    """Write the packed form of the readable files."""
    return write_packed(DATA / PACKED, FILES, from_files(FILES, schema.RUN))
