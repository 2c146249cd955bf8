"""What survives a kill? A folder beside the result: one Parquet file for each finished run of cells, and a manifest.

`OUT.parquet.parts/manifest.json` says what the parts belong to; a part appears whole or not at all. When all are there
they are joined in order, the whole file takes its place in one step, and the folder goes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks_db.errors import WorkloadError
from estimator.sweep.table import COMPRESSION, arrow

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
LOCK = "lock"
GROUP_ROWS = 65_536  # of a row group of the whole file: parts are often much smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the parts of a sweep belong to. Two sweeps with the same give the same table to the last bit."""

    spec: str  # fingerprint of request and grid
    program: str  # fingerprint of code, facts and fit, see `identity.program`
    prices: str  # fingerprint of the offers, by date
    measured: str  # fingerprint of the user's own measurements
    now: str  # moment that ages are counted to
    cells: int
    cells_in_part: int

    def differences(self, other: Manifest) -> list[str]:
        """What is not the same in another, in words."""
        words = {
            "spec": "the request or its grid",
            "program": "the estimator or its facts",
            "prices": "the prices",
            "measured": "your measurements",
        }
        return [words[key] for key in words if getattr(self, key) != getattr(other, key)]


class Parts:
    """The finished parts of one sweep."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.parts")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Alone with the folder; WorkloadError where another sweep writes the same file, or nothing can be written."""
        from filelock import FileLock, Timeout

        try:
            self.folder.mkdir(exist_ok=True)
            lock = FileLock(self.folder / LOCK)
            lock.acquire(timeout=0)
        except Timeout:
            raise WorkloadError(
                f"another sweep is writing {self.output}", field="--output", value=str(self.output)
            ) from None
        except OSError as error:
            raise _unwritable(self.output, error) from None
        try:
            yield
        finally:
            lock.release()
            if not any(self.folder.glob("part-*")):  # refused before anything was done, or joined
                self.clear()

    def manifest(self) -> Manifest | None:
        """What the parts that are there belong to; None where there are none, or none that can be used."""
        try:
            return Manifest(**json.loads((self.folder / MANIFEST).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def begin(self, manifest: Manifest) -> None:
        """Throw away what is there and note what the new parts belong to."""
        for path in self.folder.iterdir():
            if path.name != LOCK:
                path.unlink()
        self._write(MANIFEST, json.dumps(asdict(manifest), indent=2).encode())

    def path(self, part: int) -> Path:
        """Where a part lies."""
        return self.folder / f"part-{part:09d}.parquet"

    def finished(self, count: int) -> set[int]:
        """The parts that are there and readable, of `count`."""
        known = set()
        for path in self.folder.glob("part-*.parquet"):
            number = path.stem.removeprefix("part-")
            if number.isdigit() and int(number) < count and _readable(path):
                known.add(int(number))
        return known

    def keep(self, part: int, content: bytes) -> None:
        """Store a finished part."""
        self._write(self.path(part).name, content)

    def join(self, count: int, schema: pa.Schema) -> dict[str, int]:
        """All parts in order as one file in the place of the output, then no parts; rows by status."""
        whole = self.folder / "whole.parquet"
        tally: dict[str, int] = {}
        try:
            with arrow().parquet.ParquetWriter(whole, schema, compression=COMPRESSION) as writer:
                for table in self._grouped(count):
                    writer.write_table(table, row_group_size=GROUP_ROWS)
                    for row in table["status"].value_counts().to_pylist():
                        tally[row["values"]] = tally.get(row["values"], 0) + row["counts"]
            with whole.open("rb+") as file:
                os.fsync(file.fileno())
            whole.replace(self.output)
        except OSError as error:
            raise _unwritable(self.output, error) from None
        return tally

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _grouped(self, count: int) -> Iterator[pa.Table]:
        library = arrow()
        waiting: list[pa.Table] = []
        for part in range(count):
            waiting.append(library.parquet.read_table(self.path(part)))
            if sum(len(table) for table in waiting) >= GROUP_ROWS:
                yield library.concat_tables(waiting)
                waiting = []
        if waiting:
            yield library.concat_tables(waiting)

    def _write(self, name: str, content: bytes) -> None:
        try:
            handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                Path(temporary).replace(self.folder / name)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _unwritable(self.output, error) from None


def _readable(path: Path) -> bool:
    """A part that a crash of the machine cut short is worked out again."""
    pa = arrow()
    try:
        pa.parquet.read_metadata(path)
    except (OSError, pa.ArrowException):
        return False
    return True


def _unwritable(path: Path, error: OSError) -> WorkloadError:
    return WorkloadError(f"{path} cannot be written: {error.strerror or error}", field="--output", value=str(path))
