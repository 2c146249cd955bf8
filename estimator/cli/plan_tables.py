"""How does a plan or an estimate read: one sentence, a table, what was assumed, and the derivation when asked?"""

from __future__ import annotations

import re
from typing import Any

from estimator.cli.numbers import UNKNOWN, age, count, figure, hours, span, usd
from estimator.cli.output import Column, Row, as_table, printable
from estimator.cli.settings import Settings

# --- tables ------------------------------------------------------------------------------------------------------


def _place(entry: Row) -> str:
    return str(entry.get("zone") or entry.get("region") or UNKNOWN)


def _machines(entry: Row) -> str:
    per_node = entry["gpus"] / entry["nodes"] if entry["nodes"] else entry["gpus"]
    return f"{entry['nodes']} x {figure(per_node)} {entry['gpu']}"


def _memory(entry: Row) -> str:
    memory = entry["memory_gib"]
    return f"{figure(memory['used'])}/{figure(memory['capacity'])} {memory['verdict']}"


def _evidence(entry: Row) -> str:
    used = len(entry["evidence"]["measurements"])
    return f"{entry['evidence']['kind']}" + (f" ({used})" if used else "")


def _price_age(entry: Row) -> str:
    price = entry["price"]
    return f"{age(price['age_hours'])} {price['state']}" if price["age_hours"] is not None else str(price["state"])


def _layout(entry: Row) -> str:
    """How the job is divided: samples at once, what is accumulated, split, shared and recomputed."""
    layout = entry["layout"]
    degrees = ("data", "tensor", "pipeline", "context", "expert")
    parts = [f"micro-batch {figure(layout['micro_batch'])} x accumulation {layout['grad_accum']}"]
    parts += [f"{name} {layout[name]}" for name in degrees if layout[name] > 1]
    if layout["sharding"] not in ("none", "ddp"):
        parts.append(layout["sharding"])
    if layout["activation_checkpointing"] != "none":
        parts.append(f"{layout['activation_checkpointing']} checkpointing")
    return ", ".join(parts)


_COMMON = (
    Column("nodes x GPUs", _machines),
    Column("hours p50 (p10-p90)", lambda e: span(e["hours"], "hours"), right=True),
    Column("USD p50 (p10-p90)", lambda e: span(e["cost_usd"], "usd"), right=True),
    Column("$/h", lambda e: usd(e["price"]["usd_per_hour"]), right=True, spare=1),
    Column("GiB/GPU", _memory, spare=2),
    Column("bound by", lambda e: str(e["bound_by"]), spare=3),
)
_PLAN_COLUMNS = (
    Column("#", lambda e: f"{e['rank']}{'*' if e['pareto'] else ''}", right=False),
    Column("cloud", lambda e: str(e["cloud"])),
    Column("region", _place),
    Column("instance", lambda e: str(e["instance_type"])),
    Column("market", lambda e: str(e["market"])),
    *_COMMON,
    Column("evidence", _evidence, spare=4),
    Column("price age", _price_age, spare=6),
)
_ESTIMATE_COLUMNS = (
    *_COMMON[:1],
    Column("machine", lambda e: str(e.get("instance_type") or UNKNOWN), spare=5),
    Column("throughput", lambda e: f"{count(e['throughput']['value'])} {e['throughput']['unit']}", right=True),
    Column("step", lambda e: f"{figure(e['step_ms'])} ms", right=True),
    Column("MFU", lambda e: f"{e['mfu']:.0%}" if e["mfu"] is not None else UNKNOWN, right=True),
    *_COMMON[1:],
    Column("layout", _layout, spare=6),
    Column("evidence", _evidence, spare=4),
)


