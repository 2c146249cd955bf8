"""The workbook of a plan says what the JSON document says, and its formulas answer what-if without us.

LibreOffice opens the file, calculates every formula anew, and saves it; the values are read from what it saved.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from estimator import Workload, plan
from estimator.documents import PlanDocument
from estimator.sheets.answers import Market
from estimator.sheets.workbook import plan_workbook
from estimator.sheets.workbook_tables import PLANS
from pricing.offers import current_offers
from pricing.sources.overrides_file import overrides

from .conftest import NOW, ManyOffice, Office

TABS = ["Summary", "Plans", "Assumptions", "Prices", "Memory", "Breakdown", "Pareto", "FOCUS"]
LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "epochs": 2, "name": "=cmd|' /C calc'!A0"}
BILL = {"bill": {"tax_percent": 19, "fixed_usd": 12.5}, "run": {"attempts": 1.5}}
OWN = {"own": [{"name": "@lab", "gpu": "RTX-4090", "gpus_per_node": 8, "usd_per_hour": 0}]}
CASES: dict[str, dict[str, Any]] = {
    "tokens": LORA,
    "spot and own": LORA | OWN | {"constraints": {"markets": ["spot", "own"]}},
    "euros": LORA | {"bill": {"currency": "EUR=0.92", "tax_percent": 19}},
    "images, tax and attempts": {"model": "resnet50", "images": 1281167, "epochs": 90, "method": "pretrain", **BILL},
}


def planned(request: dict[str, Any], market: Market) -> PlanDocument:
    return plan(Workload(**request), offers=market.offers, now=NOW)


def calculated(data: bytes, office: Office, folder: Path) -> Any:
    """The workbook after LibreOffice has calculated it."""
    (folder / "plan.xlsx").write_bytes(without_values(data))
    return openpyxl.load_workbook(office(folder / "plan.xlsx", "xlsx"), data_only=True)


def without_values(data: bytes) -> bytes:
    """The workbook without the values that we stored beside its formulas, so that none can be mistaken for a result."""
    book = openpyxl.load_workbook(io.BytesIO(data))
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def rows(book: Any, tab: str = "Plans") -> list[dict[str, Any]]:
    sheet = book[tab]
    titles = [cell.value for cell in sheet[1]]
    return [dict(zip(titles, [c.value for c in row], strict=True)) for row in sheet.iter_rows(min_row=2)]


def compare(book: Any, document: PlanDocument, rel: float = 1e-6) -> None:
    """Every total of the workbook with the document."""
    found = rows(book)
    assert len(found) == len(document.plans) > 0
    for row, entry in zip(found, document.plans, strict=True):
        cost = entry.cost_usd
        assert cost is not None
        expected = {
            "usd_per_hour": entry.price.usd_per_hour, "hours_p10": entry.hours.p10, "hours_p50": entry.hours.p50,
            "hours_p90": entry.hours.p90, "gpu_hours": entry.gpu_hours, "cost_usd_p10": cost.p10,
            "cost_usd_p50": cost.p50, "cost_usd_p90": cost.p90,
        }  # fmt: skip
        for name, figure in expected.items():
            assert row[name] == pytest.approx(figure, rel=rel, abs=1e-9), (name, entry.rank)


def change(data: bytes, **cells: float) -> bytes:
    """The workbook after a person has changed named cells (`discount`) or cells of the sheet Plans (`J2`)."""
    book = openpyxl.load_workbook(io.BytesIO(data))
    for name, value in cells.items():
        if name in book.defined_names:
            tab, at = next(iter(book.defined_names[name].destinations))
            book[tab][at.replace("$", "")] = value
        else:
            book["Plans"][name] = value
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.fixture(scope="module")
def recalculated(
    market: Market, many_office: ManyOffice, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[PlanDocument, Any]]:
    """Each case as its document, and its workbook after LibreOffice has calculated it."""
    folder = tmp_path_factory.mktemp("recalculated")
    documents = {case: planned(request, market) for case, request in CASES.items()}
    paths = [folder / f"{case}.xlsx" for case in CASES]
    for path in paths:
        path.write_bytes(without_values(plan_workbook(documents[path.stem])))
    found = many_office(paths, "xlsx")
    return {case: (documents[case], openpyxl.load_workbook(found[case], data_only=True)) for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_recalculated_totals_are_those_of_the_document(
    case: str, recalculated: dict[str, tuple[PlanDocument, Any]]
) -> None:
    document, book = recalculated[case]
    compare(book, document)
    cheapest = min(document.plans, key=lambda entry: entry.cost_usd.p50 if entry.cost_usd else 0.0)
    assert cheapest.cost_usd is not None
    assert book["Summary"]["B4"].value == pytest.approx(cheapest.cost_usd.p50, rel=1e-6, abs=1e-9)
    money = cheapest.converted
    if money is not None and money.cost is not None:
        assert book["Summary"]["A5"].value == "Cost, EUR (p50)"
        assert book["Summary"]["B5"].value == pytest.approx(money.cost.p50, rel=1e-6)
    for entry, memory, parts in zip(document.plans, rows(book, "Memory"), rows(book, "Breakdown"), strict=True):
        assert memory["used_gib"] == pytest.approx(entry.memory_gib.used, rel=1e-6)
        assert parts["step_ms"] == pytest.approx(entry.step_ms, rel=1e-6)
        assert parts["hours_h"] == pytest.approx(entry.hours.p50, rel=1e-6)
        assert parts["cost_usd"] == pytest.approx(entry.cost_usd.p50 if entry.cost_usd else None, rel=1e-6, abs=1e-9)


def test_a_changed_price_gives_what_a_fresh_plan_gives(market: Market, office: Office, tmp_path: Path) -> None:
    request = LORA | {"constraints": {"gpus": ["H100:8"], "markets": ["on-demand", "spot"]}}
    document = planned(request, market)
    dearer = replace(market.offers, usd_per_hour=market.offers.usd_per_hour * 1.37)
    fresh = plan(Workload(**request), offers=dearer, now=NOW)
    prices = {
        f"J{n}": (entry.price.usd_per_hour_instance or 0.0) * 1.37 for n, entry in enumerate(document.plans, start=2)
    }
    book = calculated(change(plan_workbook(document), **prices), office, tmp_path)
    assert [e.instance_type for e in fresh.plans] == [e.instance_type for e in document.plans]
    compare(book, fresh)


def test_more_data_gives_what_a_fresh_plan_gives(market: Market, office: Office, tmp_path: Path) -> None:
    limits = {"gpus": ["H100:8"], "clouds": ["aws"], "markets": ["on-demand"]}
    still = {"start_up": False, "staging": False, "failures": False, "checkpoints": False}
    request = LORA | {"run": still, "bill": {"storage": False}, "constraints": limits}
    document = planned(request, market)
    fresh = planned(request | {"tokens": "180M", "epochs": 3}, market)
    book = calculated(change(plan_workbook(document), amount=180e6, epochs=3), office, tmp_path)
    steps = next(row[1].value for row in book["Assumptions"].iter_rows() if row[0].value == "Steps")
    assert steps == fresh.workload["steps"]
    compare(book, fresh)


def test_the_medians_of_a_whole_run_follow_its_data_closely(market: Market, office: Office, tmp_path: Path) -> None:
    request = LORA | {"constraints": {"gpus": ["H100:8"], "clouds": ["aws"], "markets": ["on-demand"]}}
    fresh = planned(request | {"tokens": "180M", "epochs": 3}, market)
    book = calculated(change(plan_workbook(planned(request, market)), amount=180e6, epochs=3), office, tmp_path)
    for row, entry in zip(rows(book), fresh.plans, strict=True):
        assert entry.cost_usd is not None
        assert row["hours_p50"] == pytest.approx(entry.hours.p50, rel=0.03)
        assert row["cost_usd_p50"] == pytest.approx(entry.cost_usd.p50, rel=0.03)


BLOCK = {"name": "October", "cloud": "aws", "instance_types": ["p5.48xlarge"], "term": "3d", "upfront_usd": 2500}


def test_a_prepaid_block_is_paid_whole_also_when_the_data_grows(office: Office, tmp_path: Path) -> None:
    offers = current_offers(now=NOW, overrides=overrides({"blocks": [BLOCK]}))
    request = {"model": "llama2-7b", "tokens": "15B", "constraints": {"gpus": ["H100:8"], "markets": ["block"]}}
    document, more = (plan(Workload(**request | {"tokens": t}), offers=offers, now=NOW) for t in ("15B", "30B"))
    (entry,), (longer,) = document.plans, more.plans
    assert entry.cost_usd is not None
    assert longer.cost_usd is not None
    assert entry.hours.p50 < 72 < longer.hours.p50
    book = calculated(change(plan_workbook(document), amount=30e9), office, tmp_path)
    assert rows(book)[0]["cost_usd_p50"] == pytest.approx(longer.cost_usd.p50, rel=1e-3)
    compare(openpyxl.load_workbook(io.BytesIO(plan_workbook(document)), data_only=True), document)


def test_a_discount_and_idle_machines_change_the_cost_alone(market: Market, office: Office, tmp_path: Path) -> None:
    document = planned(LORA, market)
    book = calculated(change(plan_workbook(document), discount=0.2, utilisation=0.5), office, tmp_path)
    for row, entry in zip(rows(book), document.plans, strict=True):
        machines = entry.cost_parts["machines"]
        assert entry.cost_usd is not None
        assert row["hours_p50"] == pytest.approx(entry.hours.p50, rel=1e-6)
        assert row["cost_usd_p50"] == pytest.approx(entry.cost_usd.p50 + machines * (0.8 / 0.5 - 1), rel=1e-6)
    for row, entry in zip(rows(book, "FOCUS"), document.plans, strict=True):
        assert row["ListCost"] == pytest.approx(entry.cost_parts["machines"] / 0.5, rel=1e-6)
        assert row["BilledCost"] == pytest.approx(row["ListCost"] * 0.8, rel=1e-6)
        assert row["BillingCurrency"] == "USD"


def test_it_can_be_presented(market: Market) -> None:
    document = planned(LORA, market)
    data = plan_workbook(document)
    book = openpyxl.load_workbook(io.BytesIO(data))
    assert book.sheetnames == TABS
    plans = book["Plans"]
    assert [cell.value for cell in plans[1]] == list(PLANS)
    assert plans.freeze_panes == "E2"
    assert plans.auto_filter.ref is not None
    assert plans["T2"].value.startswith("=")
    assert plans["T2"].number_format == "#,##0.00"
    assert {"discount", "utilisation", "amount", "epochs", "scale", "plans_cost_usd_p50"} <= set(book.defined_names)
    assert [name for name in zipfile.ZipFile(io.BytesIO(data)).namelist() if "charts/chart" in name]
    prices = rows(book, "Prices")
    assert prices[0]["source"] == document.plans[0].price.source
    links = [cell.hyperlink.target for cell in book["Prices"]["L"] if cell.hyperlink]
    assert links
    assert all(link.startswith("https://github.com/") for link in links)


def test_values_can_be_read_without_calculating(market: Market) -> None:
    document = planned(LORA, market)
    compare(openpyxl.load_workbook(io.BytesIO(plan_workbook(document)), data_only=True), document)


def test_no_name_of_the_request_becomes_a_formula(market: Market) -> None:
    document = planned(LORA | OWN | {"constraints": {"markets": ["own"]}}, market)
    book = openpyxl.load_workbook(io.BytesIO(plan_workbook(document)))
    assert book["Plans"]["D2"].value == "'@lab"
    formulas = {
        str(cell.value)
        for sheet in book
        for row in sheet.iter_rows()
        for cell in row
        if cell.data_type == "f" or str(cell.value).startswith(("=", "+", "-", "@"))
    }
    assert not [text for text in formulas if "cmd" in text or "lab" in text]


def test_a_request_without_a_plan_is_a_workbook_that_says_why(market: Market) -> None:
    document = planned(LORA | {"constraints": {"deadline": "1 minute"}}, market)
    book = openpyxl.load_workbook(io.BytesIO(plan_workbook(document)))
    assert "deadline" in str(book["Summary"]["A4"].value)
    assert book["Plans"].max_row == 1
