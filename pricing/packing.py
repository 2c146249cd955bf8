"""How is a table written so that it opens in a millisecond? One line of JSON, then the arrays' bytes.

The line ends with a checksum of everything, so that a reader can tell bytes that a disk has changed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUM = b',"crc":'


def pack(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The head (JSON types) and one-dimensional arrays as bytes; the line of JSON also tells where each array lies."""
    parts = []
    places = {}
    at = 0
    for name, array in arrays.items():
        gap = -at % 8
        content = array.tobytes()
        parts += [b"\0" * gap, content]
        places[name] = [array.dtype.str, at + gap, len(array)]
        at += gap + len(content)
    line = json.dumps({"head": head, "arrays": places}, separators=(",", ":")).encode()
    content = b"".join(parts)
    return line[:-1] + SUM + b"%d}\n" % _sum(line, content) + content


def _sum(line: bytes, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(line))


def verify(content: bytes) -> None:
    """ValueError where the bytes are not those that `pack` wrote; those without a checksum pass."""
    end = content.index(b"\n")
    line, marked, stated = content[:end].rpartition(SUM)
    if marked and stated != b"%d}" % _sum(line + b"}", content[end + 1 :]):
        raise ValueError("the checksum does not fit")


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The head and the (read-only) arrays. Raises ValueError for what `pack` did not write.

    >>> head, arrays = unpack(pack({"a": 1}, {"x": np.arange(3.0)}))
    >>> head, arrays["x"].tolist()
    ({'a': 1}, [0.0, 1.0, 2.0])
    """
    end = content.index(b"\n")
    whole = json.loads(content[:end])
    arrays = {
        name: np.frombuffer(content, dtype=kind, count=count, offset=end + 1 + start)
        for name, (kind, start, count) in whole["arrays"].items()
    }
    return whole["head"], arrays
