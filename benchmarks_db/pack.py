"""How do the facts load fast? One packed file each for names, measurements and runs, built from the readable CSV.

    python -m benchmarks_db.pack

`data/names.json` holds the GPU table, the model tables and the look-up of every spelling; `data/measurements.npz`
and `data/runs.npz` hold columns. Each says which readable files it was built from, with size and sha256. A reader
compares the sizes (a `stat` each) and falls back to the readable file where they differ, so a row added by hand is
seen at once; a test compares the digests.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks_db.names import fold, squeeze, unique
from benchmarks_db.tables import DATA, read

NAME_FILES = (
    "gpus.csv",
    "gpu_aliases.csv",
    "models/transformers.csv",
    "models/vision.csv",
    "models/profiled.csv",
    "model_aliases.csv",
)
PACKED_NAMES = "names.json"
FORMAT = 2  # of the packed files; raise it when their shape changes


def digests(files: Iterable[str], root: Path = DATA) -> dict[str, list[int | str]]:
    """file -> [size in bytes, sha256] of readable files."""
    import hashlib  # only the packer and the tests need it

    found: dict[str, list[int | str]] = {}
    for name in files:
        content = (root / name).read_bytes()
        found[name] = [len(content), hashlib.sha256(content).hexdigest()]
    return found


def fresh(sources: Mapping[str, list[int | str]], root: Path = DATA) -> bool:
    """Whether the readable files still have the sizes that the packed file was built from."""
    try:
        return all((root / name).stat().st_size == size for name, (size, _) in sources.items())
    except FileNotFoundError:
        return True  # shipped without its readable form


def _text(rows: Iterable[Mapping[str, str]], columns: tuple[str, ...]) -> str:
    import io

    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: (v or "").replace("\n", " ") for k, v in row.items()} for row in rows)
    return stream.getvalue()


@dataclass(slots=True)
class ModelIndex:
    """Every spelling of every model, and where its rows stand; rows are decoded when asked for."""

    keys: dict[str, str]  # spelling -> canonical name, `?` at the end where it is loose
    lines: dict[str, list[int]]  # canonical name -> its lines, by image size
    text: list[str]  # the table, header first; a source is its number in `sources`
    sources: list[str]
    _squeezed: dict[str, str] = field(default_factory=dict)

    def rows(self, name: str) -> Iterator[dict[str, str]]:
        """The rows of one model."""
        columns = self.text[0].split(",")
        for cells in csv.reader(self.text[line] for line in self.lines[name]):
            row = dict(zip(columns, cells, strict=True))
            row["source"] = self.sources[int(row["source"])]
            yield row

    def squeezed(self) -> dict[str, str]:
        """Spelling without any separator -> canonical name, where it is the only one."""
        if not self._squeezed:
            self._squeezed = unique((squeeze(fold(name)), name) for name in self.lines)
        return self._squeezed

    def aliases(self) -> list[str]:
        """Spellings that are not canonical names."""
        return [key for key in self.keys if key not in self.lines]


def spellings(table: Iterable[tuple[str, str, bool]]) -> dict[str, str]:
    """Folded spelling -> name (`?` at the end where loose), the first owner keeping it; a later owner of the same
    folded spelling is found as it is written (`unet-3d` beside `unet3d`).
    """
    keys: dict[str, str] = {}
    for alias, name, loose in table:
        said = name + "?" * loose
        if keys.setdefault(fold(alias), said) != said:
            keys.setdefault(alias.casefold(), said)
    return keys


def _build_models() -> ModelIndex:
    rows = [
        *read(DATA / "models/transformers.csv"),
        *({"kind": "vision", "task": "image-classification"} | row for row in read(DATA / "models/vision.csv")),
        *read(DATA / "models/profiled.csv"),
    ]
    rows.sort(key=lambda row: float(row.get("image_size") or 0))
    columns: dict[str, None] = {}
    for row in rows:
        columns |= dict.fromkeys(key for key in row if key != "units_source")
    sources: dict[str, int] = {}
    for row in rows:
        row["source"] = str(sources.setdefault(row["source"], len(sources)))
    text = _text(rows, tuple(columns)).splitlines()
    lines: dict[str, list[int]] = {}
    for n, row in enumerate(rows, 1):
        lines.setdefault(row["name"], []).append(n)
    named = [(name, name, False) for name in lines]
    aliased = [
        (row["alias"], row["model"], row["loose"] == "yes")
        for row in read(DATA / "model_aliases.csv")
        if row["model"] in lines
    ]
    return ModelIndex(spellings(named + aliased), lines, text, list(sources))


def _build_gpus() -> dict[str, object]:
    rows = list(read(DATA / "gpus.csv"))
    named = [(row["name"], row["name"], False) for row in rows]
    aliases = list(read(DATA / "gpu_aliases.csv"))
    keys = spellings(named + [(row["alias"], row["gpu"], row["loose"] == "yes") for row in aliases])
    others = {fold(r["alias"]): r["alternatives"].split("; ") for r in aliases if r["alternatives"]}
    return {"keys": keys, "alternatives": others, "text": _text(rows, tuple(rows[0]))}


@cache
def _packed() -> dict[str, object] | None:
    try:
        with (DATA / PACKED_NAMES).open(encoding="utf-8") as stream:
            packed: dict[str, object] = json.load(stream)
    except FileNotFoundError:
        return None
    return packed if packed.get("format") == FORMAT and fresh(packed["sources"]) else None  # type: ignore[arg-type]


@cache
def model_index() -> ModelIndex:
    """Every model's names and rows: from the packed file, or from the readable ones where those are newer."""
    packed = _packed()
    if packed is None:
        return _build_models()
    found = packed["models"]
    return ModelIndex(**{**found, "text": found["text"].split("\n")})  # type: ignore[index, dict-item]


@cache
def gpu_tables() -> dict[str, object]:
    """`keys`, `alternatives` and the GPU table as CSV `text`."""
    packed = _packed()
    return _build_gpus() if packed is None else packed["gpus"]  # type: ignore[return-value]


def forget() -> None:
    """Drop what was loaded, so that the next reader sees changed files (the importer and tests need it)."""
    for loaded in (_packed, model_index, gpu_tables):
        loaded.cache_clear()


def pack_names() -> Path:
    """Write `names.json`."""
    index = _build_models()
    packed = {
        "format": FORMAT,
        "sources": digests(NAME_FILES),
        "gpus": _build_gpus(),
        "models": {"keys": index.keys, "lines": index.lines, "text": "\n".join(index.text), "sources": index.sources},
    }
    path = DATA / PACKED_NAMES
    path.write_text(json.dumps(packed, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    forget()
    return path


def main() -> None:
    """Build every packed file."""
    from benchmarks_db import measurements, runs

    for path in (pack_names(), measurements.pack(), runs.pack()):
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
