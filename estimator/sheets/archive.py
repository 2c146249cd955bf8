"""Is this file a workbook that can be opened without harm? Limits on size, entries, ratio; no macros, no links out."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO
from xml.parsers import expat

from benchmarks_db.errors import WorkloadError

Attributes = dict[str, str]
CHUNK = 1 << 18
ENCRYPTED_OFFICE = b"\xd0\xcf\x11\xe0"  # an OLE container: a password, or the format of 1997


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is read of a workbook that somebody sends."""

    file_bytes: int = 64 * 2**20
    unpacked_bytes: int = 2**30
    entries: int = 5_000
    ratio: float = 250.0  # unpacked bytes by packed bytes; a bomb has 1,000
    cells: int = 5_000_000
    depth: int = 64  # of XML elements
    small_part: int = 32 * 2**20  # parts that are read whole: styles, the list of sheets


def refuse(message: str) -> WorkloadError:
    """A workbook that cannot be used, in words."""
    return WorkloadError(message, field="sheet")


class Archive:
    """A zip file whose entries have been looked over; reads parts whole or in pieces."""

    def __init__(self, file: IO[bytes], limits: Limits) -> None:
        self.limits = limits
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if size > limits.file_bytes:
            raise refuse(f"the file has {size:,} bytes; {limits.file_bytes:,} are read")
        start = file.read(4)
        file.seek(0)
        if start == ENCRYPTED_OFFICE:
            raise refuse("the file is protected by a password, or an old .xls; save it as .xlsx without a password")
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
            raise refuse("the file is no whole workbook: half written, cut off, or of another kind") from None
        self._look_over()

    def _look_over(self) -> None:
        listed = self.zip.infolist()
        limits = self.limits
        if len(listed) > limits.entries:
            raise refuse(f"the file holds {len(listed):,} parts; {limits.entries:,} are read")
        if len({entry.filename for entry in listed}) != len(listed):
            raise refuse("the file holds two parts of one name")
        if sum(entry.file_size for entry in listed) > limits.unpacked_bytes:
            raise refuse(f"the file unpacks to more than {limits.unpacked_bytes:,} bytes")
        for entry in listed:
            if entry.flag_bits & 1:
                raise refuse("the file is protected by a password")
            if entry.file_size > 2**20 and entry.file_size > limits.ratio * max(1, entry.compress_size):
                raise refuse(
                    f"{entry.filename} unpacks to {entry.file_size / max(1, entry.compress_size):.0f} times its size"
                )
            if entry.filename.startswith("/") or ".." in PurePosixPath(entry.filename).parts:
                raise refuse(f"the part name {entry.filename!r} leads out of the file")

    @property
    def names(self) -> list[str]:
        """Every part, in order."""
        return self.zip.namelist()

    def read(self, name: str) -> bytes:
        """A small part, whole."""
        if name not in self.names:
            raise refuse(f"the file lacks {name}")
        if self.zip.getinfo(name).file_size > self.limits.small_part:
            raise refuse(f"{name} is too large")
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """A part, piece by piece."""
        if name not in self.names:
            raise refuse(f"the file lacks {name}")
        try:
            with self.zip.open(name) as part:
                while piece := part.read(CHUNK):
                    yield piece
        except Exception as error:  # zipfile lets out whatever a damaged entry provokes in it
            raise refuse(f"{name} is damaged: {error}") from None

    def text(self, name: str) -> str:
        """A small part, whole, as text."""
        try:
            return self.read(name).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise refuse(f"{name} is not UTF-8") from None

    def elements(self, name: str) -> list[tuple[str, Attributes]]:
        """The elements of a small XML part in order: local name and attributes by local name."""
        found: list[tuple[str, Attributes]] = []

        def start(tag: str, attributes: Attributes) -> None:
            found.append((local(tag), {local(key): value for key, value in attributes.items()}))

        check = Checked(name, self.limits.depth, start)
        check.feed(self.read(name))
        check.close()
        return found


class Checked:
    """A guard that XML passes through: well formed, UTF-8, no DTD (so no entities), not nested without end."""

    def __init__(self, name: str, depth: int, start: Callable[[str, Attributes], None] | None = None) -> None:
        self._name = name
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.XmlDeclHandler = self._declared
        self._depth = 0
        self._most = depth
        self._start = start
        if start is not None:
            self._parser.StartElementHandler = self._down
            self._parser.EndElementHandler = self._up

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        try:
            self._parser.Parse(piece, False)
        except expat.ExpatError as error:
            raise refuse(f"{self._name} is no XML: {error}") from None

    def close(self) -> None:
        """There are no more bytes."""
        try:
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise refuse(f"{self._name} is no XML: {error}") from None

    def _doctype(self, *_: object) -> None:
        raise refuse(f"{self._name} has a document type, in which entities could hide")

    def _declared(self, _: str, encoding: str | None, __: int) -> None:
        if encoding is not None and encoding.casefold() not in ("utf-8", "utf8", "us-ascii"):
            raise refuse(f"{self._name} is in {encoding}; UTF-8 is read")

    def _down(self, tag: str, attributes: Attributes) -> None:
        self._depth += 1
        if self._depth > self._most:
            raise refuse(f"{self._name} is nested more than {self._most} deep")
        assert self._start is not None
        self._start(tag, attributes)

    def _up(self, _: str) -> None:
        self._depth -= 1


def local(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]


def checked_text(archive: Archive, name: str) -> Iterator[str]:
    """A large XML part as text, piece by piece, passed through the guard."""
    import codecs

    check = Checked(name, archive.limits.depth)
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        for piece in archive.pieces(name):
            check.feed(piece)
            yield decoder.decode(piece)
        check.close()
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise refuse(f"{name} is not UTF-8") from None


ATTRIBUTES = r"""(?:[^<>"']|"[^"<]*"|'[^'<]*')*?"""
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def attributes_of(text: str) -> Attributes:
    """The attributes of a start tag by local name, as written (entities are kept)."""
    return {local(m[1]): m[2] if m[2] is not None else m[3] for m in _ATTRIBUTE.finditer(text)}
