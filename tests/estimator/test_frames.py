"""A plan in a notebook: a table on the page, a data frame of pandas or polars with the figures of the document."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from estimator import Workload, estimate, plan
from estimator.documents import PlanDocument

NOW = datetime(2026, 9, 1, tzinfo=UTC)
LORA = Workload.model_validate({"model": "llama3-8b", "method": "lora", "tokens": "50M", "options": {"top": 4}})


@pytest.fixture(scope="module")
def document() -> PlanDocument:
    return plan(LORA, now=NOW)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_a_row_for_each_plan(document: PlanDocument, library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed (extra frames)")
    frame = getattr(document, f"to_{library}")()
    assert list(frame["instance_type"]) == [entry.instance_type for entry in document.plans]
    assert list(frame["cost_usd_p50"]) == [entry.cost_usd.p50 for entry in document.plans if entry.cost_usd]
    assert list(frame["market"]) == [entry.market.value for entry in document.plans]
    assert frame["price_observed_at"][0] == document.plans[0].price.observed_at


def test_a_notebook_shows_a_table(document: PlanDocument) -> None:
    page = document._repr_html_()
    assert page.count("<tr>") == 1 + len(document.plans)
    assert document.plans[0].instance_type in page


def test_a_notebook_shows_no_markup_of_a_name() -> None:
    own = {"name": "<script>alert(1)</script>", "gpu": "RTX-4090", "usd_per_hour": 1}
    request = {"model": "resnet50", "images": 1000, "own": [own], "constraints": {"markets": ["own"]}}
    page = plan(Workload.model_validate(request), now=NOW)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_what_stands_in_the_way_is_shown() -> None:
    late = Workload.from_flat({"model": "llama3-8b", "method": "lora", "tokens": "50M", "deadline": "1 minute"})
    assert "deadline" in plan(late, now=NOW)._repr_html_()


def test_estimates_are_frames_too() -> None:
    found = estimate(Workload.from_flat({"model": "resnet50", "images": "50k", "gpu": "V100:1"}), now=NOW)
    assert found.records()[0]["gpu"] == found.estimates[0].gpu
    assert "V100" in found._repr_html_()
