"""In a notebook a plan is a table, and a data frame with typed columns where pandas or polars is installed."""

from __future__ import annotations

from typing import Any

import pytest

from estimator import Workload, estimate, plan
from estimator.documents import PlanDocument
from estimator.flat import ESTIMATE_CSV, PLAN_CSV
from estimator.sheets.answers import Market

LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M"}
LIBRARIES = [("pandas", "to_pandas"), ("polars", "to_polars")]


def planned(market: Market, **more: Any) -> PlanDocument:
    return plan(Workload(**LORA | more), offers=market.offers, now=market.now)


def frame(library: str, method: str, document: Any) -> Any:
    pytest.importorskip(library, reason=f"needs {library} (extra frames)")
    return getattr(document, method)()


@pytest.mark.parametrize(("library", "method"), LIBRARIES)
def test_a_plan_is_a_frame_of_figures(library: str, method: str, market: Market) -> None:
    document = planned(market)
    found = frame(library, method, document)
    assert list(found.columns) == list(PLAN_CSV)
    assert [float(v) for v in found["cost_usd_p50"]] == [p.cost_usd.p50 for p in document.plans if p.cost_usd]
    assert str(found["cost_usd_p50"].dtype).casefold() == "float64"
    assert list(found["market"]) == [p.market.value for p in document.plans]


@pytest.mark.parametrize(("library", "method"), LIBRARIES)
def test_without_a_plan_the_columns_are_there(library: str, method: str, market: Market) -> None:
    found = frame(library, method, planned(market, constraints={"deadline": "1 minute"}))
    assert (len(found), list(found.columns)) == (0, list(PLAN_CSV))


def test_an_estimate_has_its_own_columns(market: Market) -> None:
    document = estimate(Workload(**LORA), gpus=["H100:8"], offers=market.offers, now=market.now)
    assert [list(row) for row in document.records()] == [list(ESTIMATE_CSV)]


def test_a_notebook_shows_a_table_without_a_name_that_is_markup(market: Market) -> None:
    evil = "<img src=x onerror=alert(1)>"
    own = {"name": evil, "gpu": "RTX-4090", "gpus_per_node": 8, "usd_per_hour": 0.4}
    shown = planned(market, own=[own], constraints={"markets": ["own"]})._repr_html_()
    assert shown.startswith("<table>")
    assert "<img" not in shown
    assert "&lt;img" in shown
    none = planned(market, constraints={"deadline": "1 minute"})._repr_html_()
    assert none == "<p>No plan satisfies the request: deadline</p>"
