"""The first sheet of a plan's workbook: what was asked, the cheapest and the fastest plan, all plans, and warnings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estimator.documents import PlanDocument, PlanEntry
from estimator.sheets.workbook_tables import COLUMN, MONEY, pareto_chart

if TYPE_CHECKING:
    from estimator.sheets.workbook import Book, PlanRow

DOLLARS = '"$"#,##0.00'
WIDTHS = (30, 26, 26, 11, 10, 11, 11, 11, 11, 9, 13)  # of the columns A to K
LETTERS = 150  # of a line of text across those columns
CHART = 17  # rows that the chart needs
Shown = tuple[str, str, str, Callable[[PlanEntry], Any]]
CARD: tuple[Shown, ...] = (
    ("Cost, USD (p50)", "cost_usd_p50", DOLLARS, lambda e: e.cost_usd.p50 if e.cost_usd else None),
    ("Cost, USD (p10)", "cost_usd_p10", DOLLARS, lambda e: e.cost_usd.p10 if e.cost_usd else None),
    ("Cost, USD (p90)", "cost_usd_p90", DOLLARS, lambda e: e.cost_usd.p90 if e.cost_usd else None),
    ("Hours (p50)", "hours_p50", MONEY, lambda e: e.hours.p50),
    ("GPU hours", "gpu_hours", MONEY, lambda e: e.gpu_hours),
    ("Cloud", "cloud", "General", lambda e: e.cloud),
    ("Region", "region", "General", lambda e: e.region or ""),
    ("Machine", "instance_type", "General", lambda e: e.instance_type),
    ("Machines", "nodes", "0", lambda e: e.nodes),
    ("Market", "market", "General", lambda e: e.market.value),
    ("GPU", "gpu", "General", lambda e: e.gpu),
    ("Fits in memory", "fits", "General", lambda e: e.memory_gib.verdict.value),
    ("Evidence", "evidence", "General", lambda e: e.evidence.kind.value),
)
FIGURES: tuple[Shown, ...] = (
    ("hours", "hours_p50", MONEY, lambda e: e.hours.p50),
    ("cost p10", "cost_usd_p10", DOLLARS, lambda e: e.cost_usd.p10 if e.cost_usd else None),
    ("cost p50", "cost_usd_p50", DOLLARS, lambda e: e.cost_usd.p50 if e.cost_usd else None),
    ("cost p90", "cost_usd_p90", DOLLARS, lambda e: e.cost_usd.p90 if e.cost_usd else None),
    ("USD/hour", "usd_per_hour", DOLLARS, lambda e: e.price.usd_per_hour),
)


def write_summary(book: Book, sheet: Any, document: PlanDocument, rows: list[PlanRow]) -> None:
    """All of it on one page, as formulas over the sheet of plans."""
    asked = document.workload
    sheet.hide_gridlines(2)
    for column, width in enumerate(WIDTHS):
        sheet.set_column(column, column, width)
    sheet.set_row(0, 26)
    book.put(sheet, 0, 0, f"Training plan: {asked.get('name') or asked.get('model')}", book.banner)
    book.put(sheet, 1, 0, f"{asked.get('model')}, {asked.get('method')} on {_amount(asked)}, {asked['steps']:,} steps; "
                          "prices in USD, 80% of runs lie between p10 and p90", book.quiet)  # fmt: skip
    place = 3
    if rows:
        place = _cards(book, sheet, document, rows)
        if document.frontier:
            sheet.insert_chart("E3", pareto_chart(book, document), {"x_offset": 12})
            place = max(place, 3 + CHART)
        place = _all_plans(book, sheet, rows, place + 1)
    else:
        book.put(sheet, place, 0, f"No plan satisfies the request: {document.binding}", book.bold)
        place += 1
    sections = (("Wary of", _warnings(document)), ("Hints", document.hints), ("Trade-offs", document.tradeoffs))
    for heading, texts in sections:
        if texts:
            place += 1
            sheet.write_string(place, 0, heading, book.bold)
        for text in texts:
            place += 1
            book.across(sheet, place, text, len(WIDTHS), LETTERS)
        place += bool(texts)


def _cards(book: Book, sheet: Any, document: PlanDocument, rows: list[PlanRow]) -> int:
    """The cheapest and the fastest plan side by side; the row behind them."""
    sheet.write_string(2, 0, "", book.title)
    sheet.write_string(2, 1, "cheapest", book.title)
    sheet.write_string(2, 2, "fastest", book.title)
    last, place = len(rows) + 1, 3
    best = (
        (min(rows, key=lambda row: row.entry.cost_usd.p50 if row.entry.cost_usd else math.inf), "cost_usd_p50"),
        (min(rows, key=lambda row: row.entry.hours.p50), "hours_p50"),
    )
    lines = [*CARD]
    money = next((row.entry.converted for row in rows if row.entry.converted is not None), None)
    if money is not None:
        lines.insert(1, (f"Cost, {money.currency} (p50)", "", "#,##0.00", lambda e: None))
    for label, name, number, value in lines:
        book.put(sheet, place, 0, label)
        for side, (row, figure) in enumerate(best, start=1):
            found = value(row.entry)
            area = f"Plans!${COLUMN[figure]}$2:${COLUMN[figure]}${last}"
            formula = (
                f"=INDEX(Plans!${COLUMN[name]}$2:${COLUMN[name]}${last},MATCH(MIN({area}),{area},0))" if name else ""
            )
            if not name and money is not None:
                formula = f"={'BC'[side - 1]}{place}*per_usd"
                found = row.entry.cost_usd.p50 * money.per_usd if row.entry.cost_usd else None
            sheet.write_formula(place, side, formula, book.format(number, left=True), "" if found is None else found)
        place += 1
    book.file.define_name("cheapest_cost_usd", "=Summary!$B$4")
    book.file.define_name(
        "fastest_hours", f"=Summary!$C${5 + [name for _, name, _, _ in lines].index('hours_p50') - 1}"
    )
    return place


def _all_plans(book: Book, sheet: Any, rows: list[PlanRow], place: int) -> int:
    """One line for each plan; the row behind them."""
    for column, title in enumerate(("plan", "where", "GPUs", "market", *(f[0] for f in FIGURES), "fits", "evidence")):
        sheet.write_string(place, column, title, book.title)
    for n, row in enumerate(rows, start=2):
        entry = row.entry
        place += 1
        several = f"{entry.nodes} x " if entry.nodes != 1 else ""
        where = f"{entry.cloud} {entry.region or ''} {entry.zone or ''}".strip()
        texts = (f"{entry.rank}. {several}{entry.instance_type}", where, f"{entry.gpus:g} x {entry.gpu}",
                 entry.market.value)  # fmt: skip
        for column, text in enumerate(texts):
            book.put(sheet, place, column, text)
        for column, (_, name, number, value) in enumerate(FIGURES, start=len(texts)):
            found = value(entry)
            sheet.write_formula(
                place, column, f"=Plans!{COLUMN[name]}{n}", book.format(number), "" if found is None else found
            )
        for column, text in enumerate((entry.memory_gib.verdict.value, entry.evidence.kind.value), start=9):
            book.put(sheet, place, column, text)
    return place + 1


def _amount(asked: dict[str, Any]) -> str:
    tokens, samples = asked.get("tokens_total"), asked.get("samples_total")
    return f"{tokens:,.0f} tokens" if tokens else f"{samples or 0:,.0f} samples"


def _warnings(document: PlanDocument) -> list[str]:
    ranks: dict[str, list[str]] = {}
    for entry in document.plans:
        for text in entry.warnings:
            ranks.setdefault(text, []).append(str(entry.rank))
    every = len(document.plans)
    said = [text if len(n) == every else f"plan {', '.join(n)}: {text}" for text, n in ranks.items()]
    return [*document.warnings, *said]
