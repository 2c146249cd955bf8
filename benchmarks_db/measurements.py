"""How fast did a training step run, as somebody measured it? Twelve thousand rows as columns."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from benchmarks_db import schema
from benchmarks_db.columns import Table, from_files, read_packed, write_packed
from benchmarks_db.tables import DATA

FAMILIES = ("llm", "mlperf", "small", "vision")
FILES = tuple(f"measurements/{family}.csv" for family in FAMILIES)
NUMBERS = schema.names(schema.MEASUREMENT, figures=True)
WORDS = schema.names(schema.MEASUREMENT, figures=False)
PACKED = "measurements.npz"

Measurements = Table


@cache
def load() -> Measurements:
    """All shipped measurements, in the order of the files.

    Rows with `quality` other than `ok` are kept, with the reason: `suspect` rows deserve little weight in a fit,
    `unusable` ones none. `stack` is `tuned` for MLPerf submissions, else `plain`. `units_per_sample` is empty where
    a sample is one unit, or where the source does not tell.
    """
    return read_packed(DATA / PACKED) or from_files(FILES, schema.MEASUREMENT)


def pack() -> Path:
    """Write the packed form of the readable files."""
    return write_packed(DATA / PACKED, FILES, from_files(FILES, schema.MEASUREMENT))


def fingerprint() -> str:
    """sha256 of the readable files, in order: what a fit belongs to."""
    digest = hashlib.sha256()
    for name in FILES:
        digest.update((DATA / name).read_bytes())
    return digest.hexdigest()
