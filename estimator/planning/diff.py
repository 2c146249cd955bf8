"""What changed between two plans: hours, dollars, memory, machine, and which keys of the request are the reason?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Document = Mapping[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(_Part):
    """One figure on both sides; `percent` is None where there is no figure to compare with."""

    before: float | None
    after: float | None
    change: float | None
    percent: float | None


class DiffDocument(_Part):
    """The difference between the best plans of two documents."""

    version: Literal["1"] = "1"
    currency: Literal["USD"] = "USD"
    hours: Change
    cost_usd: Change
    gpu_hours: Change
    memory_gib: Change = Field(description="per GPU")
    fits_before: str | None
    fits_after: str | None
    machine_before: str | None
    machine_after: str | None
    reasons: list[str] = Field(description="keys of the request that differ, then what differs in the plan")
    exceeded: list[str] = Field(default_factory=list, description="figures that grew by more than was allowed")


# Keys of the echoed request that say the same thing twice or only name it.
_DERIVED = frozenset({"name", "steps", "samples_total", "tokens_total", "params_m", "options"})
_LAYOUT = ("micro_batch", "grad_accum", "data", "tensor", "pipeline", "context", "expert", "sharding")


def difference(before: Document, after: Document, *, max_increase: float | None = None) -> DiffDocument:
    """Compare the best plans of two plan documents (their JSON); `max_increase` is a share, 0.1 for 10%.

    A side without a feasible plan has None for its figures; to lose feasibility always exceeds.
    """
    one, two = _best(before), _best(after)
    hours = _change(_middle(one, "hours"), _middle(two, "hours"))
    cost = _change(_middle(one, "cost_usd"), _middle(two, "cost_usd"))
    exceeded = []
    if one is not None and two is None:
        exceeded.append("feasible")
    if max_increase is not None:
        for name, change in (("hours", hours), ("cost_usd", cost)):
            if change.percent is not None and change.percent > 100 * max_increase + 1e-9:
                exceeded.append(name)
    return DiffDocument(
        hours=hours,
        cost_usd=cost,
        gpu_hours=_change(_of(one, "gpu_hours"), _of(two, "gpu_hours")),
        memory_gib=_change(_of(one, "memory_gib", "used"), _of(two, "memory_gib", "used")),
        fits_before=_of(one, "memory_gib", "verdict"),
        fits_after=_of(two, "memory_gib", "verdict"),
        machine_before=None if one is None else machine(one),
        machine_after=None if two is None else machine(two),
        reasons=[*_request_changes(before, after), *_plan_changes(one, two, before, after)],
        exceeded=exceeded,
    )


def machine(plan: Document) -> str:
    """What a plan rents, in words."""
    place = plan.get("zone") or plan.get("region") or ""
    return (
        f"{plan['nodes']} x {plan['instance_type']} ({plan['gpus']:g} x {plan['gpu']}), {plan['cloud']} {place}".strip()
    )


def _best(document: Document) -> Document | None:
    plans = document.get("plans") or []
    return plans[0] if plans else None


def _of(plan: Document | None, *path: str) -> Any:
    value: Any = plan
    for key in path:
        value = None if value is None else value[key]
    return value


def _middle(plan: Document | None, key: str) -> float | None:
    return None if plan is None or plan[key] is None else float(plan[key]["p50"])


def _change(before: float | None, after: float | None) -> Change:
    if before is None or after is None:
        return Change(before=before, after=after, change=None, percent=None)
    percent = None if before == 0 else 100.0 * (after - before) / before
    return Change(before=before, after=after, change=after - before, percent=percent)


def _request_changes(before: Document, after: Document) -> list[str]:
    one, two = _flat(before.get("workload") or {}), _flat(after.get("workload") or {})
    keys = [key for key in dict.fromkeys((*one, *two)) if key.partition(".")[0] not in _DERIVED]
    return [f"{key}: {_said(one.get(key))} -> {_said(two.get(key))}" for key in keys if one.get(key) != two.get(key)]


def _plan_changes(one: Document | None, two: Document | None, before: Document, after: Document) -> list[str]:
    lines = []
    for name, plan, document in (("before", one, before), ("after", two, after)):
        if plan is None:
            lines.append(f"{name}: no plan satisfies the request (binding: {document.get('binding') or 'unknown'})")
    if one is None or two is None:
        return lines
    if machine(one) != machine(two):
        lines.append(f"machine: {machine(one)} -> {machine(two)}")
    lines += [
        f"layout.{key}: {_said(one['layout'][key])} -> {_said(two['layout'][key])}"
        for key in _LAYOUT
        if one["layout"][key] != two["layout"][key]
    ]
    if one["steps"] != two["steps"]:
        lines.append(f"optimizer steps: {one['steps']:,} -> {two['steps']:,}")
    if one["bound_by"] != two["bound_by"]:
        lines.append(f"bound by: {one['bound_by']} -> {two['bound_by']}")
    return lines


def _flat(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{within}{key}"
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _said(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | int):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.4g}"
    return str(value)
