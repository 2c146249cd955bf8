"""How do the facts load fast? Packed files for names, measurements and runs, built from the readable CSV.

    python -m benchmarks_db.pack

`data/names.pack` holds the GPU and model tables and every spelling of their names as plain text that is searched
rather than parsed; `data/measurements.npz` and `data/runs.npz` hold columns. Each says which readable files it was
built from, with size and sha256. A reader compares the sizes (a `stat` each) and falls back to the readable files
where they differ, so a row added by hand is seen at once; a test compares the digests.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from benchmarks_db.names import fold, squeeze, unique
from benchmarks_db.tables import DATA, read

T = TypeVar("T")
FORMAT = 3  # of the packed files; raise it when their shape changes
PACKED_NAMES = "names.pack"
GPU_FILES = ("gpus.csv", "gpu_aliases.csv")
MODEL_FILES = ("models/transformers.csv", "models/vision.csv", "models/profiled.csv", "model_aliases.csv")
SECTIONS = ("columns", "lines", "keys", "sources")


class NameTable:
    """A table whose rows are found by name, and every spelling of those names, decoded only when asked for."""

    def __init__(self, columns: str, lines: str, keys: str, sources: str) -> None:
        self.columns = columns  # the CSV header; `name` stands first
        self.lines = lines  # CSV rows, each with a newline in front; a source is its number in `sources`
        self.keys = keys  # "\nspelling\tname\tloose\talternatives" each
        self.sources = sources  # one a line
        self._names: dict[str, None] = {}
        self._squeezed: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return f"\n{name}," in self.lines

    @property
    def names(self) -> dict[str, None]:
        """The canonical names, in order."""
        if not self._names:
            self._names = dict.fromkeys(line.split(",", 1)[0] for line in self.lines.split("\n")[1:])
        return self._names

    def rows(self, name: str) -> Iterator[dict[str, str]]:
        """The rows of one name, as text by column."""
        columns, sources = self.columns.split(","), self.sources.split("\n")
        at = self.lines.find(f"\n{name},")
        while at >= 0:
            end = self.lines.find("\n", at + 1)
            line = self.lines[at + 1 : end if end > 0 else None]
            row = dict(zip(columns, next(csv.reader([line])), strict=True))
            row["source"] = sources[int(row["source"])]
            yield row
            at = self.lines.find(f"\n{name},", at + 1)

    def lookup(self, spelling: str) -> tuple[str, bool, tuple[str, ...]] | None:
        """(canonical name, loose, alternatives) of a spelling: as it is written, or folded."""
        for key in (spelling, fold(spelling)):
            at = self.keys.find(f"\n{key}\t")
            if at >= 0:
                end = self.keys.find("\n", at + 1)
                _, name, loose, others = self.keys[at + 1 : end if end > 0 else None].split("\t")
                return name, bool(loose), tuple(others.split("; ")) if others else ()
        return None

    def squeezed(self, spelling: str) -> str | None:
        """The canonical name that fits a spelling without any separator, where it is the only one."""
        if not self._squeezed:
            self._squeezed = unique((squeeze(fold(name)), name) for name in self.names)
        return self._squeezed.get(squeeze(fold(spelling)))

    def spellings(self) -> dict[str, str]:
        """Aliases, lower case -> the canonical name, for hints."""
        keys = (line.split("\t", 2)[:2] for line in self.keys.split("\n")[1:])
        return {key: name for key, name in keys if key != fold(name)}


class Decoded(Mapping[str, T]):
    """Canonical name -> what `decode` makes of its rows, when asked for."""

    def __init__(self, table: NameTable, decode: Callable[[list[dict[str, str]]], T]) -> None:
        self._table = table
        self._decode = decode
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            rows = list(self._table.rows(name))
            if not rows:
                raise KeyError(name)
            self._made[name] = self._decode(rows)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)


def digests(files: Iterable[str]) -> dict[str, list[int | str]]:
    """file -> [size in bytes, sha256] of readable files."""
    import hashlib  # only the packer and the tests need it

    found: dict[str, list[int | str]] = {}
    for name in files:
        content = (DATA / name).read_bytes()
        found[name] = [len(content), hashlib.sha256(content).hexdigest()]
    return found


def fresh(sources: Mapping[str, list[int | str]]) -> bool:
    """Whether the readable files still have the sizes that the packed file was built from."""
    try:
        return all((DATA / name).stat().st_size == size for name, (size, _) in sources.items())
    except FileNotFoundError:
        return True  # shipped without its readable form


def _build(rows: list[dict[str, str]], aliases: Iterable[Mapping[str, str]], target: str) -> NameTable:
    """A table from its readable rows and the rows of its alias file, whose column `target` holds the canonical name."""
    import io

    columns = dict.fromkeys(key for row in rows for key in row if key != "units_source")
    sources: dict[str, int] = {}
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(columns), restval="", extrasaction="ignore", lineterminator="\n")
    for row in rows:
        cells = {key: " ".join((cell or "").split()) for key, cell in row.items()}
        writer.writerow(cells | {"source": str(sources.setdefault(cells["source"], len(sources)))})
    names = dict.fromkeys(row["name"] for row in rows)
    keys: dict[str, str] = {}
    for name in names:
        keys.setdefault(fold(name), f"{name}\t\t")
    for alias in aliases:
        if (name := alias[target]) in names:
            said = f"{name}\t{'loose' if alias['loose'] == 'yes' else ''}\t{alias.get('alternatives', '')}"
            # The first owner keeps a folded spelling; a later one is found as it is written (`unet-3d` beside `unet3d`)
            if keys.setdefault(fold(alias["alias"]), said) != said:
                keys.setdefault(alias["alias"].casefold(), said)
    text = "".join(f"\n{key}\t{said}" for key, said in keys.items())
    return NameTable(",".join(columns), "\n" + stream.getvalue().rstrip("\n"), text, "\n".join(sources))


def build_gpus() -> NameTable:
    """The GPU table from its readable files."""
    return _build(list(read(DATA / "gpus.csv")), read(DATA / "gpu_aliases.csv"), "gpu")


def build_models() -> NameTable:
    """The model table from its readable files; the rows of a model stand together, smallest image first."""
    vision = {"kind": "vision", "task": "image-classification"}
    rows = [
        *read(DATA / "models/transformers.csv"),
        *(row | vision for row in read(DATA / "models/vision.csv")),
        *read(DATA / "models/profiled.csv"),
    ]
    rows.sort(key=lambda row: float(row.get("image_size") or 0))
    return _build(rows, read(DATA / "model_aliases.csv"), "model")


@cache
def _packed() -> dict[str, NameTable] | None:
    try:
        content = (DATA / PACKED_NAMES).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    head, _, body = content.partition("\n")
    stated = json.loads(head)
    if stated["format"] != FORMAT or not fresh(stated["sources"]):
        return None
    tables: dict[str, NameTable] = {}
    at = 0
    for name, lengths in stated["tables"].items():
        parts = []
        for length in lengths:
            parts.append(body[at : at + length])
            at += length
        tables[name] = NameTable(*parts)
    return tables


@cache
def gpu_table() -> NameTable:
    """GPUs: from the packed file, or from the readable ones where those are newer."""
    packed = _packed()
    return build_gpus() if packed is None else packed["gpus"]


@cache
def model_table() -> NameTable:
    """Models: from the packed file, or from the readable ones where those are newer."""
    packed = _packed()
    return build_models() if packed is None else packed["models"]


def forget() -> None:
    """Drop what was loaded, so that the next reader sees changed files (the importer and tests need it)."""
    for loaded in (_packed, gpu_table, model_table):
        loaded.cache_clear()


def pack_names() -> Path:
    """Write `names.pack`."""
    tables = {"gpus": build_gpus(), "models": build_models()}
    parts = {name: [getattr(table, section) for section in SECTIONS] for name, table in tables.items()}
    head = {
        "format": FORMAT,
        "sources": digests((*GPU_FILES, *MODEL_FILES)),
        "tables": {name: [len(part) for part in found] for name, found in parts.items()},
    }
    body = "".join(part for found in parts.values() for part in found)
    path = DATA / PACKED_NAMES
    path.write_bytes(f"{json.dumps(head)}\n{body}".encode())
    forget()
    return path


def packed_name_sources() -> dict[str, list[int | str]]:
    """file -> [size, sha256] that `names.pack` was built from."""
    with (DATA / PACKED_NAMES).open(encoding="utf-8") as stream:
        sources: dict[str, list[int | str]] = json.loads(stream.readline())["sources"]
    return sources


def main() -> None:
    """Build every packed file."""
    from benchmarks_db import measurements, runs

    for path in (pack_names(), measurements.pack(), runs.pack()):
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
