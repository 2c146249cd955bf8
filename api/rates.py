"""How often may somebody ask? A bucket of requests for each key and address, refilled evenly.

Kept in Redis where the settings name one, so that all replicas count together; else, and while it does not answer, in
the memory of each process.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

from api.shared import Shared

MOST_BUCKETS = 50_000
WINDOW = 60.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left to one client."""

    policy: str
    quota: int
    left: int
    seconds: float  # until the bucket is full again; when nothing is left: until the next request is served
    served: bool

    @property
    def headers(self) -> dict[str, str]:
        """`RateLimit` and `RateLimit-Policy` as the IETF draft has them, and `Retry-After` for who has to wait."""
        wait = math.ceil(self.seconds)
        told = {
            "ratelimit-policy": f'"{self.policy}";q={self.quota};w={WINDOW:.0f}',
            "ratelimit": f'"{self.policy}";r={self.left};t={wait}',
        }
        return told if self.served else told | {"retry-after": str(max(1, wait))}


class Rates:
    """Token buckets by name. A bucket that is full again is the same as none, so the oldest may be forgotten.

    Without Redis each process counts for itself: N processes serve up to N times the limit.
    """

    def __init__(self, shared: Shared | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = shared or Shared()
        self._clock = clock
        self._lock = Lock()
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()  # left, when

    async def take(self, policy: str, name: str, per_minute: int) -> Allowance:
        """Count one request of `name`; `served` is False where the bucket is empty."""
        found = await self._shared.tokens_left(f"{policy}:{name}", per_minute, per_minute / WINDOW)
        served, left = found if found is not None else self._taken(policy, name, per_minute)
        rate = per_minute / WINDOW
        wait = (per_minute - left) / rate if served else (1 - left) / rate
        return Allowance(policy, per_minute, int(left), wait, served)

    def _taken(self, policy: str, name: str, per_minute: int) -> tuple[bool, float]:
        """The same in this process alone."""
        now, rate = self._clock(), per_minute / WINDOW
        with self._lock:
            left, seen = self._buckets.pop((policy, name), (float(per_minute), now))
            left = min(float(per_minute), left + (now - seen) * rate)
            served = left >= 1
            left -= served
            self._buckets[policy, name] = (left, now)
            while len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        return served, left


@lru_cache(4096)
def neighbourhood(address: str) -> str:
    """An address as it is counted: one of IPv6 with its /64, which one household has as a whole.

    >>> neighbourhood("2001:db8::1"), neighbourhood("192.0.2.7"), neighbourhood("::ffff:192.0.2.7")
    ('2001:db8::/64', '192.0.2.7', '192.0.2.7')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
