"""When is a request worth another try, how long is waited, and when is a host given up?"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception

from pricing.offers import Market
from pricing.sources.base import Failure, FailureReason, SourceSettings

T = TypeVar("T")
_FIRST_PAUSE_S = 0.5
_GIVEN_UP_AFTER = 3  # requests in a row that found no host, before the others stop trying
_GIVEN_UP_ONCE_KNOWN_AFTER = 12  # the same for a host that has answered before
_MOST_REFUSED = 32  # refusals in a row, of all threads together
_REFUSALS = frozenset({FailureReason.THROTTLED, FailureReason.SERVER_ERROR})
_HOST_REASONS = frozenset({FailureReason.UNREACHABLE, FailureReason.TIMEOUT})


class WireFault(Exception):  # noqa: N818  (reads as what happened)
    """A request that did not give a usable reply: why, and how many tries in all such a fault is worth.

    `tries` 1 = final (denied, wrong question), 2 = once more (nobody there, not the API), MANY = as often as the
    settings allow (throttled, 5xx, a cut-off page). `retry_after_s` is what the server asked for.
    """

    MANY = 1000

    def __init__(
        self, reason: FailureReason, detail: str, *, tries: int = 1, retry_after_s: float | None = None
    ) -> None:
        self.reason = reason
        self.detail = detail[:500]
        self.tries = tries
        self.retry_after_s = retry_after_s
        super().__init__(f"{reason}: {self.detail}")

    def failure(self, cloud: str, region: str | None, market: Market | None, source: str) -> Failure:
        """The same as a `Failure` of one region and market."""
        return Failure(cloud, region, market, self.reason, self.detail, source)


class HostGivenUp(WireFault):
    """Nothing was asked: the host has not answered the requests before."""

    def __init__(self, last: WireFault, missed: int) -> None:
        super().__init__(last.reason, f"{last.detail} (given up after {missed} requests)")


class TokenExpired(WireFault):
    """The server no longer knows the page token it gave: the listing has to start again."""

    def __init__(self, detail: str) -> None:
        super().__init__(FailureReason.PAGING, detail)


class HostGate:
    """What all threads of a refresh know about one host: until when to hold back, and whether it answers at all.

    A throttled reply makes every thread pause, not only the one that was refused. A host that several requests in a
    row could not reach, or that refused very many in a row, is given up: the others fail at once with the same reason
    instead of waiting in turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._missed = self._refused = 0
        self._most_missed = _GIVEN_UP_AFTER
        self._last: WireFault | None = None

    def enter(self, deadline: float) -> None:
        """Waits out a pause that the host asked for; raises HostGivenUp."""
        with self._lock:
            if self._last is not None and (self._missed >= self._most_missed or self._refused >= _MOST_REFUSED):
                raise HostGivenUp(self._last, max(self._missed, self._refused))
            pause = min(self._quiet_until, deadline) - time.monotonic()
        if pause > 0:
            time.sleep(pause)

    def succeeded(self) -> None:
        """The host gave a good reply: from now on it takes longer until it is given up."""
        with self._lock:
            self._missed = self._refused = 0
            self._most_missed = _GIVEN_UP_ONCE_KNOWN_AFTER

    def failed(self, fault: WireFault, pause_s: float) -> None:
        """Takes note of a fault and of the pause that follows it."""
        if isinstance(fault, HostGivenUp):
            return
        with self._lock:
            if fault.reason in _HOST_REASONS:
                self._missed += 1
                self._last = fault
                return
            self._missed = 0
            if fault.reason in _REFUSALS:
                self._refused += 1
                self._last = fault
            if fault.reason is FailureReason.THROTTLED:
                self._quiet_until = max(self._quiet_until, time.monotonic() + pause_s)


class Patience:
    """The tries of one scope: all its requests share one deadline of wall clock.

    Policy: at most `settings.tries` attempts, full-jitter exponential back-off, the server's Retry-After honoured up
    to `settings.backoff_cap_s`, nothing begun that the deadline leaves no time for.
    """

    def __init__(self, settings: SourceSettings, *, deadline_s: float | None = None) -> None:
        self.settings = settings
        self._began = time.monotonic()
        self._deadline_s = settings.deadline_s if deadline_s is None else deadline_s
        self.deadline = self._began + self._deadline_s

    def up_to(self, share: float) -> Patience:
        """The same, but over after this share of the time: so that one part of a scope leaves time for the others."""
        part = Patience(self.settings)
        part.deadline = self._began + share * self._deadline_s
        return part

    def check(self) -> None:
        """Raises WireFault(TIMEOUT) once the deadline has passed."""
        if time.monotonic() >= self.deadline:
            raise WireFault(FailureReason.TIMEOUT, "the deadline of this scope passed")

    def call(self, gate: HostGate, request: Callable[[], T]) -> T:
        """The result of `request`, tried again as far as its WireFault is worth it; raises the last WireFault."""

        def once() -> T:
            self.check()
            gate.enter(self.deadline)
            result = request()
            gate.succeeded()
            return result

        def pause(state: RetryCallState) -> float:
            fault, cap = _fault(state), self.settings.backoff_cap_s
            seconds = random.uniform(0.0, min(cap, _FIRST_PAUSE_S * 2.0 ** (state.attempt_number - 1)))
            if fault.retry_after_s is not None:
                seconds = min(cap, max(0.0, fault.retry_after_s)) + 0.1 * seconds
            gate.failed(fault, seconds)
            return seconds

        def stop(state: RetryCallState) -> bool:
            late = time.monotonic() + state.upcoming_sleep >= self.deadline
            return late or state.attempt_number >= min(self.settings.tries, _fault(state).tries)

        worth_it = retry_if_exception(lambda error: isinstance(error, WireFault))
        return Retrying(retry=worth_it, stop=stop, wait=pause, reraise=True)(once)


def _fault(state: RetryCallState) -> WireFault:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, WireFault)
    return error
