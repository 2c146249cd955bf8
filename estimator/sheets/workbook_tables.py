"""The tables of a plan's workbook: plans, prices, memory, breakdown, the Pareto front and rows as FOCUS names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

from estimator.documents import PlanDocument, PlanEntry
from estimator.sheets.ranges import column_letters

if TYPE_CHECKING:
    from estimator.sheets.workbook import Book, PlanRow

MONEY, FIGURE, PERCENT, DATE = "#,##0.00", "#,##0.000", "0.0%", "yyyy-mm-dd hh:mm"
PLANS = (
    "rank", "cloud", "region", "instance_type", "market", "gpu", "gpus", "pareto", "nodes", "usd_per_hour_instance",
    "usd_per_hour", "start_up_hours", "run_hours_planned", "hours_p10", "hours_p50", "hours_p90", "gpu_hours",
    "machine_hours", "cost_usd_p10", "cost_usd_p50", "cost_usd_p90", "fits", "memory_gib", "throughput", "evidence",
    "hours_planned", "hours_p10_planned", "hours_p90_planned", "machine_hours_p10", "machine_hours_p50",
    "machine_hours_p90", "storage_usd", "fees_usd", "block_hours",
)  # fmt: skip
COLUMN = {name: column_letters(place) for place, name in enumerate(PLANS)}
LINK = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{7,40}):(\S+)")
PRICING = {"on-demand": "Standard", "spot": "Dynamic", "reserved": "Committed", "block": "Committed", "own": "Other"}
PROVIDERS = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Microsoft", "own": "Own"}
SERVICES = {"aws": "Amazon Elastic Compute Cloud", "gcp": "Compute Engine", "azure": "Virtual Machines", "own": "Own"}


def write_plans(book: Book, sheet: Any, rows: list[PlanRow]) -> None:
    """One plan a row; totals are formulas over the row and the assumptions."""
    book.head(sheet, list(PLANS), rows=len(rows), still=4)
    behind = PLANS.index("hours_planned")  # what the formulas start from, folded away
    sheet.set_column(0, behind - 1, 12)
    for name, width in (("rank", 6), ("cloud", 8), ("instance_type", 28), ("gpu", 26), ("gpus", 7), ("pareto", 8),
                        ("nodes", 7), ("fits", 8), ("region", 16)):  # fmt: skip
        sheet.set_column(PLANS.index(name), PLANS.index(name), width)
    sheet.set_column(behind, len(PLANS) - 1, 14, None, {"level": 1, "hidden": True})
    sheet.set_column(len(PLANS), len(PLANS), 3, None, {"collapsed": True})
    sheet.print_area(0, 0, len(rows), behind - 1)
    for place, row in enumerate(rows, start=1):
        entry, n = row.entry, place + 1
        figures: dict[str, tuple[object, str, bool]] = {
            "rank": (entry.rank, "0", False),
            "cloud": (entry.cloud, "General", False),
            "region": (entry.region, "General", False),
            "instance_type": (entry.instance_type, "General", False),
            "market": (entry.market.value, "General", False),
            "gpu": (entry.gpu, "General", False),
            "gpus": (entry.gpus, "General", False),
            "pareto": (entry.pareto, "General", False),
            "nodes": (entry.nodes, "0", False),
            "usd_per_hour_instance": (entry.price.usd_per_hour_instance, "#,##0.0000", True),
            "start_up_hours": (row.start_up, FIGURE, True),
            "run_hours_planned": (row.run, FIGURE, True),
            "fits": (entry.memory_gib.verdict.value, "General", False),
            "memory_gib": (entry.memory_gib.used, MONEY, False),
            "throughput": (entry.throughput.value, MONEY, False),
            "evidence": (entry.evidence.kind.value, "General", False),
            "hours_planned": (entry.hours.p50, FIGURE, False),
            "hours_p10_planned": (entry.hours.p10, FIGURE, False),
            "hours_p90_planned": (entry.hours.p90, FIGURE, False),
            "machine_hours_p10": (row.billed[0], FIGURE, False),
            "machine_hours_p50": (row.billed[1], FIGURE, False),
            "machine_hours_p90": (row.billed[2], FIGURE, False),
            "storage_usd": (row.storage, "#,##0.0000", False),
            "fees_usd": (row.fees, MONEY, False),
            "block_hours": (row.block, FIGURE, False),
        }
        for name, (value, number, asked) in figures.items():
            how = None if number == "General" else book.format(number, asked=asked)
            book.put(sheet, place, PLANS.index(name), value, how)
        for name, (formula, number, cached) in _formulas(row, n).items():
            sheet.write_formula(place, PLANS.index(name), formula, book.format(number), cached)
    for name in ("cost_usd_p50", "hours_p50", "usd_per_hour_instance") if rows else ():
        letter = COLUMN[name]
        book.file.define_name(f"plans_{name}", f"=Plans!${letter}$2:${letter}${len(rows) + 1}")


def _formulas(row: PlanRow, n: int) -> dict[str, tuple[str, str, float]]:
    """The totals of row `n` by column: formula, format, and the value with the assumptions as they come."""
    at = {name: f"{letter}{n}" for name, letter in COLUMN.items()}
    entry, cost = row.entry, row.entry.cost_usd

    def machine_hours(quantile: str) -> str:
        """Paid hours of one machine."""
        if row.block is not None:
            hours = f"{at[f'hours_{quantile}']}/utilisation"
            return f"ROUNDUP(ROUND({hours}/{at['block_hours']},9),0)*{at['block_hours']}"
        return f"{at[f'machine_hours_{quantile}']}*{at['hours_p50']}/{at['hours_planned']}/utilisation"

    def dollars(quantile: str) -> str:
        paid = f"{machine_hours(quantile)}*{at['usd_per_hour']}*attempts"
        return f"=({paid}+{at['storage_usd']}*scale+{at['fees_usd']})*(1+tax)"

    hourly = entry.price.usd_per_hour or 0.0
    return {
        "usd_per_hour": (f"={at['usd_per_hour_instance']}*{at['nodes']}*(1-discount)", "#,##0.0000", hourly),
        "hours_p50": (f"={at['start_up_hours']}+{at['run_hours_planned']}*scale", FIGURE, entry.hours.p50),
        "hours_p10": (f"={at['hours_p10_planned']}*{at['hours_p50']}/{at['hours_planned']}", FIGURE, entry.hours.p10),
        "hours_p90": (f"={at['hours_p90_planned']}*{at['hours_p50']}/{at['hours_planned']}", FIGURE, entry.hours.p90),
        "gpu_hours": (f"={at['hours_p50']}*{at['gpus']}", FIGURE, entry.gpu_hours),
        "machine_hours": (
            f"={machine_hours('p50')}*{at['nodes']}",
            FIGURE,
            row.billed[1] * entry.nodes,
        ),
        "cost_usd_p10": (dollars("p10"), MONEY, cost.p10 if cost else 0.0),
        "cost_usd_p50": (dollars("p50"), MONEY, cost.p50 if cost else 0.0),
        "cost_usd_p90": (dollars("p90"), MONEY, cost.p90 if cost else 0.0),
    }


def write_prices(book: Book, sheet: Any, rows: list[PlanRow]) -> None:
    """What an hour of each machine costs, who says so, when it was seen, and where that can be read."""
    titles = ["rank", "cloud", "region", "zone", "instance_type", "market", "usd_per_hour_instance", "state",
              "observed_at_utc", "age_hours", "source", "link"]  # fmt: skip
    book.head(sheet, titles, rows=len(rows))
    sheet.set_column(0, 9, 13)
    sheet.set_column(4, 4, 28)
    sheet.set_column(8, 8, 18)
    sheet.set_column(10, 10, 70)
    sheet.set_column(11, 11, 8)
    for place, row in enumerate(rows, start=1):
        entry, price = row.entry, row.entry.price
        texts = (entry.rank, entry.cloud, entry.region, entry.zone, entry.instance_type, entry.market.value)
        for column, value in enumerate(texts):
            book.put(sheet, place, column, value)
        formula = f"=Plans!{COLUMN['usd_per_hour_instance']}{place + 1}"
        sheet.write_formula(place, 6, formula, book.format("#,##0.0000"), price.usd_per_hour_instance or 0.0)
        book.put(sheet, place, 7, price.state.value)
        if price.observed_at is not None:
            sheet.write_datetime(place, 8, price.observed_at.astimezone(UTC).replace(tzinfo=None), book.format(DATE))
        book.put(sheet, place, 9, price.age_hours, book.format("#,##0"))
        book.put(sheet, place, 10, price.source)
        found = LINK.search(price.source or "")
        if found is not None and "*" not in found[3]:
            sheet.write_url(place, 11, f"https://github.com/{found[1]}/blob/{found[2]}/{found[3]}", string="open")


def write_memory(book: Book, sheet: Any, rows: list[PlanRow]) -> None:
    """GiB on each GPU by component, and what is left."""
    names = list(dict.fromkeys(name for row in rows for name in row.entry.memory_gib.parts))
    titles = [
        "rank",
        "instance_type",
        *(f"{name}_gib" for name in names),
        "used_gib",
        "capacity_gib",
        "left_gib",
        "fits",
    ]
    book.head(sheet, titles, rows=len(rows), still=2)
    sheet.set_column(0, len(titles) - 1, 13)
    sheet.set_column(0, 0, 6)
    sheet.set_column(1, 1, 28)
    number = book.format(MONEY)
    for place, row in enumerate(rows, start=1):
        memory = row.entry.memory_gib
        book.put(sheet, place, 0, row.entry.rank)
        book.put(sheet, place, 1, row.entry.instance_type)
        for column, name in enumerate(names, start=2):
            book.put(sheet, place, column, memory.parts.get(name), number)
        used, capacity = 2 + len(names), 3 + len(names)
        if names and memory.used is not None:
            area = f"{column_letters(2)}{place + 1}:{column_letters(used - 1)}{place + 1}"
            sheet.write_formula(place, used, f"=SUM({area})", number, memory.used)
            if memory.capacity is not None:
                left = f"={column_letters(capacity)}{place + 1}-{column_letters(used)}{place + 1}"
                sheet.write_formula(place, capacity + 1, left, number, memory.capacity - memory.used)
        book.put(sheet, place, capacity, memory.capacity, number)
        book.put(sheet, place, capacity + 2, memory.verdict.value)


Parts = Callable[[PlanEntry], Mapping[str, float]]
GROUPS: tuple[tuple[str, str, Parts, Callable[[PlanEntry], float]], ...] = (
    ("step", "ms", lambda e: e.breakdown_ms, lambda e: e.step_ms),
    ("hours", "h", lambda e: e.hours_parts, lambda e: e.hours.p50),
    ("cost", "usd", lambda e: e.cost_parts, lambda e: e.cost_usd.p50 if e.cost_usd else 0.0),
)


def write_breakdown(book: Book, sheet: Any, rows: list[PlanRow]) -> None:
    """Where the step, the hours and the dollars of each plan go; sums are formulas."""
    names = [list(dict.fromkeys(name for row in rows for name in parts(row.entry))) for _, _, parts, _ in GROUPS]
    titles = ["rank", "instance_type", "bound_by", "mfu"]
    for (group, unit, _, _), known in zip(GROUPS, names, strict=True):
        titles += [f"{name}_{unit}" for name in known] + [f"{group}_{unit}"]
    book.head(sheet, titles, rows=len(rows), still=2)
    sheet.set_column(0, len(titles) - 1, 13)
    sheet.set_column(0, 0, 6)
    sheet.set_column(1, 1, 28)
    number = book.format(FIGURE)
    for place, row in enumerate(rows, start=1):
        entry = row.entry
        for column, value in enumerate((entry.rank, entry.instance_type, entry.bound_by.value)):
            book.put(sheet, place, column, value)
        book.put(sheet, place, 3, entry.mfu, book.format(PERCENT))
        column = 4
        for (_, _, parts, total), known in zip(GROUPS, names, strict=True):
            first = column
            for name in known:
                book.put(sheet, place, column, parts(entry).get(name), number)
                column += 1
            if known:
                area = f"{column_letters(first)}{place + 1}:{column_letters(column - 1)}{place + 1}"
                sheet.write_formula(place, column, f"=SUM({area})", number, total(entry))
            column += 1


def write_pareto(book: Book, sheet: Any, document: PlanDocument) -> None:
    """The exact front of time against cost over all plans that satisfy the request."""
    titles = ["hours", "cost_usd", "cloud", "region", "instance_type", "market", "nodes", "gpu", "gpus"]
    book.head(sheet, titles, rows=len(document.frontier))
    sheet.set_column(0, len(titles) - 1, 12)
    sheet.set_column(4, 4, 28)
    sheet.set_column(7, 7, 26)
    for place, point in enumerate(document.frontier, start=1):
        book.put(sheet, place, 0, point.hours, book.format(FIGURE))
        book.put(sheet, place, 1, point.cost_usd, book.format(MONEY))
        rest = (point.cloud, point.region, point.instance_type, point.market.value, point.nodes, point.gpu, point.gpus)
        for column, value in enumerate(rest, start=2):
            book.put(sheet, place, column, value)


def pareto_chart(book: Book, document: PlanDocument) -> Any:
    """A native chart: the front, and the ranked plans among which it lies."""
    chart = book.file.add_chart({"type": "scatter", "subtype": "straight_with_markers"})
    last, plans = len(document.frontier), len(document.plans)
    chart.add_series(
        {"name": "Pareto front", "categories": ["Pareto", 1, 0, last, 0], "values": ["Pareto", 1, 1, last, 1]}
    )
    hours, cost = PLANS.index("hours_p50"), PLANS.index("cost_usd_p50")
    if plans:
        chart.add_series(
            {
                "name": "Ranked plans",
                "categories": ["Plans", 1, hours, plans, hours],
                "values": ["Plans", 1, cost, plans, cost],
                "line": {"none": True},
                "marker": {"type": "diamond", "size": 7},
            }
        )
    quiet = {"major_gridlines": {"visible": True, "line": {"color": "#E5E5E5"}}, "name_font": {"bold": False}}
    chart.set_title({"name": "Time against cost", "name_font": {"size": 12, "color": "#1F4E78"}})
    wide = {"hours": [p.hours for p in document.frontier], "cost": [p.cost_usd for p in document.frontier]}
    chart.set_x_axis({"name": "hours (p50)", "log_base": 10 if _wide(wide["hours"]) else None, **quiet})
    chart.set_y_axis(
        {"name": "USD (p50)", "num_format": "#,##0.##", "log_base": 10 if _wide(wide["cost"]) else None, **quiet}
    )
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 620, "height": 340})
    return chart


def _wide(values: list[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > 30


def write_focus(book: Book, sheet: Any, rows: list[PlanRow]) -> None:
    """The machines of each plan as a FOCUS row, so that it can stand beside a real bill; costs are formulas."""
    titles = ["ProviderName", "ServiceCategory", "ServiceName", "ResourceType", "RegionId", "AvailabilityZone",
              "ChargeCategory", "ChargeDescription", "PricingCategory", "ConsumedQuantity", "ConsumedUnit",
              "ListUnitPrice", "ContractedUnitPrice", "ListCost", "ContractedCost", "EffectiveCost", "BilledCost",
              "BillingCurrency"]  # fmt: skip
    book.head(sheet, titles, rows=len(rows))
    sheet.set_column(0, len(titles) - 1, 17)
    sheet.set_column(2, 3, 28)
    sheet.set_column(7, 7, 34)
    for place, row in enumerate(rows, start=1):
        entry, n = row.entry, place + 1
        texts = (PROVIDERS.get(entry.cloud, entry.cloud), "Compute", SERVICES.get(entry.cloud, entry.cloud),
                 entry.instance_type, entry.region, entry.zone, "Usage",
                 f"plan {entry.rank}: {entry.gpus:g} x {entry.gpu}", PRICING[entry.market.value])  # fmt: skip
        for column, value in enumerate(texts):
            book.put(sheet, place, column, value)
        quantity, list_price = row.billed[1] * entry.nodes, entry.price.usd_per_hour_instance or 0.0
        paid = quantity * list_price
        sheet.write_formula(
            place, 9, f"=Plans!{COLUMN['machine_hours']}{n}*attempts", book.format(FIGURE), quantity * row.attempts
        )
        sheet.write_string(place, 10, "Hours")
        money = book.format("#,##0.0000")
        price = f"=Plans!{COLUMN['usd_per_hour_instance']}{n}"
        sheet.write_formula(place, 11, price, money, list_price)
        sheet.write_formula(place, 12, f"=L{n}*(1-discount)", money, list_price)
        sheet.write_formula(place, 13, f"=J{n}*L{n}", book.format(MONEY), paid * row.attempts)
        for column in (14, 15, 16):
            sheet.write_formula(place, column, f"=J{n}*M{n}", book.format(MONEY), paid * row.attempts)
        sheet.write_string(place, 17, "USD")
