"""Is this package of data whole? Prices and measurements of a date in one ZIP file, each with its checksum.

`MANIFEST.json` names every other file with its size and SHA-256. `prices import` and `benchmarks add` read a package as
they read the file inside, and refuse one that is damaged, cut short or changed after it was made. Who made it is not
said by a checksum inside: compare the SHA-256 of the package itself with the one that was published beside it.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from benchmarks_db.errors import WorkloadError

FORMAT = "gpu-cost-estimator data"
VERSION = 1
MANIFEST, PRICES, MEASUREMENTS = "MANIFEST.json", "prices.json", "measurements.csv"
MEMBERS = (PRICES, MEASUREMENTS)
MOST_BYTES = 512 * 2**20  # of one file: a package that unpacks to more is not ours
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that ZIP knows: equal content gives equal bytes


def is_package(path: Path) -> bool:
    """Whether the file is a ZIP file, by its content."""
    return zipfile.is_zipfile(path)


def write_package(path: Path, members: Mapping[str, bytes], created: datetime) -> str:
    """Write a package of `members` (names of `MEMBERS`); returns the SHA-256 of the whole. Same input, same bytes."""
    files = {name: {"bytes": len(content), "sha256": _sha256(content)} for name, content in members.items()}
    manifest = {"format": FORMAT, "version": VERSION, "created": created.isoformat(), "files": files}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {MANIFEST: json.dumps(manifest, indent=2).encode(), **members}.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return _sha256(path.read_bytes())


def read_member(path: Path, name: str) -> bytes:
    """One file of a package, verified. Raises WorkloadError where the package is not whole or does not have it."""
    try:
        with zipfile.ZipFile(path) as file:
            stated = _stated(path, _content(file, MANIFEST))
            if name not in stated:
                raise _wrong(path, f"holds {', '.join(stated) or 'nothing'}, not {name}")
            content = _content(file, name)
    except KeyError:  # of the archive
        raise _wrong(path, f"is no package of data, or does not hold the {name} that it names") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise _wrong(path, f"cannot be read: {error}") from None
    if _sha256(content) != stated[name]:
        raise _wrong(path, f"is damaged or was changed: the checksum of {name} does not fit")
    return content


def _content(file: zipfile.ZipFile, name: str) -> bytes:
    """A file of the archive, never more of it than a package may hold."""
    with file.open(name) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise zipfile.BadZipFile(f"{name} is larger than {MOST_BYTES // 2**20} MiB")
    return content


def _stated(path: Path, manifest: bytes) -> dict[str, str]:
    """The checksums that the manifest states, by name."""
    try:
        read = json.loads(manifest)
        if read["format"] != FORMAT:
            raise _wrong(path, f"is no package of data (its manifest says {read['format']!r})")
        if read["version"] > VERSION:
            raise _wrong(path, f"is of version {read['version']}; this program reads up to {VERSION}")
        return {str(name): str(entry["sha256"]) for name, entry in read["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _wrong(path, "has a manifest that cannot be read") from None


def _wrong(path: Path, what: str) -> WorkloadError:
    return WorkloadError(f"the package {what}", field="file", value=str(path))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
