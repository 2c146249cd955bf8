"""What does a cloud's own name for an accelerator mean? Rows of `accelerators.csv`; unknown stays unknown."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

_TOLERANCE = 0.15  # clouds state a card's memory a little below its label


@cache
def _table() -> dict[tuple[str, str], list[tuple[float | None, str]]]:
    text = resources.files("pricing").joinpath("sources/accelerators.csv").read_text(encoding="utf-8")
    table: dict[tuple[str, str], list[tuple[float | None, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        memory = float(row["memory_gib"]) if row["memory_gib"] else None
        table.setdefault((row["cloud"], row["name"].casefold()), []).append((memory, row["gpu"]))
    return table


def canonical_gpu(cloud: str, name: str, memory_gib: float | None = None) -> str | None:
    """The canonical GPU of `benchmarks_db` for a cloud's word, None if no table knows it.

    Where one word names cards of several sizes the memory decides (within 15%).

    >>> canonical_gpu("aws", "A100", 80.0), canonical_gpu("aws", "A100"), canonical_gpu("aws", "Z900", 384.0)
    ('A100-SXM4-80GB', None, None)
    """
    for label, gpu in _table().get((cloud, name.strip().casefold()), []):
        if label is None or (memory_gib is not None and abs(memory_gib - label) <= _TOLERANCE * label):
            return gpu
    return None


def cloud_name(cloud: str, gpu: str) -> str | None:
    """A cloud's own word for a canonical GPU, None if it has none (the first where it has several).

    >>> cloud_name("gcp", "L4")
    'nvidia-l4'
    """
    return next((name for (of, name), rows in _table().items() if of == cloud and rows[0][1] == gpu), None)
