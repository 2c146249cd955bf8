"""Plain HTTP: hosts, dates, lines."""

from __future__ import annotations

import time

import pytest

from pricing.sources.patience import WireFault
from pricing.sources.plain_http import get, get_lines, http_client, http_date, is_loopback, retry_after_s, same_host
from tests.pricing.sources.clouds import Clouds
from tests.pricing.sources.loopback import Reply, Request, Wire, instead


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://prices.azure.com/a", "https://prices.azure.com:443/b?$skip=1", True),
        ("https://prices.azure.com/a", "https://PRICES.azure.com/b", True),
        ("https://prices.azure.com/a", "http://prices.azure.com/b", False),
        ("https://prices.azure.com/a", "https://prices.azure.com.evil.example/b", False),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", False),
        ("http://127.0.0.1:1", "http://127.0.0.1:99999999", False),
        ("http://127.0.0.1:1", "//elsewhere", False),
    ],
)
def test_a_link_stays_on_the_host_or_does_not(one: str, other: str, same: bool) -> None:
    assert same_host(one, other) is same


def test_loopback_is_told_from_the_world() -> None:
    assert all(map(is_loopback, ("http://127.0.0.1:1", "http://localhost", "http://[::1]:8/x", "http://127.1.2.3")))
    assert not any(
        map(is_loopback, ("http://10.0.0.1", "https://127.example.org", "", "http://localhost.evil.example"))
    )


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("Tue, 15 Sep 2026 12:00:07 GMT", 7.0), ("soon", None), ("-1", None), (None, None)],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, "Tue, 15 Sep 2026 12:00:00 GMT") == seconds


def test_a_date_that_is_none_is_none() -> None:
    for text in (None, "", "yesterday", "Tue, 99 Sep 2026 12:00:07 GMT"):
        assert http_date(text) is None


def test_a_redirect_on_the_same_host_is_followed_and_a_ring_of_them_is_not(clouds: Clouds) -> None:
    def answer(request: Request) -> Reply:
        if request.path == "/old":
            return Reply(b"", 302, "text/plain", {"Location": "/new"})
        if request.path == "/ring":
            return Reply(b"", 302, "text/plain", {"Location": "/ring"})
        return Reply(b"here", 200, "text/plain")

    settings = clouds.settings()
    with Wire(answer) as wire, http_client(settings, wire.url) as client:
        deadline = time.monotonic() + 5
        assert get(client, f"{wire.url}/old", settings=settings, deadline=deadline) == b"here"
        with pytest.raises(WireFault, match="redirects"):
            get(client, f"{wire.url}/ring", settings=settings, deadline=deadline)


def test_lines_come_out_whole_whatever_the_pieces(clouds: Clouds) -> None:
    body = b"".join(b"line %d\n" % n for n in range(50_000)) + b"no end"
    settings = clouds.settings()
    with Wire(lambda request: Reply(body, 200, "text/csv")) as wire, http_client(settings, wire.url) as client:
        lines = list(get_lines(client, wire.url, settings=settings, deadline=time.monotonic() + 5, max_bytes=10**7))
        assert b"".join(lines) == body
        assert lines[-1] == b"no end"
        wire.faults.append(instead(Reply(b"x" * 10**6, 200, "text/csv")))
        with pytest.raises(WireFault, match="line longer"):
            list(get_lines(client, wire.url, settings=settings, deadline=time.monotonic() + 5, max_bytes=10**7))
