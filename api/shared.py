"""What do replicas share beside the database? Counts of requests and answers of cells, in Redis where there is one.

Redis is never needed: while it does not answer, each process counts and remembers for itself, and says so once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from api import metrics
from benchmarks_db.errors import WorkloadError

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = logging.getLogger("estimator.redis")
TIMEOUT = 0.25  # seconds: an answer without Redis takes less than waiting for it
AGAIN = 5.0  # seconds after which a Redis that did not answer is tried again
PREFIX = "estimator:"
Found = TypeVar("Found")

BUCKET = """
local quota, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local kept = redis.call('HMGET', KEYS[1], 'left', 'seen')
local left = math.min(quota, (tonumber(kept[1]) or quota) + math.max(0, now - (tonumber(kept[2]) or now)) * rate)
local served = left >= 1
if served then left = left - 1 end
redis.call('HSET', KEYS[1], 'left', tostring(left), 'seen', tostring(now))
redis.call('PEXPIRE', KEYS[1], math.ceil(1000 * quota / rate))
return {served and 1 or 0, tostring(left)}
"""
"""A token bucket by the clock of Redis alone, so that replicas whose clocks differ count alike."""


class Shared:
    """One Redis, or none; no call fails, what cannot be had is None."""

    def __init__(self, redis: Redis | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._clock = clock
        self._retry_at = 0.0
        self._silent = False
        self._bucket = redis.register_script(BUCKET) if redis is not None else None

    @property
    def there(self) -> bool:
        """Whether the settings name a Redis."""
        return self._redis is not None

    async def tokens_left(self, name: str, quota: int, per_second: float) -> tuple[bool, float] | None:
        """Take a token from a bucket: whether there was one, and how many are left; None without Redis."""
        script = self._bucket
        if script is None:
            return None
        found = await self._asked(lambda: script(keys=[f"{PREFIX}rate:{name}"], args=[quota, per_second]))
        return None if found is None else (bool(found[0]), float(found[1]))

    async def get(self, key: str) -> bytes | None:
        """What another process has put there."""
        redis = self._redis
        if redis is None:
            return None
        found: bytes | None = await self._asked(lambda: redis.get(f"{PREFIX}answer:{key}"))
        if not self._silent:
            metrics.looked_up("shared", found is not None)
        return found

    async def put(self, key: str, value: bytes, seconds: float) -> None:
        """Leave something for other processes, for a while."""
        redis = self._redis
        if redis is not None:
            await self._asked(lambda: redis.set(f"{PREFIX}answer:{key}", value, px=int(seconds * 1000)))

    async def close(self) -> None:
        """Let go of the connections."""
        if self._redis is not None:
            await self._redis.aclose()

    async def _asked(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        from redis.exceptions import RedisError

        if self._clock() < self._retry_at:
            return None
        try:
            found = await ask()
        except (RedisError, OSError, TimeoutError) as error:
            self._retry_at = self._clock() + AGAIN
            metrics.DEPENDENCY.labels("redis").set(0)
            if not self._silent:
                self._silent = True
                log.error("Redis does not answer (%s): rates and answers are kept by each process alone", error)
            return None
        if self._silent:
            self._silent = False
            log.warning("Redis answers again: rates and answers are shared")
        metrics.DEPENDENCY.labels("redis").set(1)
        return found


def shared_of(url: str | None) -> Shared:
    """The Redis that the settings name, or none; WorkloadError for an address or an extra that is missing."""
    if not url:
        return Shared()
    try:
        from redis.asyncio import Redis
    except ImportError:
        raise WorkloadError(
            "Redis needs its extra: pip install 'gpu-cost-estimator[redis]'", field="ESTIMATOR_REDIS_URL"
        ) from None
    try:
        redis = Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
    except ValueError as error:
        near = ("redis://HOST:6379/0",)
        raise WorkloadError(f"not the address of a Redis: {error}", field="ESTIMATOR_REDIS_URL", nearest=near) from None
    return Shared(redis)
