"""How does a plan or an estimate read: one sentence, a table, what was assumed, and the derivation when asked?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.cli.numbers import UNKNOWN, age, count, figure, hours, span, usd
from estimator.cli.output import Column, Row, as_table, printable
from estimator.cli.settings import Settings

_ESTIMATE_KEYS = (
    "gpu", "gpus", "nodes", "micro_batch", "grad_accum", "data", "tensor", "pipeline", "context", "expert", "sharding",
    "activation_checkpointing", "throughput", "throughput_unit", "step_ms", "steps", "mfu", "hfu", "bound_by",
    "hours_p10", "hours_p50", "hours_p90", "gpu_hours", "cost_usd_p10", "cost_usd_p50", "cost_usd_p90", "usd_per_hour",
    "usd_per_hour_instance", "price_source", "price_observed_at", "price_age_hours", "price_state", "memory_gib_used",
    "memory_gib_capacity", "fits", "evidence", "evidence_measurements", "warnings",
)  # fmt: skip
ESTIMATE_CSV = _ESTIMATE_KEYS
PLAN_CSV = ("rank", "cloud", "region", "zone", "instance_type", "market", *_ESTIMATE_KEYS, "pareto")


def flat_entry(entry: Row) -> dict[str, Any]:
    """One plan or estimate as a flat row; units are in the names."""
    layout, memory, price = entry["layout"], entry["memory_gib"], entry["price"]
    cost = entry["cost_usd"] or {}
    plain = ("rank", "cloud", "region", "zone", "instance_type", "market", "gpu", "gpus", "nodes", "step_ms", "steps",
             "mfu", "hfu", "bound_by", "gpu_hours", "pareto", "warnings")  # fmt: skip
    return {
        **{key: entry.get(key) for key in plain},
        **layout,
        "throughput": entry["throughput"]["value"],
        "throughput_unit": entry["throughput"]["unit"],
        **{f"hours_{q}": entry["hours"][q] for q in ("p10", "p50", "p90")},
        **{f"cost_usd_{q}": cost.get(q) for q in ("p10", "p50", "p90")},
        "usd_per_hour": price["usd_per_hour"],
        "usd_per_hour_instance": price["usd_per_hour_instance"],
        "price_source": price["source"],
        "price_observed_at": price["observed_at"],
        "price_age_hours": price["age_hours"],
        "price_state": price["state"],
        "memory_gib_used": memory["used"],
        "memory_gib_capacity": memory["capacity"],
        "fits": memory["verdict"],
        "evidence": entry["evidence"]["kind"],
        "evidence_measurements": len(entry["evidence"]["measurements"]),
    }


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


_COMMON = (
    Column("nodes x GPUs", _machines),
    Column("hours p50 (p10-p90)", lambda e: span(e["hours"], "hours"), right=True),
    Column("USD p50 (p10-p90)", lambda e: span(e["cost_usd"], "usd"), right=True),
    Column("$/h", lambda e: usd(e["price"]["usd_per_hour"]), right=True),
    Column("GiB/GPU", _memory),
    Column("bound by", lambda e: str(e["bound_by"])),
)
_PLAN_COLUMNS = (
    Column("#", lambda e: f"{e['rank']}{'*' if e['pareto'] else ''}", right=False),
    Column("cloud", lambda e: str(e["cloud"])),
    Column("region", _place),
    Column("instance", lambda e: str(e["instance_type"])),
    Column("market", lambda e: str(e["market"])),
    *_COMMON,
    Column("evidence", _evidence),
    Column("price age", _price_age),
)
_ESTIMATE_COLUMNS = (
    *_COMMON[:1],
    Column("throughput", lambda e: f"{count(e['throughput']['value'])} {e['throughput']['unit']}", right=True),
    Column("step", lambda e: f"{figure(e['step_ms'])} ms", right=True),
    Column("MFU", lambda e: f"{e['mfu']:.0%}" if e["mfu"] is not None else UNKNOWN, right=True),
    *_COMMON[1:],
    Column("evidence", _evidence),
)


def plan_text(document: Row, how: str, here: Settings, *, explain: bool) -> str:
    """The whole answer to `plan` for people."""
    plans = document["plans"]
    parts = []
    if plans:
        parts.append(recommendation(plans[0], document["workload"]))
        parts.append(as_table(plans, _PLAN_COLUMNS, how, here).rstrip("\n"))
        if any(entry["pareto"] for entry in plans):
            parts.append("* nothing is both faster and cheaper (Pareto)")
        if explain:
            parts.append(derivation(plans[0], document))
    else:
        parts.append(f"No plan satisfies the request; binding: {document['binding'] or 'unknown'}.")
        parts.append(_bullets("What would help", document["hints"]))
    parts.append(_remarks(document, plans))
    if document["rejected"]:
        counted = ", ".join(f"{reason} {number:,}" for reason, number in document["rejected"].items())
        parts.append(f"Rejected: {counted}")
    return "\n\n".join(part for part in parts if part)


def estimate_text(document: Row, how: str, here: Settings, *, explain: bool) -> str:
    """The whole answer to `estimate` for people."""
    entries = document["estimates"]
    parts = []
    if entries:
        if len(entries) > 1:
            parts.append(_comparison(entries))
        parts.append(as_table(entries, _ESTIMATE_COLUMNS, how, here).rstrip("\n"))
        if explain:
            parts += [derivation(entry, document) for entry in entries]
    parts.append(_bullets("Not possible", [f"{name}: {reason}" for name, reason in document["rejected"].items()]))
    parts.append(_bullets("What would help", document["hints"]) if not entries else "")
    parts.append(_remarks(document, entries))
    return "\n\n".join(part for part in parts if part)


def recommendation(entry: Row, workload: Row) -> str:
    """The best plan in one sentence."""
    sort = (workload.get("options") or {}).get("sort") or "cost"
    best = {"cost": "Cheapest", "time": "Fastest", "value": "Best value"}.get(str(sort), "Best")
    cost = entry["cost_usd"]
    price = f" and ${usd(cost['p50'])} ({usd(cost['p10'])} to {usd(cost['p90'])})" if cost else ""
    fits = {
        "yes": "it fits",
        "tight": "memory is tight",
        "no": "it does not fit",
        "unknown": "whether it fits is unknown",
    }[entry["memory_gib"]["verdict"]]
    return printable(
        f"{best}: {entry['nodes']} x {entry['instance_type']} ({figure(entry['gpus'])} x {entry['gpu']}) on "
        f"{entry['cloud']} {_place(entry)}, {entry['market']}: {hours(entry['hours']['p50'])} "
        f"({hours(entry['hours']['p10'])} to {hours(entry['hours']['p90'])}){price}; {fits} "
        f"({figure(entry['memory_gib']['used'])} of {figure(entry['memory_gib']['capacity'])} GiB a GPU), "
        f"bound by {entry['bound_by']}."
    )


def _comparison(entries: list[Any]) -> str:
    fastest = min(entries, key=lambda e: e["hours"]["p50"])
    others = [
        f"{entry['hours']['p50'] / fastest['hours']['p50']:.2f} x the time on {figure(entry['gpus'])} x {entry['gpu']}"
        for entry in entries
        if entry is not fastest
    ]
    return printable(f"Fastest: {figure(fastest['gpus'])} x {fastest['gpu']}; {', '.join(others)}.")


def _remarks(document: Row, entries: list[Any]) -> str:
    own: list[str] = []
    for entry in entries[:1]:
        own += [text for text in entry["warnings"] if text not in document["warnings"]]
    parts = [_bullets("Assumed", document["assumptions"]), _bullets("Warnings", [*document["warnings"], *own])]
    return "\n".join(part for part in parts if part)


def _bullets(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    return "\n".join([f"{title}:", *(f"  - {printable(line)}" for line in lines)])


# --- derivation --------------------------------------------------------------------------------------------------


def derivation(entry: Row, document: Row) -> str:
    """Every number of one entry from its parts: layout, step, memory, run, dollars, evidence."""
    title = (
        f"{entry['nodes']} x {entry.get('instance_type') or entry['gpu']} ({figure(entry['gpus'])} x {entry['gpu']})"
    )
    lines = [f"How this comes about: {printable(title)}", ""]
    lines += _layout_lines(entry)
    lines += _step_lines(entry)
    lines += _memory_lines(entry)
    lines += _run_lines(entry)
    lines += _price_lines(entry)
    lines += _evidence_lines(entry)
    return "\n".join(lines)


def _layout_lines(entry: Row) -> list[str]:
    layout = entry["layout"]
    batch = layout["micro_batch"] * layout["grad_accum"] * layout["data"]
    return [
        f"Layout: {figure(entry['gpus'])} GPUs = data {layout['data']} x tensor {layout['tensor']} x pipeline "
        f"{layout['pipeline']} x context {layout['context']}; expert {layout['expert']}; "
        f"sharding {layout['sharding']}; activation checkpointing {layout['activation_checkpointing']}",
        f"  global batch {figure(batch, 6)} = micro-batch {figure(layout['micro_batch'], 6)} x accumulation "
        f"{layout['grad_accum']} x data {layout['data']}",
    ]


def _step_lines(entry: Row) -> list[str]:
    return [
        f"Step: {figure(entry['step_ms'], 4)} ms, bound by {entry['bound_by']}",
        *_shares(entry["breakdown_ms"], "ms"),
        f"  throughput {figure(entry['throughput']['value'], 4)} {entry['throughput']['unit']} of the whole job"
        + (f"; MFU {entry['mfu']:.1%}" if entry["mfu"] is not None else "")
        + (f", HFU {entry['hfu']:.1%}" if entry.get("hfu") is not None else ""),
    ]


def _memory_lines(entry: Row) -> list[str]:
    memory = entry["memory_gib"]
    return [
        f"Memory: {figure(memory['used'], 4)} of {figure(memory['capacity'], 4)} GiB a GPU, fits: {memory['verdict']}",
        *_shares(memory["parts"], "GiB"),
    ]


def _run_lines(entry: Row) -> list[str]:
    pure = entry["steps"] * entry["step_ms"] / 3.6e6
    spread = entry["hours"]
    return [
        f"Run: {entry['steps']:,} steps x {figure(entry['step_ms'], 4)} ms = {figure(pure, 4)} h of training; "
        f"{figure(spread['p50'], 4)} h in all (80% between {figure(spread['p10'], 4)} and {figure(spread['p90'], 4)})",
        *_shares(entry["hours_parts"], "h"),
        f"  {figure(entry['gpu_hours'], 4)} GPU-hours",
    ]


def _price_lines(entry: Row) -> list[str]:
    price, cost = entry["price"], entry["cost_usd"]
    if cost is None or price["usd_per_hour"] is None:
        return ["Cost: no price is known"]
    observed = str(price["observed_at"] or "no date")
    return [
        f"Cost: ${usd(cost['p50'])} (80% between ${usd(cost['p10'])} and ${usd(cost['p90'])}) at "
        f"${usd(price['usd_per_hour'])}/h = {entry['nodes']} x ${usd(price['usd_per_hour_instance'])}/h",
        f"  price from {printable(str(price['source'] or UNKNOWN))}, observed {observed}, {_price_age(entry)}",
    ]


def _evidence_lines(entry: Row) -> list[str]:
    evidence = entry["evidence"]
    lines = [
        f"Evidence: {evidence['kind']}"
        + (f"; {printable(evidence['summary'])}" if evidence["summary"] else "")
        + (f"; measurements ask for a factor of {evidence['correction']:.3g}" if evidence["correction"] != 1 else "")
    ]
    for used in evidence["measurements"]:
        where = f"{figure(used['gpus'])} x {used['gpu']}" if used["gpus"] else used["gpu"]
        measured = f"{figure(used['throughput'], 4)} {used['unit'] or ''}".strip() if used["throughput"] else ""
        parts = [used["model"], where, used["precision"], measured, used["date"], used["source"]]
        lines.append(f"  {printable(', '.join(str(part) for part in parts if part))} (distance {used['distance']:.2g})")
    return lines


def _shares(parts: Mapping[str, float], unit: str) -> list[str]:
    total = sum(parts.values())
    return [
        f"  {name.replace('_', ' '):<24}{figure(value, 4):>10} {unit}"
        + (f"  {value / total:5.1%}" if total > 0 else "")
        for name, value in parts.items()
        if value
    ]
