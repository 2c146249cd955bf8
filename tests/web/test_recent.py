"""A plan that was just made is not made again; one that is old is."""

from __future__ import annotations

import pytest

from api.web import recent
from estimator.request.workload import Workload
from pricing.offers import current_offers
from tests.web.conftest import NOW


@pytest.mark.parametrize(("seconds", "made"), [(60.0, 1), (0.0, 2)])
def test_the_same_request_is_planned_once_within_the_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, made: int
) -> None:
    plans: list[Workload] = []
    real = recent.plan
    monkeypatch.setattr(recent, "plan", lambda workload, **rest: (plans.append(workload), real(workload, **rest))[1])
    offers = current_offers(now=NOW, offline=True)
    kept = recent.Recent(seconds, most=1)
    asked = Workload(model="llama3-8b", method="lora", tokens="50M")
    assert kept.plan(asked, offers, NOW) == kept.plan(asked, offers, NOW)
    assert len(plans) == made
    kept.plan(asked.model_copy(update={"epochs": 2.0}), offers, NOW)
    kept.plan(asked, offers, NOW)
    assert len(plans) == made + 2
