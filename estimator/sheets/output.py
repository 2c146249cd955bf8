"""How does a file appear? Whole or not at all: beside its place first, then moved there in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from benchmarks_db.errors import WorkloadError

WRITABLE = 0o222


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends well; WorkloadError where it cannot.

    A file that LibreOffice or Excel has open is left alone: they would write over it. Where `path` is a link, what it
    leads to is written, and the link stays.
    """
    path = Path(os.path.realpath(path))
    if path.is_file() and not path.stat().st_mode & WRITABLE:
        raise WorkloadError(f"{path} is write-protected", field="output", value=str(path))
    lock = lock_of(path)
    if lock is not None:
        raise WorkloadError(
            f"{path} is open in a spreadsheet program ({lock.name} is beside it); close it first",
            field="output",
            value=str(path),
        )
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".part", dir=path.parent or Path())
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _like_a_new_file(Path(temporary), path)
        Path(temporary).replace(path)
    except OSError as error:
        raise WorkloadError(
            f"{path} cannot be written: {error.strerror or error}", field="output", value=str(path)
        ) from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file, see `whole_file`."""
    with whole_file(path) as file:
        file.write(content)


def lock_of(path: Path) -> Path | None:
    """The lock file that LibreOffice (`.~lock.NAME#`) or Excel (`~$NAME`) keeps beside an open file."""
    beside = (
        path.with_name(f".~lock.{path.name}#"),
        path.with_name(f"~${path.name}"),
        path.with_name(f"~${path.name[2:]}"),
    )
    return next((lock for lock in beside if lock != path and lock.exists()), None)


def _like_a_new_file(temporary: Path, path: Path) -> None:
    """The rights of the file that is replaced, else those of any new file."""
    if path.exists():
        mode = path.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    temporary.chmod(mode)
