"""Price alerts: told once each time a live price crosses the limit, by a webhook on a loopback port."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.alerts import CROSSED, WAITING, Alert, WebhookFailed, checked_url, last_state, look, remember, send
from pricing.market import Market, Offer, PriceState
from pricing.store import Store
from pricing.store_errors import StoreUnreachable
from tests.pricing.conftest import Estimator
from tests.pricing.sets import NOW, hours, price_set
from tests.pricing.sources.loopback import Reply, Wire, elsewhere, first, refused, reset


def offer(usd: float | None, state: PriceState = PriceState.LIVE, gpus: float | None = 8.0) -> Offer:
    return Offer("aws", "us-east-1", None, None, "p5.48xlarge", Market.SPOT, "H100-SXM5-80GB", gpus, usd, "aws:test",
                 NOW, state)  # fmt: skip


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    found = Store(str(home / "prices.db"))
    yield found
    found.close()


@pytest.fixture
def hook() -> Iterator[Wire]:
    with Wire(lambda request: Reply(b"ok", 200, "text/plain")) as up:
        yield up


def test_the_cheapest_live_price_counts_and_old_or_unknown_ones_never_do() -> None:
    alert = Alert("H100:8", 20.0)
    stale, shipped = offer(5.0, PriceState.STALE), offer(5.0, PriceState.SNAPSHOT)
    seen = look(alert, [stale, shipped, offer(None), offer(25.0), offer(22.0)], None)
    assert (seen.usd, seen.state, seen.tell) == (22.0, WAITING, False)
    assert look(alert, [offer(20.0)], None).tell
    assert look(alert, [stale], CROSSED).state == CROSSED  # nothing live: nothing new is known
    assert not look(alert, [stale], WAITING).tell


def test_a_limit_may_be_for_one_gpu_or_for_a_rise() -> None:
    assert look(Alert("H100", 2.5, per_gpu=True), [offer(20.0), offer(1.0, gpus=None)], None).usd == 2.5
    dear = Alert("H100:8", 20.0, above=True)
    assert not look(dear, [offer(20.0)], None).tell
    assert look(dear, [offer(20.1)], None).tell


@given(st.lists(st.floats(0.01, 100), max_size=30), st.floats(1, 99))
def test_it_is_told_as_often_as_the_price_comes_down_to_the_limit(prices: list[float], limit: float) -> None:
    alert, state, told = Alert("x", limit), None, 0
    for usd in prices:
        seen = look(alert, [offer(usd)], state)
        state, told = seen.state, told + seen.tell
    below = [False, *(usd <= limit for usd in prices)]
    assert told == sum(now and not before for before, now in pairwise(below))


def test_one_alert_is_the_same_in_other_words_and_others_are_not() -> None:
    one = Alert("H100:8", 20.0, clouds=("aws", "gcp"), regions=("us-*", "eu-*"))
    assert one.id == Alert("H100:8", 20.0, clouds=("gcp", "aws"), regions=("eu-*", "us-*")).id
    assert len({one.id, Alert("H100:8", 20.0).id, Alert("H100:8", 20.0, above=True).id, Alert("H100", 20.0).id}) == 4


def test_what_was_told_outlives_the_process(store: Store) -> None:
    alert = Alert("H100:8", 20.0)
    assert last_state(store, alert) is None
    remember(store, alert, look(alert, [offer(19.0)], None), NOW)
    remember(store, alert, look(alert, [offer(18.0)], last_state(store, alert)), hours(1))
    again = Store(str(store.path))
    assert last_state(again, alert) == CROSSED
    with again.reading() as ask:
        assert ask("SELECT last_usd, notified_at FROM alerts") == [(18.0, NOW.timestamp())]
    again.close()


@pytest.mark.parametrize(
    ("fault", "requests", "taken"),
    [
        (first(2, refused(503)), 3, True),
        (first(2, reset), 3, True),
        (refused(500), 3, False),
        (refused(404), 1, False),
        (elsewhere, 1, False),
    ],
)
def test_a_webhook_is_tried_three_times_and_a_refusal_is_final(
    hook: Wire, fault: Any, requests: int, taken: bool
) -> None:
    hook.faults.append(fault)
    if taken:
        send(f"{hook.url}/secret", {"text": "x"}, pause_s=0.0)
    else:
        with pytest.raises(WebhookFailed) as caught:
            send(f"{hook.url}/secret", {"text": "x"}, pause_s=0.0)
        assert "secret" not in str(caught.value)
    assert len(hook.requests) == requests


@pytest.mark.parametrize("url", [
    "ftp://x/y", "hooks.example.com", "http://", "https://[::1", "file:///etc/passwd", "http://x:70000/", "http://x:0/",
    "http://x/a\n", "http://é..com/", f"http://{'a' * 70}.com/",
])  # fmt: skip
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(Exception, match="http"):
        checked_url(url, "--webhook")


def test_what_a_watch_fetches_puts_off_no_refresh(
    estimator: Estimator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.switch(price_set({"p5.48xlarge": 50.0}))
    asked: list[object] = []

    def sources(clouds: object, outcomes: object) -> list[object]:
        asked.append(clouds)
        return []

    monkeypatch.setattr("pricing.refresh._live_sources", sources)
    estimator("prices", "watch", "H100:8", "--below", "20", "--cloud", "aws")
    assert asked == [("aws",)]
    assert store.last_run() is None


def test_a_restart_repeats_nothing_and_a_price_that_comes_back_is_told_again(
    estimator: Estimator, store: Store, hook: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("prices", "watch", "H100:8", "--below", "20", "--no-fetch", "--webhook", f"{hook.url}/T/secret")
    moment = NOW
    for usd, messages in ((25.0, 0), (19.0, 1), (18.0, 1), (25.0, 1), (15.0, 2)):
        moment += timedelta(minutes=10)
        store.switch(price_set({"p5.48xlarge@us-east-1a": usd}, market=Market.SPOT, at=moment))
        monkeypatch.setenv("ESTIMATOR_NOW", moment.isoformat())
        code, out, told = estimator(*words)
        assert code == 0, told
        assert len(hook.requests) == messages
        assert "secret" not in out + told
    body = json.loads(hook.requests[-1].body)
    assert body["text"].startswith("H100:8: 15.0000 USD per hour, at or below 20 (p5.48xlarge on aws us-east-1")
    assert (body["usd"], body["offer"]["state"], body["alert"]["limit_usd"]) == (15.0, "live", 20.0)


def test_a_message_that_nobody_took_is_told_at_the_next_look(
    estimator: Estimator, store: Store, hook: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.switch(price_set({"p5.48xlarge@us-east-1a": 15.0}, market=Market.SPOT))
    monkeypatch.setenv("ESTIMATOR_WEBHOOK_URL", hook.url)
    words = ("prices", "watch", "p5.48xlarge", "--below", "20", "--no-fetch")
    hook.faults.append(first(1, refused(410)))
    code, _, told = estimator(*words)
    assert (code, "answered 410" in told) == (1, True)
    assert estimator(*words)[0] == 0
    assert estimator(*words)[0] == 0
    assert len(hook.requests) == 2


def test_it_looks_again_and_again_whatever_one_look_finds(
    estimator: Estimator, store: Store, hook: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def away(store: Store, alert: Alert) -> None:
        raise StoreUnreachable("the database does not answer", field="database")

    def pause(hours: float) -> None:
        pauses.append(hours)
        if len(pauses) == 1:
            store.switch(price_set({"p5.48xlarge@us-east-1a": 15.0}, market=Market.SPOT))
        if len(pauses) == 3:
            raise KeyboardInterrupt
        monkeypatch.setattr("pricing.alerts.last_state", [away, last_state][len(pauses) - 1])

    monkeypatch.setattr("estimator.cli.price_alerts.pause", pause)
    words = ("prices", "watch", "H100:8", "--below", "20", "--no-fetch", "--every", "30m", "--webhook", hook.url)
    _, _, told = estimator(*words)
    assert "no live price" in told
    assert "does not answer" in told
    assert (pauses, len(hook.requests)) == ([0.5, 0.5, 0.5], 1)


def test_without_a_live_price_there_is_nothing_to_compare(estimator: Estimator, home: Path) -> None:
    code, out, told = estimator("prices", "watch", "H100:8", "--below", "20", "--no-fetch")
    assert (code, out) == (4, "")
    assert "no live price of H100:8" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["H100:8"], "--below"),
        (["H100:8", "--below", "5", "--above", "9"], "either"),
        (["H100:8", "--below", "0"], "above 0"),
        (["H100:8", "--below", "nan"], "above 0"),
        (["H1000", "--below", "5", "--no-fetch"], "H100"),
        (["H100", "--below", "5", "--webhook", "hooks.slack.com/x"], "http"),
        (["H100", "--below", "5", "--every", "1s"], "minute"),
        (["H100", "--below", "5", "--every", "often"], "duration"),
        (["H100", "--below", "5", "--cloud", "azur"], "azure"),
    ],
)
def test_wrong_words_are_named_before_anything_is_fetched(
    estimator: Estimator, home: Path, words: list[str], told: str
) -> None:
    code, out, errors = estimator("prices", "watch", *words)
    assert (code, out) == (2, "")
    assert told in errors
