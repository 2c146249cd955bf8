"""Which column of a table that a person made is which, and what in it counts as blank for want of being understood?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from estimator.rows.spellings import WORDS, written

NEVER_READ = ("throughput", "tflops_per_gpu", "mfu", "mem_gib_per_gpu", "notes", "wall_hours", "gpu_hours", "cost_usd")
"""Columns of measurements and runs that a prediction must not read: nobody misspelt one of the others."""


NEEDED = {"model": "each row needs a model, or params_m and a task", "gpu": "each row needs a GPU"}


def fold(header: str) -> str:
    """A header without case, spaces and marks.

    >>> fold(" Micro-Batch ")
    'microbatch'
    """
    return re.sub(r"[\W_]+", "", header.casefold())


def places_of(header: Iterable[str], reads: Sequence[str]) -> dict[str, str]:
    """Column to read -> its header in the table: the very name, else the first that differs in case and marks only.

    >>> places_of(["GPU ", "Micro Batch", "x"], ("gpu", "micro_batch", "tp"))
    {'gpu': 'GPU ', 'micro_batch': 'Micro Batch'}
    """
    given = list(dict.fromkeys(header))
    folded: dict[str, str] = {}
    for title in given:
        folded.setdefault(fold(title), title)
    named = {name: name if name in given else folded.get(fold(name)) for name in reads}
    return {name: title for name, title in named.items() if title is not None}


def as_asked(rows: Sequence[Mapping[str, str]], reads: Sequence[str]) -> list[dict[str, str]]:
    """The cells of the columns that are read, by the names they are read under; missing ones are blank."""
    places = places_of((title for row in rows for title in row), reads)
    return [{name: str(row.get(places.get(name, name)) or "") for name in reads} for row in rows]


def near_misses(header: Sequence[str], reads: Sequence[str]) -> list[str]:
    """A sentence for each column that every row needs and that is missing, and for each header that is not read but
    nearly named like a column that would be.

    >>> near_misses(["model", "gpu", "micro_bath"], ("model", "gpu", "micro_batch"))
    ["the column 'micro_bath' is not read (did you mean micro_batch?)"]
    """
    places = places_of(header, reads)
    open_names = {fold(name): name for name in reads if name not in places}
    told = [f"there is no column {name}: {missing}" for name, missing in NEEDED.items() if name not in places]
    for title in header:
        if title in places.values() or fold(title) in {fold(name) for name in NEVER_READ}:
            continue
        if near := get_close_matches(fold(title), open_names, n=1, cutoff=0.8):
            told.append(f"the column {title!r} is not read (did you mean {open_names[near[0]]}?)")
    return told


def doubts(rows: Sequence[Mapping[str, str]], reads: Sequence[str]) -> list[str]:
    """A sentence for each word of a closed vocabulary that means nothing here, so that its cells count as blank."""
    places = places_of((title for row in rows for title in row), reads)
    told = []
    for name in (name for name in WORDS if name in places):
        cells = Counter(str(row.get(places[name]) or "").strip() for row in rows)
        for cell, count in cells.items():
            if written({name: cell}, name) not in (*WORDS[name], ""):
                rows_of = f"{count:,} rows" if count > 1 else "a row"
                told.append(
                    f"{name}: {cell!r} of {rows_of} is not known and counts as blank ({', '.join(WORDS[name])})"
                )
    return told
