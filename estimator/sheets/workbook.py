"""A plan as a workbook to present: its figures, where they come from, and live formulas over the assumptions.

Every total is a formula. Change a blue cell (price, discount, utilisation, tokens, epochs, hours) and all of them
follow, in any spreadsheet program and without this one. With the assumptions as they come, every total equals the
plan's JSON document.

    hours          = start-up + (training + evaluation + checkpoints + lost) x steps / planned steps
                     (exact without start-up; with it the median of the sum is not quite the sum of the medians)
    machine hours  = billed hours of the plan x hours / planned hours / utilisation
    cost           = (machine hours x price x (1 - discount) x attempts + storage + fees) x (1 + tax)
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

from estimator.documents import PlanDocument, PlanEntry
from estimator.sheets.safety import neutral
from estimator.sheets.template import xlsxwriter

MONEY, FIGURE, PERCENT, DATE = "#,##0.00", "#,##0.000", "0.0%", "yyyy-mm-dd hh:mm"
RARELY = 0.05  # interruptions of a run
FIXED = ("start_up", "provisioning", "image_pull", "warm_up", "staging")  # parts that do not grow with the steps
TITLE_COLOUR, INPUT_COLOUR = "#1F4E78", "#0000FF"


def plan_workbook(document: PlanDocument) -> bytes:
    """The workbook of a plan document, as bytes of an XLSX file; WorkloadError where its library is not installed."""
    from estimator.sheets import workbook_tables as tables

    out = io.BytesIO()
    book = Book(xlsxwriter().Workbook(out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}))
    names = ("Summary", "Plans", "Assumptions", "Prices", "Memory", "Breakdown", "Pareto", "FOCUS")
    sheets = {name: book.file.add_worksheet(name) for name in names}
    for sheet in sheets.values():
        sheet.set_landscape()
        sheet.fit_to_pages(1, 0)
    quantity = Quantity.of(document)
    rows = [PlanRow.of(entry) for entry in document.plans]
    tables.write_plans(book, sheets["Plans"], rows)
    write_assumptions(book, sheets["Assumptions"], document, quantity, rows)
    tables.write_prices(book, sheets["Prices"], rows)
    tables.write_memory(book, sheets["Memory"], rows)
    tables.write_breakdown(book, sheets["Breakdown"], rows)
    tables.write_pareto(book, sheets["Pareto"], document)
    tables.write_focus(book, sheets["FOCUS"], rows)
    write_summary(book, sheets["Summary"], document, rows)
    if document.frontier:
        sheets["Summary"].insert_chart("E3", tables.pareto_chart(book, document))
    sheets["Summary"].activate()
    book.file.close()
    return out.getvalue()


class Book:
    """The file with the formats that all sheets share, and texts made plain before they are written."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.title = file.add_format(
            {"bold": True, "font_color": "#FFFFFF", "bg_color": TITLE_COLOUR, "text_wrap": True, "valign": "top"}
        )
        self.heading = file.add_format({"bold": True, "font_size": 14})
        self.bold = file.add_format({"bold": True})
        self.wrap = file.add_format({"text_wrap": True, "valign": "top"})
        self._formats: dict[tuple[str, bool], Any] = {}

    def format(self, number: str, *, asked: bool = False) -> Any:
        """A number format; blue where the cell is an assumption to change."""
        key = (number, asked)
        if key not in self._formats:
            colour = {"font_color": INPUT_COLOUR, "bg_color": "#FFF9E5"} if asked else {}
            self._formats[key] = self.file.add_format({"num_format": number, **colour})
        return self._formats[key]

    def put(self, sheet: Any, row: int, column: int, value: object, how: Any = None) -> None:
        """One cell; unknown is empty, text can never be a formula."""
        if value is None:
            sheet.write_blank(row, column, None, how)
        elif isinstance(value, bool):
            sheet.write_string(row, column, "yes" if value else "no", how)
        elif isinstance(value, int | float):
            if math.isfinite(value):
                sheet.write_number(row, column, value, how)
        else:
            sheet.write_string(row, column, neutral(str(value)), how)

    def head(self, sheet: Any, titles: list[str], *, row: int = 0, rows: int = 0) -> None:
        """A header row that stays in sight, with a filter over the rows beneath."""
        for column, title in enumerate(titles):
            sheet.write_string(row, column, title, self.title)
        sheet.freeze_panes(row + 1, 0)
        if rows:
            sheet.autofilter(row, 0, row + rows, len(titles) - 1)


