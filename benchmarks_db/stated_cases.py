"""What do people state in public about memory, time and cost that a good answer must agree with?"""

from __future__ import annotations

from functools import cache

from benchmarks_db.tables import DATA, read


@cache
def load() -> tuple[dict[str, str], ...]:
    """The cases as text by column; "GB" stands as its source prints it (mostly GiB)."""
    return tuple(read(DATA / "stated_cases.csv"))