def plan_text(document: Row, how: str, here: Settings, *, explain: bool) -> str:
    """The whole answer to `plan` for people."""
    plans = document["plans"]
    parts = []
    if plans:
        parts.append(recommendation(plans[0], document["workload"]))
        parts.append(as_table(plans, (*_PLAN_COLUMNS, *_converted(plans), *_chances(plans)), how, here).rstrip("\n"))
        if any(entry["pareto"] for entry in plans):
            parts.append("* nothing is both faster and cheaper (Pareto)")
        parts.append(
            f"Layout of plan {plans[0]['rank']}: {_layout(plans[0])}\n"
            + hours_line(plans[0], f"Hours of plan {plans[0]['rank']}")
        )
        if explain:
            parts.append(derivation(plans[0]))
    else:
        parts.append(f"No plan satisfies the request; binding: {document['binding'] or 'unknown'}.")
        parts.append(_closest(document["closest"]))
        parts.append(_bullets("What would help", [flagged(hint) for hint in document["hints"]]))
    parts.append(_bullets("What more would buy", document["tradeoffs"]))
    parts.append(_policies(document))
    parts.append(remarks(document, plans))
    if document["rejected"]:
        counted = ", ".join(f"{reason} {number:,}" for reason, number in document["rejected"].items())
        parts.append(f"Rejected: {counted}")
    return "\n\n".join(part for part in parts if part)


_POLICIES = {"wait": "wait for spot machines again", "on-demand": "on demand from the start"}


def _policies(document: Row) -> str:
    """What to do about interruptions of the best spot plan shown, cheapest in expectation first."""
    cases = sorted(document["policies"], key=lambda case: float(case["expected_cost_usd"]))
    if len(cases) < 2:
        return ""
    rank = next(entry["rank"] for entry in document["plans"] if entry["market"] == "spot")
    lines = []
    for case in cases:
        name = _POLICIES.get(case["policy"])
        if name is None:
            number = case["policy"].rpartition("-")[2]
            name = f"on demand after {number} interruption{'' if number == '1' else 's'}"
        chance = case["probability_deadline"]
        lines.append(
            f"{name}: ${usd(case['expected_cost_usd'])} expected, {hours(case['hours']['p50'])} "
            f"({hours(case['hours']['p10'])} to {hours(case['hours']['p90'])})"
            + ("" if chance is None else f", in time {_percent(chance)}")
        )
    return _bullets(f"When its spot machines are taken (plan {rank})", lines)


def _converted(entries: list[Any]) -> tuple[Column, ...]:
    """The dollars in the currency asked for, and the format where there was a choice."""
    columns: list[Column] = []
    money = next((entry["converted"] for entry in entries if entry.get("converted")), None)
    if money is not None:
        title = f"{money['currency']} p50 (p10-p90)"
        columns.append(Column(title, lambda e: span((e["converted"] or {}).get("cost"), "usd"), right=True))
    if len({entry.get("precision") for entry in entries}) > 1:
        columns.append(Column("format", lambda e: str(e["precision"])))
    return tuple(columns)


def _chances(plans: list[Any]) -> tuple[Column, ...]:
    """How likely the limits hold, where the request has any."""
    titles = {"probability_deadline": "in time", "probability_budget": "in budget"}
    return tuple(
        Column(title, lambda e, key=key: _percent(e["risk"][key]), right=True, spare=5)  # type: ignore[misc]
        for key, title in titles.items()
        if any(entry["risk"][key] is not None for entry in plans)
    )


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def estimate_text(document: Row, how: str, here: Settings, *, explain: bool) -> str:
    """The whole answer to `estimate` for people."""
    entries = document["estimates"]
    parts = []
    if entries:
        if len(entries) > 1:
            parts.append(_comparison(entries))
        parts.append(as_table(entries, (*_ESTIMATE_COLUMNS, *_converted(entries)), how, here).rstrip("\n"))
        if len(entries) == 1:
            parts.append(hours_line(entries[0], "Its hours"))
        if explain:
            parts += [derivation(entry) for entry in entries]
    parts.append(_bullets("Not possible", [f"{name}: {reason}" for name, reason in document["rejected"].items()]))
    for name, nearest in document["closest"].items():
        parts.append(f"{printable(name)}, {_closest(nearest)}")
    parts.append(_bullets("What would help", [flagged(hint) for hint in document["hints"]]))
    parts.append(remarks(document, entries))
    return "\n\n".join(part for part in parts if part)


