"""A body is read whole, within limits of size and time, or refused."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.sources.base import FailureReason
from pricing.sources.body_limits import limited, refuse_foreign
from pricing.sources.patience import WireFault


def read(pieces: list[bytes], *, most: int = 10**6, **headers: str) -> bytes:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return b"".join(limited(pieces, named, max_bytes=most, deadline=time.monotonic() + 10))


@given(st.binary(max_size=5000), st.integers(1, 700), st.booleans())
def test_a_whole_body_comes_out_as_it_went_in(body: bytes, size: int, two_members: bool) -> None:
    pieces = [body[n : n + size] for n in range(0, len(body), size)]
    assert read(pieces, content_length=str(len(body))) == body
    packed = gzip.compress(body[:100]) + gzip.compress(body[100:]) if two_members else gzip.compress(body)
    pieces = [packed[n : n + size] for n in range(0, len(packed), size)]
    assert read(pieces, content_encoding="gzip", content_length=str(len(packed))) == body


@given(st.binary(min_size=1, max_size=2000), st.data())
def test_a_compressed_body_cut_anywhere_is_refused(body: bytes, data: st.DataObject) -> None:
    packed = gzip.compress(body)
    cut = data.draw(st.integers(1, len(packed) - 1))
    with pytest.raises(WireFault, match=r"cut off|broken"):
        read([packed[:cut]], content_encoding="gzip")


def test_a_body_shorter_than_announced_is_refused() -> None:
    with pytest.raises(WireFault, match="cut off: 3 of 5 bytes") as fault:
        read([b"abc"], content_length="5")
    assert fault.value.tries > 2


def test_a_bomb_is_stopped_at_the_limit_in_bounded_memory() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b" " * 2**20) for _ in range(200)) + packer.flush()
    tracemalloc.start()
    with pytest.raises(WireFault, match="longer than"):
        read([packed], most=3 * 2**20, content_encoding="gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * 2**20


def test_a_body_that_drips_is_stopped_at_the_deadline() -> None:
    def drip() -> object:
        while True:
            time.sleep(0.01)
            yield b"x"

    began = time.monotonic()
    with pytest.raises(WireFault) as fault:
        list(limited(drip(), {}, max_bytes=10**6, deadline=began + 0.1))  # type: ignore[arg-type]
    assert fault.value.reason is FailureReason.TIMEOUT
    assert time.monotonic() - began < 1.0


def test_a_coding_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(WireFault, match="br, not asked for"):
        read([b"x"], content_encoding="br")


def test_a_web_page_is_not_data() -> None:
    refuse_foreign("application/json; charset=utf-8")
    refuse_foreign(None)
    for kind in ("text/html", "TEXT/HTML; charset=utf-8", "application/xhtml+xml"):
        with pytest.raises(WireFault, match="web page"):
            refuse_foreign(kind)
