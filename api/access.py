"""Who may ask what? Host names, origins, API keys and rates, checked before a body is read."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from api.cell_errors import CELLS
from api.problems import Refusal, refused
from api.rates import Allowance, Rates, neighbourhood
from api.settings import Settings
from pricing.store import Store, StoreError
from pricing.store_keys import ApiKey, Scope, find_key, parts_of

log = logging.getLogger("estimator.api")

OPEN = frozenset({"/healthz", "/readyz"})
READS = ("/v1/gpus", "/v1/models", "/v1/instances", "/v1/offers", "/v1/benchmarks", "/v1/prices", "/v1/schema")
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
STORED_SECONDS = 5.0
MOST_REMEMBERED = 10_000


class KeyRing:
    """The keys of the store, each looked up again after a few seconds: a revoked key is out within that time.

    While the database does not answer, keys that it knew go on opening for `patience` seconds; others get a 503.
    """

    def __init__(self, store: Store, patience: float = 300.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._patience = patience
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, ApiKey | None]] = OrderedDict()  # when looked up, and what was found

    async def key(self, text: str, now: datetime) -> ApiKey | None:
        """The key that this text is; None for text that opens nothing. Refusal (503) where nobody can tell."""
        parts = parts_of(text)
        if parts is None:
            return None
        key_id, secret = parts
        found = await self._found(key_id)
        return found if found is not None and found.opens(secret, now) else None

    async def _found(self, key_id: str) -> ApiKey | None:
        looked, found = self._known.get(key_id, (-math.inf, None))
        age = self._clock() - looked
        if age < STORED_SECONDS:
            return found
        try:
            found = await to_thread.run_sync(find_key, self._store, key_id)
        except StoreError as error:
            if found is not None and age < self._patience:
                return found
            log.error("no key can be looked up: %s", error)
            words = "keys cannot be looked up now; try again"
            raise Refusal(503, "database", words, headers={"retry-after": "5"}) from None
        self._known[key_id] = (self._clock(), found)
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return found


class Access:
    """ASGI middleware: 421 for another host's name, 403 for another site's post, 401, 403 and 429 for keys and rates.

    A connection is local when both of its ends are addresses of this machine and no proxy has touched the request;
    then no key is needed (unless the settings say so) and nothing is counted, but the name of the host must be one
    that no other site can take (`localhost` or an address): a page elsewhere whose name is made to point here is
    refused.
    """

    def __init__(self, app: ASGIApp, settings: Settings, keys: KeyRing, rates: Rates) -> None:
        self.app = app
        self.settings = settings
        self.keys = keys
        self.rates = rates

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Let the request pass, or answer why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        told: Mapping[str, str] = {}

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in told.items():
                    found[name] = value
            await send(message)

        try:
            if "content-length" in headers and "transfer-encoding" in headers:  # a front server may read it otherwise
                told = {"connection": "close"}
                raise Refusal(400, "bad-request", "a body has a length or comes in chunks, not both")
            self._check_host(scope, headers)
            self._check_origin(scope["method"], headers)
            key, allowance = await self._admitted(scope, headers)
            scope.setdefault("state", {})["api_key"] = key
            if allowance is not None:
                told = allowance.headers
                if not allowance.served:
                    words = f"more than {allowance.quota} requests a minute; wait {told['retry-after']} seconds"
                    raise Refusal(429, "rate-limited", words)
        except Refusal as refusal:
            await refused(scope["path"], refusal)(scope, receive, counted)
            return
        await self.app(scope, receive, counted)

    def _check_host(self, scope: Connection, headers: Headers) -> None:
        named = headers.getlist("host")
        name = host_name(named[0]) if len(named) == 1 else None
        if len(named) > 1 or (named and name is None):
            raise Refusal(400, "bad-request", "the Host header is not one host name")
        allowed = self.settings.hosts
        if allowed:
            served = name in allowed or (is_local(scope) and _unmistakable(name or ""))
        else:
            served = name is None or not is_local(scope) or is_in_process(scope) or _unmistakable(name)
        if not served:
            raise Refusal(421, "wrong-host", "this server does not answer to that host name (ESTIMATOR_ALLOWED_HOSTS)")

    def _check_origin(self, method: str, headers: Headers) -> None:
        """A page of another site may not post here, unless it is one of `cors_origins`."""
        if method in ("GET", "HEAD", "OPTIONS"):
            return
        origin, allowed = headers.get("origin"), self.settings.origins
        if origin is None:
            foreign = headers.get("sec-fetch-site") == "cross-site" and not allowed
        else:
            foreign = origin not in allowed and "*" not in allowed and not _same(origin, headers.get("host", ""))
        if foreign:
            raise Refusal(403, "cross-origin", "pages of other sites may not post here (ESTIMATOR_CORS_ORIGINS)")

    async def _admitted(self, scope: Connection, headers: Headers) -> tuple[ApiKey | None, Allowance | None]:
        """The key of a request that may pass, and what is left to it."""
        limits, path = self.settings, str(scope["path"])
        text, address = key_text(headers), neighbourhood((scope.get("client") or ("unknown",))[0])
        local = is_local(scope)
        by_address = None
        free = path in OPEN or (path == "/metrics" and limits.metrics == "open")
        key = await self.keys.key(text, datetime.now(UTC)) if text and not free else None
        cells = path in CELLS  # a sheet asks hundreds at once, and most of them are answered from memory
        if key is None and not local:  # whoever guesses keys is counted by address
            policy = "cells" if cells and not text else "address"
            most = limits.cell_rate_per_minute if policy == "cells" else limits.rate_per_minute
            if most:
                by_address = await self.rates.take(policy, address, most)
                if not by_address.served:
                    return None, by_address
        if free or scope["method"] == "OPTIONS":
            return key, by_address
        if key is None:
            if text:
                raise _unknown_caller("the API key is not known, expired or revoked", path)
            if limits.require_key == "always" or (limits.require_key == "auto" and not local):
                raise _unknown_caller("an API key is needed: Authorization: Bearer KEY, or X-API-Key: KEY", path)
            return None, by_address
        needed = scope_of(path)
        if not key.allows(needed):
            raise Refusal(403, "scope", f"this key may not do that; it needs the scope {needed}")
        most = limits.cell_rate_per_minute if cells else limits.key_rate_per_minute
        return key, await self.rates.take("key-cells" if cells else "key", key.id, most) if most else None


def _unknown_caller(words: str, path: str) -> Refusal:
    """401; a browser that opens a page is asked for the key as a password."""
    challenge = "Bearer" if path.startswith("/v1/") else 'Basic realm="estimator: any name, the API key as password"'
    return Refusal(401, "key", words, headers={"www-authenticate": challenge})


def scope_of(path: str) -> Scope:
    """What a path needs: facts can be read, everything that computes is planning."""
    return Scope.READ if path.startswith(READS) or path in ("/openapi.json", "/metrics") else Scope.PLAN


def key_text(headers: Headers) -> str | None:
    """The key that a request brings, as a bearer token, in `X-API-Key`, or as the password of a browser."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return "unreadable"
    return headers.get("x-api-key")


