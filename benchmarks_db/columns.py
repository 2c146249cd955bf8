"""How do thousands of rows load in milliseconds? A table as columns: figures as float64, texts as codes.

A packed table is an npz file: each figure column as float64 (NaN = not stated), each text column as int32 codes, and
one JSON document with the vocabularies and the digests of the readable files.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.pack import FORMAT, digests, fresh
from benchmarks_db.schema import Column, names
from benchmarks_db.tables import DATA, plain, read

Figures = NDArray[np.float64]
Codes = NDArray[np.int32]
Texts = NDArray[np.object_]


class Table:
    """n rows as columns; `table["gpus"]` is float64 of shape (n,), `table["gpu"]` text of shape (n,)."""

    def __init__(
        self, figures: Mapping[str, Figures], words: Mapping[str, tuple[Codes, Texts]], order: tuple[str, ...]
    ) -> None:
        self.figures = figures
        self.words = words
        self.order = order

    def __len__(self) -> int:
        return len(next(iter(self.words.values()))[0])

    def __getitem__(self, column: str) -> Figures | Texts:
        if column in self.figures:
            return self.figures[column]
        codes, vocabulary = self.words[column]
        return vocabulary[codes]

    def number(self, column: str) -> Figures:
        """A figure column; NaN where it is not stated."""
        return self.figures[column]

    def text(self, column: str) -> Texts:
        """A text column, decoded; "" where it is not stated."""
        codes, vocabulary = self.words[column]
        return vocabulary[codes]

    def codes(self, column: str) -> tuple[Codes, Texts]:
        """A text column as (codes of shape (n,), vocabulary): cheaper than the texts for grouping."""
        return self.words[column]

    def where(self, column: str, value: str) -> NDArray[np.bool_]:
        """Rows whose text is `value`, without decoding the column."""
        codes, vocabulary = self.words[column]
        return np.isin(codes, np.flatnonzero(vocabulary == value))

    @cached_property
    def _decoded(self) -> dict[str, list[str]]:
        decoded = {name: [plain(value) for value in column.tolist()] for name, column in self.figures.items()}
        decoded |= {name: self.text(name).tolist() for name in self.words}
        return {name: decoded[name] for name in self.order}

    def rows(self, index: Iterable[int] | None = None) -> list[dict[str, str]]:
        """The rows as text by column: all of them, or those of `index`."""
        chosen = range(len(self)) if index is None else index
        return [{name: column[i] for name, column in self._decoded.items()} for i in chosen]


def from_rows(rows: Iterable[Mapping[str, str]], schema: Iterable[Column]) -> Table:
    """Rows of text as a table."""
    schema = tuple(schema)
    cells: dict[str, list[str]] = {name: [] for name in names(schema)}
    for row in rows:
        for name, column in cells.items():
            column.append(row.get(name) or "")
    figures = {name: np.array([float(c or "nan") for c in cells[name]], float) for name in names(schema, figures=True)}
    words: dict[str, tuple[Codes, Texts]] = {}
    for name in names(schema, figures=False):
        vocabulary: dict[str, int] = {}
        codes = np.array([vocabulary.setdefault(cell, len(vocabulary)) for cell in cells[name]], np.int32)
        words[name] = (codes, np.array([*vocabulary, None], object)[:-1])
    return Table(figures, words, names(schema))


def from_files(files: Iterable[str], schema: Iterable[Column]) -> Table:
    """The rows of several readable files, in order, as a table."""
    return from_rows((row for name in files for row in read(DATA / name)), schema)


def _member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes whenever it is built
    archive.writestr(info, content, zipfile.ZIP_DEFLATED, 6)


def write_packed(path: Path, files: tuple[str, ...], table: Table) -> Path:
    """Write the packed form of `table`, which was read from `files`."""
    head = {
        "format": FORMAT,
        "sources": digests(files),
        "order": table.order,
        "figures": list(table.figures),
        "words": list(table.words),
        "rows": len(table),
    }
    with zipfile.ZipFile(path, "w") as archive:
        _member(archive, "head.json", json.dumps(head).encode())
        _member(archive, "figures", np.stack(list(table.figures.values())).astype("<f8").tobytes())
        _member(archive, "codes", np.stack([codes for codes, _ in table.words.values()]).astype("<i4").tobytes())
        vocabularies = [vocabulary.tolist() for _, vocabulary in table.words.values()]
        _member(archive, "vocabularies.json", json.dumps(vocabularies, ensure_ascii=False).encode())
    return path


def read_packed(path: Path) -> Table | None:
    """The packed table, or None where it is missing or its readable files have changed."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    except FileNotFoundError:
        return None
    with archive:
        head = json.loads(archive.read("head.json"))
        if head.get("format") != FORMAT or not fresh(head["sources"]):
            return None
        rows = head["rows"]
        figures = np.frombuffer(archive.read("figures"), "<f8").reshape(-1, rows)
        codes = np.frombuffer(archive.read("codes"), "<i4").reshape(-1, rows)
        vocabularies = json.loads(archive.read("vocabularies.json"))
    words = {
        name: (code, np.array([*vocabulary, None], object)[:-1])
        for name, code, vocabulary in zip(head["words"], codes, vocabularies, strict=True)
    }
    return Table(dict(zip(head["figures"], figures, strict=True)), words, tuple(head["order"]))


def packed_sources(path: Path) -> dict[str, list[int | str]]:
    """file -> [size, sha256] that a packed table was built from."""
    with zipfile.ZipFile(path) as archive:
        sources: dict[str, list[int | str]] = json.loads(archive.read("head.json"))["sources"]
    return sources
