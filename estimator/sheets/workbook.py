"""A plan as a workbook to present: its figures, where they come from, and live formulas over the assumptions.

Every total is a formula. Change a blue cell (price, discount, utilisation, tokens, epochs, hours) and all of them
follow, in any spreadsheet program and without this one. With the assumptions as they come, every total equals the
plan's JSON document.

    hours          = start-up + (training + evaluation + checkpoints + lost) x steps / planned steps
                     (exact without start-up; with it the median of the sum is not quite the sum of the medians)
    machine hours  = billed hours of the plan x hours / planned hours / utilisation
                     (a prepaid block is paid whole: hours / utilisation, rounded up to blocks)
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
from pricing.offers import Market

MONEY, FIGURE, PERCENT, DATE = "#,##0.00", "#,##0.000", "0.0%", "yyyy-mm-dd hh:mm"
RARELY = 0.05  # interruptions of a run
FIXED = ("start_up", "provisioning", "image_pull", "warm_up", "staging")  # parts that do not grow with the steps
TITLE_COLOUR, INPUT_COLOUR, LINE_COLOUR = "#1F4E78", "#0000FF", "#D9D9D9"
LINE_POINTS = 15.0
A4 = 9
WIDE = ("Plans", "Breakdown", "FOCUS")  # printed on two pages beside each other


def plan_workbook(document: PlanDocument) -> bytes:
    """The workbook of a plan document, as bytes of an XLSX file; WorkloadError where its library is not installed."""
    from estimator.sheets import workbook_tables as tables
    from estimator.sheets.workbook_summary import write_summary

    out = io.BytesIO()
    book = Book(xlsxwriter().Workbook(out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}))
    names = ("Summary", "Plans", "Assumptions", "Prices", "Memory", "Breakdown", "Pareto", "FOCUS")
    sheets = {name: book.file.add_worksheet(name) for name in names}
    for name, sheet in sheets.items():
        sheet.set_landscape()
        sheet.set_paper(A4)
        sheet.fit_to_pages(2 if name in WIDE else 1, 0)
        sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
        sheet.set_footer("&L&8&A&R&8page &P of &N")
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
    sheets["Summary"].activate()
    book.file.close()
    return out.getvalue()


class Book:
    """The file with the formats that all sheets share, and texts made plain before they are written."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.title = file.add_format(
            {
                "bold": True,
                "font_color": "#FFFFFF",
                "bg_color": TITLE_COLOUR,
                "text_wrap": True,
                "valign": "vcenter",
                "align": "center",
            }
        )
        self.banner = file.add_format({"bold": True, "font_size": 18, "font_color": TITLE_COLOUR, "valign": "vcenter"})
        self.quiet = file.add_format({"italic": True, "font_color": "#595959"})
        self.heading = file.add_format({"bold": True, "font_size": 14, "font_color": TITLE_COLOUR})
        self.bold = file.add_format({"bold": True, "font_color": TITLE_COLOUR})
        self.wrap = file.add_format({"text_wrap": True, "valign": "top"})
        self.note = file.add_format({"italic": True, "font_color": "#595959", "indent": 1})
        self.text = file.add_format({"bottom": 1, "bottom_color": LINE_COLOUR, "align": "left", "indent": 1})
        self._formats: dict[tuple[str, bool, bool], Any] = {}

    def format(self, number: str, *, asked: bool = False, left: bool = False) -> Any:
        """A number format with a line beneath; blue where the cell is an assumption to change."""
        key = (number, asked, left)
        if key not in self._formats:
            look: dict[str, object] = {"num_format": number, "bottom": 1, "bottom_color": LINE_COLOUR}
            if asked:
                look |= {"font_color": INPUT_COLOUR, "bg_color": "#FFF9E5"}
            if left:
                look |= {"align": "left"}
            self._formats[key] = self.file.add_format(look)
        return self._formats[key]

    def across(self, sheet: Any, row: int, text: str, columns: int, letters: int) -> None:
        """A text over several columns, in as many lines as it needs."""
        plain = neutral(text)
        sheet.merge_range(row, 0, row, columns - 1, "", self.wrap)
        sheet.write_string(row, 0, plain, self.wrap)
        sheet.set_row(row, LINE_POINTS * max(1, math.ceil(len(plain) / letters)))

    def put(self, sheet: Any, row: int, column: int, value: object, how: Any = None) -> None:
        """One cell; unknown is empty, text can never be a formula."""
        if value is None:
            sheet.write_blank(row, column, None, how)
        elif isinstance(value, bool):
            sheet.write_string(row, column, "yes" if value else "no", how or self.text)
        elif isinstance(value, int | float):
            if math.isfinite(value):
                sheet.write_number(row, column, value, how)
        else:
            sheet.write_string(row, column, neutral(str(value)), how or self.text)

    def head(self, sheet: Any, titles: list[str], *, rows: int = 0, still: int = 0) -> None:
        """A header row that stays in sight with the first columns, with a filter over the rows beneath."""
        for column, title in enumerate(titles):
            sheet.write_string(0, column, title, self.title)
        sheet.set_row(0, 2 * LINE_POINTS)
        sheet.freeze_panes(1, still)
        if still:
            sheet.repeat_columns(0, still - 1)
        sheet.repeat_rows(0)
        if rows:
            sheet.autofilter(0, 0, rows, len(titles) - 1)


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
    block: float | None  # hours of a prepaid block, which is paid whole

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
        run = entry.hours.p50 - start_up
        hours = (entry.hours.p10, entry.hours.p50, entry.hours.p90)
        block = entry.price.term_hours if entry.market is Market.BLOCK else None
        if block is not None and any(
            not math.isclose(math.ceil(round(h / block, 9)) * block, b, rel_tol=1e-9)
            for h, b in zip(hours, billed, strict=True)
        ):
            block = None
        return cls(entry, start_up, run, (billed[0], billed[1], billed[2]), storage, fees, attempts, tax, block)


