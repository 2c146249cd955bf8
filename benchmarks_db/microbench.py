"""What do GPUs sustain, measured one operation at a time: matrix products, copies, collectives?"""

from __future__ import annotations

from functools import cache

from benchmarks_db import schema
from benchmarks_db.columns import Table, from_files


@cache
def load() -> Table:
    """All shipped microbenchmarks, in the order of the file."""
    return from_files(("microbench.csv",), schema.MICROBENCH)
