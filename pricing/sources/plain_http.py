"""How is a page fetched over plain HTTP (httpx) without trusting the other end? Azure, AWS's public files."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pricing.sources.base import FailureReason, SourceSettings
from pricing.sources.body_limits import limited, refuse_foreign
from pricing.sources.patience import TokenExpired, WireFault
from pricing.sources.readings import Unreadable, read_time

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)
_MOST_REDIRECTS = 3
_CLOCK_SKEW_S = 300.0


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is this machine.

    >>> is_loopback("http://127.0.0.1:8080/x"), is_loopback("https://prices.azure.com")
    (True, False)
    """
    host = (urlsplit(url).hostname or "").casefold()
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def same_host(one: str, other: str) -> bool:
    """Whether two URLs name the same scheme, host and port (default ports written out or not)."""

    def place(url: str) -> tuple[str, str, int]:
        parts = urlsplit(url)
        scheme = parts.scheme.casefold()
        return scheme, (parts.hostname or "").casefold(), parts.port or (443 if scheme == "https" else 80)

    try:
        return place(one) == place(other)
    except ValueError:
        return False


def http_client(settings: SourceSettings, url: str) -> httpx.Client:
    """A client with bounded timeouts; loopback addresses bypass proxies that the environment names."""
    import httpx

    return httpx.Client(
        timeout=httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s),
        headers={"Accept-Encoding": "gzip", "User-Agent": "gpu-cost-estimator"},
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=16),
        follow_redirects=False,
        verify=_tls(),
        trust_env=not is_loopback(url),
    )


@cache
def _tls() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than a page."""
    import httpx

    return httpx.create_ssl_context()


def get(
    client: httpx.Client,
    url: str,
    *,
    settings: SourceSettings,
    deadline: float,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
) -> bytes:
    """The whole body of a 200 reply, decoded, at most `settings.max_body_bytes`; raises WireFault for anything else.

    With `content` it is posted.
    """
    with opened(client, url, settings=settings, headers=headers, content=content) as reply:
        pieces = limited(reply.iter_raw(), reply.headers, max_bytes=settings.max_body_bytes, deadline=deadline)
        return b"".join(pieces)


def get_lines(
    client: httpx.Client,
    url: str,
    *,
    settings: SourceSettings,
    deadline: float,
    max_bytes: int,
    max_line: int = 1 << 16,
) -> Iterator[bytes]:
    """The lines of a body of any length, ends kept, never more than a piece and a line in memory; raises WireFault.

    A last line without a line end comes out as it is: the reader can tell whether it is whole.
    """
    with opened(client, url, settings=settings) as reply:
        rest = b""
        for piece in limited(reply.iter_raw(), reply.headers, max_bytes=max_bytes, deadline=deadline):
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            if len(rest) > max_line:
                raise WireFault(FailureReason.NOT_THE_API, f"a line longer than {max_line} bytes")
            for line in lines:
                yield line + b"\n"
        if rest:
            yield rest


@contextmanager
def opened(
    client: httpx.Client,
    url: str,
    *,
    settings: SourceSettings,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
) -> Iterator[httpx.Response]:
    """A 200 reply whose body is not read yet; httpx's errors (also those while reading) come out as WireFaults."""
    import httpx

    try:
        for _ in range(_MOST_REDIRECTS + 1):
            method = "GET" if content is None else "POST"
            with client.stream(method, url, headers=headers, content=content) as reply:
                if reply.is_redirect:
                    url = _redirected(str(reply.url), reply)
                    continue
                _refuse(reply, settings)
                yield reply
                return
        raise WireFault(FailureReason.NOT_THE_API, f"more than {_MOST_REDIRECTS} redirects")
    except httpx.TimeoutException as error:
        raise WireFault(FailureReason.TIMEOUT, f"no answer in time: {type(error).__name__}", tries=2) from None
    except httpx.ConnectError as error:
        raise WireFault(FailureReason.UNREACHABLE, f"cannot connect: {error}", tries=2) from None
    except httpx.RemoteProtocolError as error:
        raise WireFault(FailureReason.MALFORMED, f"reply cut off: {error}", tries=WireFault.MANY) from None
    except httpx.TransportError as error:
        detail = f"connection lost: {type(error).__name__} {error}"
        raise WireFault(FailureReason.UNREACHABLE, detail, tries=WireFault.MANY) from None
    except (httpx.InvalidURL, httpx.HTTPError) as error:
        raise WireFault(FailureReason.MALFORMED, f"{type(error).__name__} {error}") from None


def _redirected(url: str, reply: httpx.Response) -> str:
    try:
        target = str(reply.url.join(reply.headers.get("location", "")))
    except Exception:  # whatever stands there, it is not ours to follow
        target = ""
    if not same_host(url, target):
        raise WireFault(FailureReason.NOT_THE_API, f"redirected to another host: {target[:120]}")
    return target


def _refuse(reply: httpx.Response, settings: SourceSettings) -> None:
    """Raises for what is not a 200 with data; warns of a server clock that is far from ours."""
    status = reply.status_code
    warn_of_clock_skew(reply.headers.get("date"), settings.clock(), reply.url.netloc.decode())
    if status == 200:
        refuse_foreign(reply.headers.get("content-type"))
        return
    wait = retry_after_s(reply.headers.get("retry-after"), reply.headers.get("date"))
    said = f"HTTP {status} from {reply.url.host}"
    if status in (408, 429):
        raise WireFault(FailureReason.THROTTLED, said, tries=WireFault.MANY, retry_after_s=wait)
    if status == 503 and wait is not None:
        raise WireFault(FailureReason.THROTTLED, said, tries=WireFault.MANY, retry_after_s=wait)
    if status >= 500:
        raise WireFault(FailureReason.SERVER_ERROR, said, tries=WireFault.MANY, retry_after_s=wait)
    if status == 400 and any(key.startswith("$skip") for key in reply.url.params):
        raise TokenExpired(f"{said}: the next-page link is no longer good")
    if status in (401, 403):
        raise WireFault(FailureReason.PERMISSION, f"{said}: not allowed")
    raise WireFault(FailureReason.NOT_THE_API, said)


def retry_after_s(value: str | None, date: str | None = None) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or an HTTP date counted from the reply's own Date.

    >>> retry_after_s("7"), retry_after_s("Mon, 30 Nov 2026 10:00:05 GMT", "Mon, 30 Nov 2026 10:00:00 GMT")
    (7.0, 5.0)
    """
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    until, now = http_date(text), http_date(date)
    return max(0.0, (until - now).total_seconds()) if until and now else None


def http_date(text: str | None) -> datetime | None:
    """An HTTP date as an instant in UTC, None if it is none."""
    if not text:
        return None
    try:
        return read_time(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError, Unreadable):
        return None


def warn_of_clock_skew(date: str | None, now: datetime, host: str) -> None:
    """Logs, once a host, when a server's Date is over five minutes from our clock: windows would be judged wrongly."""
    theirs = http_date(date)
    if theirs is None or abs((theirs - now).total_seconds()) <= _CLOCK_SKEW_S or host in _warned:
        return
    _warned.add(host)
    _log.warning("clock of %s differs from ours by %.0f s", host, (theirs - now).total_seconds())


_warned: set[str] = set()  # hosts whose clock was complained of
