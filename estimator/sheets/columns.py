"""Which column of a person's sheet means what? Headers and their synonyms, units in brackets, explicit mappings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from benchmarks_db.errors import WorkloadError
from estimator.sheets.numbers import as_number
from estimator.sheets.values import SHEET_VALUES

LABELS = ("name", "team", "quarter")
"""Columns that only say what a row is about."""

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "name": ("run", "run name", "job", "experiment", "project", "workload"),
    "team": ("group", "department", "owner", "cost centre", "cost center"),
    "quarter": ("period", "month", "fiscal quarter"),
    "model": ("model name", "base model", "network"),
    "method": ("training method", "fine-tuning method", "training type", "mode"),
    "tokens": ("dataset tokens", "training tokens", "num tokens", "token count"),
    "samples": ("dataset samples", "examples", "num samples", "rows of data"),
    "images": ("dataset images", "num images"),
    "epochs": ("num epochs", "passes", "train epochs"),
    "seq_len": ("sequence length", "seq length", "max seq len", "context", "context length"),
    "image_size": ("resolution", "img size", "pixels"),
    "precision": ("dtype", "number format"),
    "global_batch": ("batch", "batch size", "global batch size"),
    "micro_batch": ("micro batch size",),
    "optimizer": ("optimiser",),
    "software": ("software level",),
    "gpu": ("gpu type", "gpu model", "accelerator", "card", "hardware"),
    "gpus": ("gpu count", "num gpus", "number of gpus", "count of gpus", "# gpus", "gpus total"),
    "cloud": ("provider", "cloud provider", "vendor"),
    "region": ("location", "cloud region"),
    "market": ("purchase option", "pricing model", "purchase", "offer type"),
    "max_gpus": ("most gpus", "gpu limit", "gpu quota"),
    "deadline": ("max hours", "time limit"),
    "budget": ("max cost", "budget usd", "cost limit"),
}
_COUNTS = {
    "k": "K", "thousand": "K", "thousands": "K", "m": "M", "million": "M", "millions": "M", "b": "B", "bn": "B",
    "billion": "B", "billions": "B", "t": "T", "trillion": "T", "trillions": "T",
}  # fmt: skip
UNITS: Mapping[str, Mapping[str, str]] = {
    "tokens": _COUNTS,
    "samples": _COUNTS,
    "images": _COUNTS,
    "deadline": {"h": "h", "hours": "h", "hrs": "h", "days": " days", "d": " days", "min": " minutes",
                 "minutes": " minutes"},
    "budget": {"$": "", "usd": "", "us$": "", "dollars": ""},
    "seq_len": {"tokens": ""},
    "image_size": {"px": "", "pixels": ""},
}  # fmt: skip
"""What may stand in brackets behind a header; any other unit makes the column unclear."""

RESULTS = (*SHEET_VALUES, "error")
BRACKETS = re.compile(r"(.*?)[\[(]([^\])]*)[\])]\s*", re.DOTALL)
NUMBER = re.compile(r"\d+(\.\d+)?([eE][+-]?\d+)?")


def fold(header: str) -> str:
    """A header without case, spaces and marks.

    >>> fold("  GPU_Type ") == fold("gpu type")
    True
    """
    return re.sub(r"[\s_\-./:]+", "", header.casefold())


KEYS: Mapping[str, str] = {
    **{fold(word): key for key, words in SYNONYMS.items() for word in words},
    **{fold(key): key for key in SYNONYMS},
}
_RESULTS = {fold(name): name for name in RESULTS}
_COMMON = ("gpu_hours", "fits", "memory_gib", "usd_per_hour", "price_date", "evidence", "error")
"""Results whose names people also give to columns of their own, such as the GPU hours that they have booked."""


@dataclass(frozen=True, slots=True)
class Input:
    """A column that is read: the key of the request, and the unit that its header states for bare numbers."""

    key: str
    unit: str = ""

    def text(self, cell: str) -> str:
        """The cell as the request reads it, with the unit of the column behind a bare number.

        Raises WorkloadError where it could be two numbers.

        >>> Input("tokens", "M").text("50"), Input("tokens").text("50 000 000")
        ('50M', '50000000')
        """
        if not self.unit or not NUMBER.fullmatch(cell):
            cell = as_number(self.key, cell)
        return cell + self.unit if self.unit and NUMBER.fullmatch(cell) else cell


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of one sheet are: those that are read, and where each result is written."""

    inputs: Mapping[int, Input]
    results: Mapping[str, int]
    appended: tuple[str, ...]  # results that the sheet did not have yet
    unread: tuple[str, ...] = field(default=())  # headers that mean nothing here

    @property
    def doubts(self) -> list[str]:
        """A sentence for each column that is named like one that is read, in a unit that is not known."""
        return [
            f"the column {title!r} was not read: its unit is not known; say what it means with --map"
            for title in self.unread
            if (match := BRACKETS.fullmatch(title)) is not None and fold(match[1]) in KEYS
        ]

    @property
    def writes(self) -> Mapping[int, str]:
        """Result name by column."""
        return {column: name for name, column in self.results.items()}