@dataclass(frozen=True, slots=True)
class Quantity:
    """How much is trained on, and how that becomes steps."""

    name: str  # tokens or samples
    amount: float  # of one pass
    epochs: float
    per_sample: float  # units of a sample
    global_batch: float
    steps: int

    @classmethod
    def of(cls, document: PlanDocument) -> Quantity | None:
        """None where the request states something that does not become steps in this way."""
        asked = document.workload
        total_samples, epochs, batch = asked["samples_total"], asked["epochs"], asked["global_batch"]
        tokens = asked.get("tokens_total")
        if not total_samples or not batch or not epochs:
            return None
        total = tokens if tokens else total_samples
        found = cls(
            "tokens" if tokens else "samples", total / epochs, epochs, total / total_samples, batch, asked["steps"]
        )
        return found if found.counted() == asked["steps"] else None

    def counted(self) -> int:
        """Steps by the formula of the sheet."""
        return math.ceil(round(self.amount * self.epochs / self.per_sample / self.global_batch, 9))


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One plan as the numbers that its formulas start from."""

    entry: PlanEntry
    start_up: float
    run: float  # hours that grow with the steps
    billed: tuple[float, float, float]  # machine hours paid, p10, p50, p90
    storage: float
    fees: float
    attempts: float
    tax: float

    @classmethod
    def of(cls, entry: PlanEntry) -> PlanRow:
        """The numbers of a plan; with the formulas of the sheet they give its totals again."""
        parts, cost = entry.cost_parts, entry.cost_usd
        machines, again = parts.get("machines", 0.0), parts.get("other_attempts", 0.0)
        storage = sum(parts.get(name, 0.0) for name in ("data_storage", "checkpoint_storage", "disks"))
        fees = parts.get("egress", 0.0) + parts.get("fees", 0.0)
        untaxed = machines + again + storage + fees
        tax = parts.get("tax", 0.0) / untaxed if untaxed else 0.0
        attempts = 1.0 + again / machines if machines else 1.0
        hourly = entry.price.usd_per_hour or 0.0
        totals = (cost.p10, cost.p50, cost.p90) if cost else (0.0, 0.0, 0.0)
        if hourly:
            billed = tuple((total / (1.0 + tax) - storage - fees) / attempts / hourly for total in totals)
        else:
            billed = (entry.hours.p10, entry.hours.p50, entry.hours.p90)
        start_up = sum(entry.hours_parts.get(name, 0.0) for name in FIXED)
        if entry.risk.expected_interruptions < RARELY:  # then the spread is that of the start-up, not of the work
            start_up += entry.hours_parts.get("spread", 0.0)
        return cls(
            entry, start_up, entry.hours.p50 - start_up, (billed[0], billed[1], billed[2]), storage, fees, attempts, tax
        )


def write_assumptions(
    book: Book, sheet: Any, document: PlanDocument, quantity: Quantity | None, rows: list[PlanRow]
) -> None:
    """What can be changed, each cell with a name; and what was assumed where the request said nothing."""
    sheet.set_column(0, 0, 34)
    sheet.set_column(1, 1, 18)
    sheet.set_column(2, 2, 70)
    sheet.write_string(0, 0, "Assumptions (change the blue cells)", book.heading)
    attempts = max((row.attempts for row in rows), default=1.0)
    tax = max((row.tax for row in rows), default=0.0)
    lines: list[tuple[str, str, object, str, bool, str]] = [
        ("discount", "Discount on list prices", 0.0, PERCENT, True, "of machines: an enterprise agreement, for one"),
        ("utilisation", "Utilisation", 1.0, PERCENT, True, "share of the paid machine hours that the run uses"),
        ("attempts", "Attempts", attempts, FIGURE, True, "machine hours of all attempts over those of the good run"),
        ("tax", "Tax", tax, PERCENT, True, ""),
    ]
    if quantity is not None:
        lines += [
            ("amount", f"{quantity.name.capitalize()} of the data set", quantity.amount, "#,##0", True, ""),
            ("epochs", "Epochs", quantity.epochs, "General", True, "passes over the data set"),
            ("per_sample", f"{quantity.name.capitalize()} of a sample", quantity.per_sample, "General", False, ""),
            ("global_batch", "Samples of a step", quantity.global_batch, "#,##0", False, ""),
            ("planned_steps", "Steps of the plan", quantity.steps, "#,##0", False, ""),
        ]
    for place, (name, label, figure, number, asked, note) in enumerate(lines, start=2):
        sheet.write_string(place, 0, label)
        book.put(sheet, place, 1, figure, book.format(number, asked=asked))
        sheet.write_string(place, 2, note)
        book.file.define_name(name, f"=Assumptions!$B${place + 1}")
    place = len(lines) + 2
    if quantity is not None:
        formula = "=ROUNDUP(ROUND(amount*epochs/per_sample/global_batch,9),0)"
        sheet.write_string(place, 0, "Steps")
        sheet.write_formula(place, 1, formula, book.format("#,##0"), quantity.steps)
        book.file.define_name("steps", f"=Assumptions!$B${place + 1}")
        place += 1
    sheet.write_string(place, 0, "Steps over those of the plan")
    scale = "=steps/planned_steps" if quantity is not None else "=1"
    sheet.write_formula(place, 1, scale, book.format("0.000000"), 1)
    sheet.write_string(place, 2, "start-up and fees stay; everything else of a run grows with its steps")
    book.file.define_name("scale", f"=Assumptions!$B${place + 1}")
    place += 2
    sheet.write_string(place, 0, "Taken where the request says nothing", book.bold)
    for text in document.assumptions or ["nothing"]:
        place += 1
        book.put(sheet, place, 0, text)
    place += 2
    sheet.write_string(place, 0, "The request", book.bold)
    for key, value in document.workload.items():
        place += 1
        sheet.write_string(place, 0, str(key))
        book.put(sheet, place, 1, value if isinstance(value, int | float | None) else str(value))


def write_summary(book: Book, sheet: Any, document: PlanDocument, rows: list[PlanRow]) -> None:
    """What was asked, the cheapest and the fastest plan, and what to be wary of."""
    asked = document.workload
    sheet.set_column(0, 0, 30)
    sheet.set_column(1, 2, 24)
    book.put(sheet, 0, 0, f"Training plan: {asked.get('name') or asked.get('model')}", book.heading)
    book.put(sheet, 1, 0, f"{asked.get('method')} on {_amount(asked)}, {asked['steps']:,} steps; prices in USD")
    sheet.write_string(2, 1, "cheapest", book.title)
    sheet.write_string(2, 2, "fastest", book.title)
    last = len(rows) + 1
    place = 3
    if rows:
        cheapest = min(rows, key=lambda row: row.entry.cost_usd.p50 if row.entry.cost_usd else math.inf)
        fastest = min(rows, key=lambda row: row.entry.hours.p50)
        cost, hours = f"Plans!$T$2:$T${last}", f"Plans!$O$2:$O${last}"
        find = (f"MATCH(MIN({cost}),{cost},0)", f"MATCH(MIN({hours}),{hours},0)")
        shown: list[tuple[str, str, str, Any]] = [
            ("Cost, USD (p50)", "T", MONEY, lambda e: e.cost_usd.p50 if e.cost_usd else None),
            ("Cost, USD (p10)", "S", MONEY, lambda e: e.cost_usd.p10 if e.cost_usd else None),
            ("Cost, USD (p90)", "U", MONEY, lambda e: e.cost_usd.p90 if e.cost_usd else None),
            ("Hours (p50)", "O", MONEY, lambda e: e.hours.p50),
            ("GPU hours", "Q", MONEY, lambda e: e.gpu_hours),
            ("Cloud", "B", "General", lambda e: e.cloud),
            ("Region", "C", "General", lambda e: e.region or ""),
            ("Machine", "D", "General", lambda e: e.instance_type),
            ("Machines", "I", "General", lambda e: e.nodes),
            ("Market", "E", "General", lambda e: e.market.value),
            ("GPU", "F", "General", lambda e: e.gpu),
            ("Fits in memory", "V", "General", lambda e: e.memory_gib.verdict.value),
            ("Evidence", "Y", "General", lambda e: e.evidence.kind.value),
        ]
        for label, column, number, value in shown:
            sheet.write_string(place, 0, label)
            for side, (row, at) in enumerate(((cheapest, find[0]), (fastest, find[1])), start=1):
                formula = f"=INDEX(Plans!${column}$2:${column}${last},{at})"
                cached = value(row.entry)
                sheet.write_formula(place, side, formula, book.format(number), "" if cached is None else cached)
            place += 1
        book.file.define_name("cheapest_cost_usd", "=Summary!$B$4")
        book.file.define_name("fastest_hours", "=Summary!$C$7")
    else:
        book.put(sheet, place, 0, f"No plan satisfies the request: {document.binding}", book.bold)
        place += 1
    for heading, texts in (
        ("Wary of", _warnings(document)),
        ("Hints", document.hints),
        ("Trade-offs", document.tradeoffs),
    ):
        if texts:
            place += 1
            sheet.write_string(place, 0, heading, book.bold)
        for text in texts:
            place += 1
            book.put(sheet, place, 0, text)
        place += bool(texts)


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