def solve_text(document: Row, how: str, here: Settings) -> str:
    """The whole answer to `plan --solve-for` for people."""
    entry, value = document["plan"], document["value"]
    if entry is None or value is None:
        return f"Nothing satisfies the limits; binding: {document['binding'] or 'unknown'}."
    said = {
        "tokens": f"Most data: {count(value)} {document['unit']}",
        "deadline": f"Least time: {hours(value)}",
        "budget": f"Least cost: ${usd(value)}",
        "gpus": f"Fewest GPUs: {figure(value)}",
        "context": f"Longest sequence: {count(value)} tokens",
        "model": f"Largest model: {document['model']}, {count(value * 1e6)} parameters",
    }[document["solve_for"]]
    table = as_table([entry], (*_PLAN_COLUMNS, *_converted([entry]), *_chances([entry])), how, here).rstrip("\n")
    why = [f"{document['binding']}: {text}" if document["binding"] else text for text in document["hints"]]
    stops = _bullets("Why no more", why)
    warnings = _bullets("Warnings", list(entry["warnings"]))
    return "\n\n".join(part for part in (said, table, stops, warnings) if part)


def recommendation(entry: Row, workload: Row) -> str:
    """The best plan in one sentence."""
    sort = (workload.get("options") or {}).get("sort") or "cost"
    best = {"cost": "Cheapest", "expected": "Least expected cost", "time": "Fastest", "value": "Best value"}.get(
        str(sort), "Best"
    )
    cost = entry["cost_usd"]
    price = f" and ${usd(cost['p50'])} ({usd(cost['p10'])} to {usd(cost['p90'])})" if cost else ""
    money = entry.get("converted")
    if money and money["cost"]:
        price += f" = {money['currency']} {usd(money['cost']['p50'])} at {money['per_usd']:g}"
    used, capacity = entry["memory_gib"]["used"], entry["memory_gib"]["capacity"]
    fits = {
        "yes": "it fits",
        "tight": "memory is tight",
        "no": "it does not fit",
        "unknown": "whether it fits is unknown",
    }[entry["memory_gib"]["verdict"]]
    chance = entry["memory_gib"]["probability"]
    sure = "" if chance is None or chance > 0.99 else f", {_percent(chance)} sure to fit"
    memory = "" if fits.endswith("unknown") else f" ({figure(used)} of {figure(capacity)} GiB a GPU{sure})"
    risk = entry["risk"]
    held = [
        f"{words} in {'over 99%' if risk[key] > 0.99 else _percent(risk[key])}"
        for key, words in (("probability_deadline", "in time"), ("probability_budget", "within the budget"))
        if risk[key] is not None
    ]
    limits = f"; {' and '.join(held)} of cases" if held else ""
    where = "of your own" if entry["cloud"] == "own" else f"on {entry['cloud']} {_place(entry)}, {entry['market']}"
    return printable(
        f"{best}: {entry['nodes']} x {entry['instance_type']} ({figure(entry['gpus'])} x {entry['gpu']}) "
        f"{where}: {hours(entry['hours']['p50'])} "
        f"({hours(entry['hours']['p10'])} to {hours(entry['hours']['p90'])}){price}; {fits}{memory}, "
        f"bound by {entry['bound_by']}{limits}."
    )


_START_UP = ("start_up", "provisioning", "image_pull", "warm_up", "staging")