def is_in_process(scope: Connection) -> bool:
    """Whether no network is between: the peer has a name instead of an address, as in tests."""
    client = scope.get("client")
    return client is not None and _address(client[0]) is None and bool(client[0])


def is_local(scope: Connection) -> bool:
    """Whether both ends of the connection are on this machine and no proxy has passed the request on."""
    if any(name.decode("latin-1").lower() in FORWARDED for name, _ in scope["headers"]):
        return False
    if is_in_process(scope):
        return True
    ends = [_address(end[0]) for end in (scope.get("client"), scope.get("server")) if end]
    return len(ends) == 2 and all(end is not None and end.is_loopback for end in ends)


def host_name(text: str) -> str | None:
    """The name in a Host header, in lower case and without its port; None for what is no host name.

    >>> host_name("Example.org:8000"), host_name("[::1]:80"), host_name("a@b"), host_name("a/../b")
    ('example.org', '::1', None, None)
    """
    if not text or not text.isascii() or any(c in "/\\@?#%,; \t<>\"'" for c in text):
        return None
    try:
        parts = urlsplit(f"//{text}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def _unmistakable(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost") or _address(name) is not None


def _same(origin: str, host: str) -> bool:
    return urlsplit(origin).netloc.casefold() == host.casefold() != ""


@lru_cache(4096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
