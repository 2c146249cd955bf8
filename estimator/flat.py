"""Plans and estimates as flat rows: the columns of every CSV, sheet, data frame and sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIGURES = (
    "gpu", "gpus", "nodes", "micro_batch", "grad_accum", "data", "tensor", "pipeline", "context", "expert",
    "virtual_stages", "sharding", "activation_checkpointing", "throughput", "throughput_unit", "step_ms", "steps",
    "mfu", "hfu", "bound_by",
    "hours_p10", "hours_p50", "hours_p90", "gpu_hours", "cost_usd_p10", "cost_usd_p50", "cost_usd_p90", "usd_per_hour",
    "usd_per_hour_instance", "price_source", "price_observed_at", "price_age_hours", "price_state",
    "list_usd_per_hour", "term_hours", "break_even_hours", "upfront_usd", "currency", "currency_per_usd",
    "cost_converted_p10", "cost_converted_p50", "cost_converted_p90", "precision", "memory_gib_used",
    "memory_gib_low", "memory_gib_high", "memory_gib_capacity", "fits", "expected_interruptions",
    "probability_deadline", "probability_budget",
    "evidence", "evidence_measurements", "warnings",
)  # fmt: skip
_MACHINE = ("cloud", "region", "zone", "instance_type", "market")
ESTIMATE_CSV = (*_FIGURES, *_MACHINE)
PLAN_CSV = ("rank", *_MACHINE, *_FIGURES, "pareto")


def flat_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One plan or estimate as a flat row; units are in the names."""
    layout, memory, price = entry["layout"], entry["memory_gib"], entry["price"]
    cost = entry["cost_usd"] or {}
    money = entry["converted"] or {}
    plain = ("rank", "cloud", "region", "zone", "instance_type", "market", "gpu", "gpus", "nodes", "step_ms", "steps",
             "precision", "mfu", "hfu", "bound_by", "gpu_hours", "pareto", "warnings")  # fmt: skip
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
        **{key: price[key] for key in ("list_usd_per_hour", "term_hours", "break_even_hours", "upfront_usd")},
        "currency": money.get("currency"),
        "currency_per_usd": money.get("per_usd"),
        **{f"cost_converted_{q}": (money.get("cost") or {}).get(q) for q in ("p10", "p50", "p90")},
        "memory_gib_used": memory["used"],
        "memory_gib_low": memory["low"],
        "memory_gib_high": memory["high"],
        "memory_gib_capacity": memory["capacity"],
        "fits": memory["verdict"],
        **{key: entry["risk"][key] for key in ("expected_interruptions", "probability_deadline", "probability_budget")},
        "evidence": entry["evidence"]["kind"],
        "evidence_measurements": len(entry["evidence"]["measurements"]),
    }