def hours_line(entry: Row, title: str) -> str:
    """What the median hours of an entry are made of, the longest part first; parts below 0.05% are left out.

    >>> hours_line({"hours": {"p50": 4.0}, "hours_parts": {"training": 3.9, "warm_up": 0.1}}, "Hours")
    'Hours: training 3.9, start-up 0.1 (each can be stated or turned off: run in the request)'
    """
    parts = dict(entry["hours_parts"])
    total = entry["hours"]["p50"]
    started = sum(parts.pop(name, 0.0) for name in _START_UP)
    if started:
        parts["start-up"] = started
    if "spread" in parts:
        parts["late ends"] = parts.pop("spread")
    shown = [(name, part) for name, part in parts.items() if part >= 5e-4 * total]
    said = ", ".join(f"{name} {figure(part)}" for name, part in sorted(shown, key=lambda part: -part[1]))
    return f"{title}: {said} (each can be stated or turned off: run in the request)" if len(shown) > 1 else ""


def _comparison(entries: list[Any]) -> str:
    fastest = min(entries, key=lambda e: e["hours"]["p50"])
    least = fastest["hours"]["p50"]
    others = [
        f"{_called(entry)} takes {entry['hours']['p50'] / least:.2f} x as long"
        for entry in entries
        if entry is not fastest
    ]
    return printable(f"Fastest: {_called(fastest)}; {', '.join(others)}.")


def _called(entry: Row) -> str:
    """The GPUs of an entry; of an own machine with its name, as two of them may have the same."""
    gpus = f"{figure(entry['gpus'])} x {entry['gpu']}"
    return f"{entry['instance_type']} ({gpus})" if entry.get("cloud") == "own" else gpus


def _closest(closest: Row | None) -> str:
    """The account of the machine that lacks least memory; nothing where memory is not what is missing."""
    if closest is None:
        return ""
    from estimator.documents import ClosestDocument
    from estimator.planning.explain import closest_lines

    return "\n".join(printable(line) for line in closest_lines(ClosestDocument.model_validate(closest)))


def derivation(entry: Row) -> str:
    """The lines that say how one entry came about."""
    title = (
        f"{entry['nodes']} x {entry.get('instance_type') or entry['gpu']} ({figure(entry['gpus'])} x {entry['gpu']})"
    )
    lines = [f"How this comes about: {title}", *entry["explanation"]]
    return "\n".join(printable(line) for line in lines)


def remarks(document: Row, entries: list[Any]) -> str:
    """What was assumed, and every warning once: of the whole answer, or with the ranks it concerns."""
    concerned: dict[str, list[str]] = {}
    for number, entry in enumerate(entries, start=1):
        for text in entry["warnings"]:
            concerned.setdefault(text, []).append(str(entry.get("rank", number)))
    warnings = list(document["warnings"])
    for text, ranks in concerned.items():
        if text in warnings:
            continue
        of = "" if len(ranks) == len(entries) else f" ({_ranks(ranks)})"
        warnings.append(text + of)
    parts = [_bullets("Assumed", document["assumptions"]), _bullets("Warnings", warnings)]
    return "\n".join(part for part in parts if part)


def _ranks(ranks: list[str]) -> str:
    shown = ", ".join(ranks[:8])
    return f"plan {shown}" if len(ranks) == 1 else f"plans {shown}" + (", ..." if len(ranks) > 8 else "")


_LIMIT = re.compile(r"constraints\.(?!quotas)(\w+): ([^\s,;:]+)")
_SINGULAR = ("gpus", "clouds", "regions", "zones", "instance_types", "markets")


def flagged(hint: str) -> str:
    """The hint with the flag that follows it, where it says what a limit should be.

    >>> flagged("constraints.budget: 1.56 would do: the cheapest plan costs $1.55")
    'constraints.budget: 1.56 would do: the cheapest plan costs $1.55 (--budget 1.56)'
    """
    found = _LIMIT.search(hint)
    if found is None:
        return hint
    name = found[1].removesuffix("s") if found[1] in _SINGULAR else found[1]
    return f"{hint} (--{name.replace('_', '-')} {found[2]})"


def _bullets(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    return "\n".join([f"{title}:", *(f"  - {printable(line)}" for line in lines)])