def meaning(header: str) -> Input | None:
    """What a header means by itself; None where that is not clear.

    >>> meaning("Tokens (M)"), meaning("notes")
    (Input(key='tokens', unit='M'), None)
    """
    match = BRACKETS.fullmatch(header.strip())
    name, unit = (match[1], match[2]) if match else (header, None)
    key = KEYS.get(fold(name))
    if key is None or unit is None:
        return Input(key) if key is not None else None
    known = UNITS.get(key, {}).get(unit.strip().casefold())
    return None if known is None else Input(key, known)


def is_header(cells: Iterable[str], mapping: Mapping[str, str]) -> bool:
    """Does a row of texts head a sheet of workloads: a model, and at least one more key?"""
    keys = {mapping[cell.strip()] for cell in cells if cell.strip() in mapping}
    keys |= {found.key for cell in cells if (found := meaning(cell)) is not None}
    return "model" in keys and len(keys) > 1


def columns_of(header: Sequence[str], width: int, mapping: Mapping[str, str]) -> Columns:
    """The columns of a sheet under `header`; results that it lacks go behind column `width` (counted from 0).

    Raises WorkloadError where two columns could be the same key, or a mapping names what is not there.
    """
    _check(mapping, header)
    found: dict[str, list[tuple[int, Input]]] = {}
    results = _results_in(header)
    ours = set(results.values())
    unread = []
    for place, text in enumerate(header):
        title = text.strip()
        if not title or place in ours:
            continue
        if title in mapping:
            if mapping[title]:
                found.setdefault(mapping[title], []).insert(0, (place, Input(mapping[title])))
            continue
        known = meaning(title)
        if known is None:
            unread.append(title)
        else:
            found.setdefault(known.key, []).append((place, known))
    missing = [name for name in RESULTS if name not in results]
    results |= {name: width + n for n, name in enumerate(missing)}
    picked = {key: _one(key, places, header, mapping) for key, places in found.items()}
    return Columns(
        inputs=dict(picked.values()),
        results=results,
        appended=tuple(missing),
        unread=tuple(unread),
    )


def _results_in(header: Sequence[str]) -> dict[str, int]:
    """Where an earlier filling put its results.

    A sheet that was not filled has none, whatever its columns are called. Of two columns of one name the last is
    ours, since results are appended; common names count only as they are written by us.
    """
    results: dict[str, int] = {}
    for place, text in enumerate(header):
        name = _RESULTS.get(fold(text))
        if name is not None and (name not in _COMMON or text.strip() == name):
            results[name] = place
    return results if results.keys() - _COMMON else {}


def _one(
    key: str, places: list[tuple[int, Input]], header: Sequence[str], mapping: Mapping[str, str]
) -> tuple[int, Input]:
    """The column of a key: the mapped one, else the one that bears its very name, else the only one."""
    if len(places) > 1 and mapping.get(header[places[0][0]].strip()) != key:
        exact = [found for found in places if fold(header[found[0]]) == fold(key)]
        if len(exact) != 1:
            titles = [header[place].strip() for place, _ in places]
            raise WorkloadError(
                f"{' and '.join(map(repr, titles))} could each be {key}",
                field="map",
                value=titles[0],
                nearest=[f"{titles[0]}={key}"],
            )
        return exact[0]
    return places[0]


def _check(mapping: Mapping[str, str], header: Sequence[str]) -> None:
    titles = [title.strip() for title in header if title.strip()]
    for title, key in mapping.items():
        if key and key not in SYNONYMS:
            near = get_close_matches(key, SYNONYMS, n=2, cutoff=0.5)
            raise WorkloadError(f"{key!r} is not a column that is read", field="map", value=key, nearest=near)
        if title not in titles:
            near = get_close_matches(title, titles, n=2, cutoff=0.4)
            raise WorkloadError(f"there is no column {title!r}", field="map", value=title, nearest=near)


def mapping_of(pairs: Iterable[str]) -> dict[str, str]:
    """`Header=key` pairs; an empty key leaves a column unread."""
    found = {}
    for pair in pairs:
        title, equals, key = pair.rpartition("=")
        if not equals or not title.strip():
            raise WorkloadError("say Header=key", field="map", value=pair, nearest=["Card=gpu"])
        found[title.strip()] = key.strip().casefold().replace(" ", "_")
    return found