def write_assumptions(
    book: Book, sheet: Any, document: PlanDocument, quantity: Quantity | None, rows: list[PlanRow]
) -> None:
    """What can be changed, each cell with a name; and what was assumed where the request said nothing."""
    sheet.hide_gridlines(2)
    sheet.set_column(0, 0, 34)
    sheet.set_column(1, 1, 22)
    sheet.set_column(2, 2, 70)
    sheet.write_string(0, 0, "Assumptions (change the blue cells)", book.heading)
    attempts = max((row.attempts for row in rows), default=1.0)
    tax = max((row.tax for row in rows), default=0.0)
    lines: list[tuple[str, str, object, str, bool, str]] = [
        ("discount", "Discount on the prices", 0.0, PERCENT, True, "of machines: an enterprise agreement, for one"),
        ("utilisation", "Utilisation", 1.0, PERCENT, True, "share of the paid machine hours that the run uses"),
        ("attempts", "Attempts", attempts, FIGURE, True, "machine hours of all attempts over those of the good run"),
        ("tax", "Tax", tax, PERCENT, True, "on everything"),
    ]
    money = next((row.entry.converted for row in rows if row.entry.converted is not None), None)
    if money is not None:
        lines.append(("per_usd", f"{money.currency} for one USD", money.per_usd, "0.0000", True, "as the request says"))
    if quantity is not None:
        lines += [
            ("amount", f"{quantity.name.capitalize()} of the data set", quantity.amount, "#,##0", True, ""),
            ("epochs", "Epochs", quantity.epochs, "General", True, "passes over the data set"),
            ("per_sample", f"{quantity.name.capitalize()} of a sample", quantity.per_sample, "General", False, ""),
            ("global_batch", "Samples of a step", quantity.global_batch, "#,##0", False, ""),
            ("planned_steps", "Steps of the plan", quantity.steps, "#,##0", False, ""),
        ]
    for place, (name, label, figure, number, asked, note) in enumerate(lines, start=2):
        sheet.write_string(place, 0, label, book.format("General"))
        book.put(sheet, place, 1, figure, book.format(number, asked=asked))
        sheet.write_string(place, 2, note, book.note)
        book.file.define_name(name, f"=Assumptions!$B${place + 1}")
    place = len(lines) + 2
    if quantity is not None:
        formula = "=ROUNDUP(ROUND(amount*epochs/per_sample/global_batch,9),0)"
        sheet.write_string(place, 0, "Steps", book.format("General"))
        sheet.write_formula(place, 1, formula, book.format("#,##0"), quantity.steps)
        book.file.define_name("steps", f"=Assumptions!$B${place + 1}")
        place += 1
    sheet.write_string(place, 0, "Steps over those of the plan", book.format("General"))
    scale = "=steps/planned_steps" if quantity is not None else "=1"
    sheet.write_formula(place, 1, scale, book.format("0.000000"), 1)
    sheet.write_string(place, 2, "start-up and fees stay; everything else of a run grows with its steps", book.note)
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
        sheet.write_string(place, 0, str(key), book.format("General"))
        number = "#,##0.##" if isinstance(value, float) else "General"
        shown = value if isinstance(value, int | float | None) else str(value)
        book.put(sheet, place, 1, shown, book.format(number, left=True))
