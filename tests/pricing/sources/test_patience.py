"""A request is tried again as often as its fault is worth, within a deadline; a dead host is given up by all."""

from __future__ import annotations

import time

import pytest

from pricing.sources.base import FailureReason, SourceSettings
from pricing.sources.patience import HostGate, HostGivenUp, Patience, WireFault
from tests.pricing.sources.world import AS_OF

R = FailureReason


def settings(**changes: float) -> SourceSettings:
    return SourceSettings(clock=lambda: AS_OF, **{"backoff_cap_s": 0.005, **changes})  # type: ignore[arg-type]


class Server:
    """Fails a number of times, then answers 7."""

    def __init__(self, fault: WireFault, times: int) -> None:
        self.fault, self.times, self.asked = fault, times, 0

    def __call__(self) -> int:
        self.asked += 1
        if self.asked <= self.times:
            raise self.fault
        return 7


@pytest.mark.parametrize(("tries", "asked"), [(1, 1), (2, 2), (WireFault.MANY, 4)])
def test_a_fault_is_tried_as_often_as_it_is_worth(tries: int, asked: int) -> None:
    server = Server(WireFault(R.MALFORMED, "x", tries=tries), 100)
    with pytest.raises(WireFault, match="x"):
        Patience(settings()).call(HostGate(), server)
    assert server.asked == asked


def test_a_good_answer_after_faults_is_the_answer() -> None:
    server = Server(WireFault(R.SERVER_ERROR, "x", tries=WireFault.MANY), 3)
    assert Patience(settings()).call(HostGate(), server) == 7


def test_nothing_is_begun_that_the_deadline_leaves_no_time_for() -> None:
    server = Server(WireFault(R.THROTTLED, "busy", tries=WireFault.MANY, retry_after_s=60.0), 100)
    began = time.monotonic()
    with pytest.raises(WireFault, match="busy"):
        Patience(settings(backoff_cap_s=60.0, deadline_s=0.5)).call(HostGate(), server)
    assert time.monotonic() - began < 0.5
    assert server.asked == 1


def test_after_the_deadline_nothing_is_asked() -> None:
    server = Server(WireFault(R.SERVER_ERROR, "x"), 0)
    with pytest.raises(WireFault, match="deadline"):
        Patience(settings(deadline_s=0.0)).call(HostGate(), server)
    assert server.asked == 0


def test_a_host_that_three_requests_could_not_reach_is_given_up_for_all() -> None:
    gate, server = HostGate(), Server(WireFault(R.UNREACHABLE, "refused"), 100)
    patience = Patience(settings())
    for _ in range(3):
        with pytest.raises(WireFault):
            patience.call(gate, server)
    with pytest.raises(HostGivenUp, match=r"refused \(given up after 3 requests\)") as given_up:
        patience.call(gate, server)
    assert server.asked == 3
    assert given_up.value.reason is R.UNREACHABLE


def test_a_host_that_answers_in_between_is_not_given_up() -> None:
    gate, patience = HostGate(), Patience(settings())
    down, up = Server(WireFault(R.TIMEOUT, "slow"), 100), Server(WireFault(R.TIMEOUT, "slow"), 0)
    for _ in range(10):
        for _ in range(2):
            with pytest.raises(WireFault):
                patience.call(gate, down)
        assert patience.call(gate, up) == 7
    assert down.asked == 20


def test_a_throttled_host_makes_every_thread_pause() -> None:
    gate = HostGate()
    gate.failed(WireFault(R.THROTTLED, "busy"), 0.2)
    began = time.monotonic()
    assert Patience(settings()).call(gate, lambda: 7) == 7
    assert time.monotonic() - began >= 0.19


def test_our_own_mistake_is_not_tried_again() -> None:
    asked = []

    def wrong() -> int:
        asked.append(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        Patience(settings()).call(HostGate(), wrong)
    assert asked == [1]
