"""How much is read of a reply, for how long, and is it whole? One reader for every HTTP library in use here."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping

from pricing.sources.base import FailureReason
from pricing.sources.patience import WireFault

_PIECE = 1 << 20


def refuse_foreign(content_type: str | None) -> None:
    """Raises WireFault(NOT_THE_API) for a web page where data should be: a captive portal, a firewall's notice."""
    kind = (content_type or "").partition(";")[0].strip().casefold()
    if "html" in kind:
        raise WireFault(FailureReason.NOT_THE_API, f"the reply is a web page ({kind}), not the API's", tries=2)


def limited(pieces: Iterable[bytes], headers: Mapping[str, str], *, max_bytes: int, deadline: float) -> Iterator[bytes]:
    """The decoded pieces of a body read raw from the wire (bytes in, bytes out; a piece is at most 1 MiB).

    `max_bytes` bounds what is decoded (a small compressed body can unfold to gigabytes), `deadline` (monotonic
    seconds) the whole reading (a byte now and then never trips a read timeout). Raises WireFault for a body that is
    too long, too late, compressed in a way not asked for, or shorter than it said.
    """
    length = headers.get("content-length", "")
    coding = headers.get("content-encoding", "identity").strip().casefold()
    if coding not in ("identity", "", "gzip"):
        raise WireFault(FailureReason.NOT_THE_API, f"reply compressed as {coding[:40]}, not asked for")
    unpack = _Gunzip() if coding == "gzip" else None
    raw = total = 0
    for piece in pieces:
        if time.monotonic() >= deadline:
            raise WireFault(FailureReason.TIMEOUT, f"still not whole at the deadline, after {raw} bytes")
        raw += len(piece)
        for part in unpack.parts(piece) if unpack else (piece,):
            total += len(part)
            if total > max_bytes:
                raise WireFault(FailureReason.MALFORMED, f"reply longer than {max_bytes} bytes")
            yield part
    if length.isdigit() and raw != int(length):
        raise WireFault(FailureReason.MALFORMED, f"reply cut off: {raw} of {length} bytes", tries=WireFault.MANY)
    if unpack is not None and raw and not unpack.whole:
        raise WireFault(FailureReason.MALFORMED, "reply cut off: compressed data end early", tries=WireFault.MANY)


class _Gunzip:
    """Decompression in parts of bounded size; a body may be several gzip members one after the other."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)

    @property
    def whole(self) -> bool:
        """Whether the data so far end where a member ends."""
        return self._member.eof

    def parts(self, piece: bytes) -> Iterator[bytes]:
        """The decoded bytes of one piece, at most 1 MiB at a time; raises WireFault for broken data."""
        try:
            while piece:
                if self._member.eof:
                    self._member = zlib.decompressobj(31)
                yield self._member.decompress(piece, _PIECE)
                piece = self._member.unconsumed_tail or self._member.unused_data
        except zlib.error as error:
            detail = f"compressed data broken: {error}"
            raise WireFault(FailureReason.MALFORMED, detail, tries=WireFault.MANY) from None
