"""A refresh: sources side by side, partial success, what is told and what is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pricing import refresh as refreshing
from pricing.instances import InstanceType
from pricing.offers import Freshness, Market, PriceState
from pricing.refresh import Summary, load_source, refresh
from pricing.sources.base import (
    Failure,
    FailureReason,
    Fetched,
    InterruptionFact,
    PriceSet,
    Scope,
    SourceSettings,
    SourceUnavailable,
    Wanted,
    settings_from_environment,
)
from pricing.store import Store
from tests.pricing.sets import NOW, hours, price_set

BOTH = (Market.ON_DEMAND, Market.SPOT)


@dataclass
class Made:
    """A source whose answers are written down: by region, what fetch yields (or raises)."""

    NAME: str = "aws"
    answers: Mapping[str | None, object] = field(default_factory=dict)
    unavailable: str | None = None
    asked: list[str] = field(default_factory=list)

    def scopes(self, wanted: Wanted, settings: SourceSettings) -> list[Scope]:
        if self.unavailable:
            raise SourceUnavailable(self.NAME, self.unavailable)
        return [Scope(self.NAME, region, wanted) for region in self.answers if region is None or wanted.wants(region)]

    def fetch(self, scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
        self.asked.append(threading.current_thread().name)
        answer = self.answers[scope.region]
        if callable(answer):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        yield from answer  # type: ignore[misc]


def settings(at: datetime = NOW, **more: float) -> SourceSettings:
    return settings_from_environment({}, lambda: at, **more)


def both(region: str, at: datetime = NOW, cloud: str = "aws", factor: float = 1.0) -> list[Fetched]:
    prices = {f"t{n}": (10.0 + n) * factor for n in range(10)}
    spot = {f"{name}@{region}a": usd / 3 for name, usd in prices.items()}
    return [
        price_set(spot, market=Market.SPOT, region=region, at=at, cloud=cloud),
        price_set(prices, region=region, at=at, cloud=cloud),
    ]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "prices.db"))


def outcomes(summary: Summary) -> dict[tuple[str | None, str | None], str]:
    return {(o.region, o.market): o.outcome for o in summary.outcomes}


def states(store: Store, at: datetime = NOW) -> dict[tuple[str | None, str], set[PriceState]]:
    table, _ = store.current_table(now=at, freshness=Freshness())
    found: dict[tuple[str | None, str], set[PriceState]] = {}
    for offer in table.offers():
        found.setdefault((offer.region, offer.market), set()).add(offer.state)
    return found


def test_everything_that_sources_yield_is_stored_and_summed_up(store: Store) -> None:
    shape = InstanceType("aws", "t1", "T4", 1.0)
    fact = InterruptionFact("aws", "us-east-1", "t1", 0.0, 5.0, 70.0, NOW, "aws:spot-advisor")
    source = Made(answers={"us-east-1": [*both("us-east-1"), shape, fact], "eu-west-1": both("eu-west-1")})
    summary = refresh(store, settings(), sources=[source])
    assert set(outcomes(summary).values()) == {"switched"}
    assert (summary.exit_code, summary.instance_types, summary.interruptions) == (0, 1, 1)
    assert len(states(store)) == 4
    again = refresh(store, settings(), sources=[source])
    assert set(outcomes(again).values()) == {"unchanged"}
    last = store.last_run()
    assert last is not None
    assert last[1]["exit_code"] == 0


def test_regions_are_fetched_side_by_side(store: Store) -> None:
    gate = threading.Barrier(3, timeout=30)

    def meet(region: str) -> Callable[[], list[Fetched]]:
        def answer() -> list[Fetched]:
            gate.wait()
            return both(region)

        return answer

    names = ("r1", "r2", "r3")
    assert refresh(store, settings(), sources=[Made(answers={r: meet(r) for r in names})], workers=3).exit_code == 0


def test_a_failed_region_is_reported_and_keeps_its_last_good_set_while_others_go_on(store: Store) -> None:
    refresh(store, settings(), sources=[Made(answers={r: both(r) for r in ("us-east-1", "eu-west-1")})])
    failure = Failure("aws", "us-east-1", Market.SPOT, FailureReason.THROTTLED, "RequestLimitExceeded", "aws:spot")
    later = hours(0.5)
    answers = {"us-east-1": [both("us-east-1", later)[1], failure], "eu-west-1": both("eu-west-1", later)}
    summary = refresh(store, settings(later), sources=[Made(answers=answers)])
    assert outcomes(summary)["us-east-1", "spot"] == "failed"
    assert outcomes(summary)["eu-west-1", "spot"] == "unchanged"
    assert summary.exit_code == 1
    found = states(store, later)
    assert found["us-east-1", "spot"] == {PriceState.STALE}
    assert found["us-east-1", "on-demand"] == {PriceState.LIVE}
    assert found["eu-west-1", "spot"] == {PriceState.LIVE}


def test_a_source_that_raises_fails_alone(store: Store) -> None:
    sources = [
        Made("aws", {"us-east-1": ZeroDivisionError("ours")}),
        Made("gcp", {None: both("us-central1", cloud="gcp")}),
    ]
    summary = refresh(store, settings(), sources=sources)
    assert summary.exit_code == 1
    assert [(o.cloud, o.outcome) for o in summary.outcomes if o.outcome == "failed"] == [("aws", "failed")]
    assert "ZeroDivisionError" in summary.outcomes[0].detail
    assert states(store)["us-central1", "spot"] == {PriceState.LIVE}


def test_a_set_that_a_region_owed_and_never_gave_is_a_failure_not_silence(store: Store) -> None:
    source = Made(answers={"us-east-1": both("us-east-1")[1:]})
    summary = refresh(store, settings(), sources=[source])
    assert outcomes(summary)["us-east-1", "spot"] == "failed"
    assert summary.exit_code == 1
    only = refresh(store, settings(), sources=[source], wanted=Wanted(markets=frozenset({Market.ON_DEMAND})))
    assert only.exit_code == 0


def test_a_cloud_without_credentials_is_skipped_and_says_what_is_missing(store: Store) -> None:
    sources = [Made("aws", unavailable="no AWS credentials"), Made("gcp", {None: both("r", cloud="gcp")})]
    summary = refresh(store, settings(), sources=sources)
    assert [(o.outcome, o.detail) for o in summary.outcomes if o.cloud == "aws"] == [("skipped", "no AWS credentials")]
    assert summary.exit_code == 0
    assert replace(summary, asked_by_name=frozenset({"aws"})).exit_code == 1
    missing = Failure("aws", "us-east-1", Market.SPOT, FailureReason.NOT_CONFIGURED, "no AWS credentials", "aws:spot")
    half = refresh(store, settings(), sources=[Made(answers={"us-east-1": [both("us-east-1")[1], missing]})])
    assert outcomes(half)["us-east-1", "spot"] == "skipped"
    assert half.exit_code == 0


def test_a_region_that_is_off_is_a_note_unless_its_prices_were_here_before(store: Store) -> None:
    off = Failure("aws", "af-south-1", None, FailureReason.REGION_OFF, "not enabled for this account", "aws")
    source = Made(answers={"af-south-1": [off]})
    assert refresh(store, settings(), sources=[source]).exit_code == 0
    assert not store.scopes()
    refresh(store, settings(), sources=[Made(answers={"af-south-1": both("af-south-1")})])
    summary = refresh(store, settings(), sources=[source])
    assert summary.exit_code == 1
    assert states(store)["af-south-1", "spot"] == {PriceState.STALE}


def test_failing_reclaim_statistics_make_no_price_stale(store: Store) -> None:
    refresh(store, settings(), sources=[Made(answers={"us-east-1": both("us-east-1")})])
    advisor = Failure("aws", None, None, FailureReason.SERVER_ERROR, "503", "aws:spot-advisor", prices=False)
    summary = refresh(store, settings(), sources=[Made(answers={None: [advisor]})])
    assert summary.exit_code == 1
    assert states(store)["us-east-1", "spot"] == {PriceState.LIVE}


def test_spot_is_judged_against_the_on_demand_prices_of_the_same_refresh(store: Store) -> None:
    refresh(store, settings(), sources=[Made(answers={"r": both("r")})])
    cut = both("r", hours(1), factor=0.4)  # all list prices fall below the old spot prices of two zones
    spot = price_set({"t0@ra": 5.0}, market=Market.SPOT, region="r", at=hours(1))
    summary = refresh(store, settings(hours(1)), sources=[Made(answers={"r": [spot, cut[1]]})], accept_suspect=True)
    (held,) = [o.switch for o in summary.outcomes if o.market == "spot"]
    assert held is not None
    assert held.counts["spot above on-demand"] == 1


def test_a_refresh_ends_at_its_limit_and_keeps_what_was_there_by_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, begun = threading.Event(), threading.Event()
    monkeypatch.setattr(refreshing, "time", SimpleNamespace(monotonic=lambda: 1000.0 if begun.is_set() else 0.0))

    def hang() -> list[Fetched]:
        begun.set()
        release.wait(60)
        return both("us-east-1")

    source = Made(answers={"eu-west-1": both("eu-west-1"), "us-east-1": hang, "ap-south-1": both("ap-south-1")})
    summary = refresh(store, settings(), sources=[source], workers=1, limit_s=100)
    release.set()
    found = outcomes(summary)
    assert found["eu-west-1", "on-demand"] == "switched"
    assert {found[region, None] for region in ("us-east-1", "ap-south-1")} == {"failed"}
    assert len(source.asked) == 2  # what was not begun by then is not begun later
    assert store.last_run() is not None


def test_a_source_that_hangs_is_given_up_and_the_rest_is_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refreshing, "HANG_FACTOR", -8.0)
    release = threading.Event()

    def hang() -> list[Fetched]:
        release.wait(60)
        return []

    source = Made(answers={"us-east-1": hang, "eu-west-1": both("eu-west-1"), "ap-south-1": both("ap-south-1")})
    begun = time.monotonic()
    summary = refresh(store, settings(deadline_s=0.5), sources=[source], workers=1)
    release.set()
    assert time.monotonic() - begun < 30
    assert {o.outcome for o in summary.outcomes if o.region == "us-east-1"} == {"failed"}
    assert states(store).keys() >= {("eu-west-1", "spot"), ("ap-south-1", "spot")}


def test_zones_without_an_answer_make_a_partial_outcome(store: Store) -> None:
    whole = {f"t{n}@{zone}": 1.0 + n for n in range(5) for zone in ("ra", "rb")}
    first = price_set(whole, region="r", market=Market.SPOT)
    part = {name: usd for name, usd in whole.items() if name.endswith("ra")}
    second = price_set(part, region="r", market=Market.SPOT, at=hours(1), silent_zones=("rb",))
    wanted = Wanted(markets=frozenset({Market.SPOT}))
    refresh(store, settings(), sources=[Made(answers={"r": [first]})], wanted=wanted)
    summary = refresh(store, settings(hours(1)), sources=[Made(answers={"r": [second]})], wanted=wanted)
    assert outcomes(summary) == {("r", "spot"): "partial"}
    assert summary.exit_code == 1
    table, _ = store.current_table(now=hours(1), freshness=Freshness())
    assert {(o.zone, o.state) for o in table.offers()} == {("ra", PriceState.LIVE), ("rb", PriceState.STALE)}


def test_a_suspect_set_is_taken_when_a_person_says_so(store: Store) -> None:
    refresh(store, settings(), sources=[Made(answers={"r": both("r")})])
    less: list[Fetched] = [
        replace(one, observations=one.observations[:4]) for one in both("r", hours(1)) if isinstance(one, PriceSet)
    ]
    source = Made(answers={"r": less})
    assert refresh(store, settings(hours(1)), sources=[source]).exit_code == 1
    assert refresh(store, settings(hours(1)), sources=[source], accept_suspect=True).exit_code == 0
    assert len(store.current_table(now=hours(1), freshness=Freshness())[0]) == 8


def test_progress_is_told_scope_by_scope(store: Store) -> None:
    told: list[tuple[int, int]] = []
    source = Made(answers={r: both(r) for r in ("r1", "r2", "r3")})
    refresh(store, settings(), sources=[source], on_progress=lambda done, total, _: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_wanted_regions_and_markets_reach_the_source(store: Store) -> None:
    source = Made(answers={r: both(r) for r in ("us-east-1", "us-west-2", "eu-west-1")})
    summary = refresh(store, settings(), sources=[source], wanted=Wanted(regions=("us-*",)))
    assert {o.region for o in summary.outcomes} == {"us-east-1", "us-west-2"}


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name}", name="boto3")

    monkeypatch.setattr(refreshing.importlib, "import_module", absent)
    with pytest.raises(SourceUnavailable, match=r"gpu-cost-estimator\[aws\]"):
        load_source("aws")
