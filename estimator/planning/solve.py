"""How many tokens, how little time or money, how few GPUs: the question turned round, within a request's limits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

from benchmarks_db.errors import WorkloadError
from estimator.documents import PlanDocument, PlanEntry, SolveDocument
from estimator.planning.evidence import Measured
from estimator.planning.planner import plan
from estimator.request.fields import MAX_TOKENS, Sort
from estimator.request.sections import Constraints
from estimator.request.workload import Workload
from pricing.offers import OfferTable, current_offers
from pricing.spot_history import SpotHistory

TOLERANCE = 2e-3  # of the answer
MOST_STEPS = 24


class SolveFor(StrEnum):
    """What is looked for."""

    TOKENS = "tokens"  # most data (tokens or samples) within deadline and budget
    DEADLINE = "deadline"  # least hours within the budget
    BUDGET = "budget"  # least dollars within the deadline
    GPUS = "gpus"  # fewest GPUs within deadline and budget


def solve(
    workload: Workload,
    what: SolveFor,
    *,
    offers: OfferTable | None = None,
    now: datetime | None = None,
    measured: Measured = (),
    history: SpotHistory | None = None,
) -> SolveDocument:
    """Answer an inverse question; limits of the request that are not asked for stay in force.

    Raises WorkloadError when the limits leave the answer without bound (most tokens without deadline or budget).
    """
    moment = now or datetime.now(UTC)
    market = offers if offers is not None else current_offers(now=moment)

    def planned(changed: Workload) -> PlanDocument:
        return plan(changed, offers=market, now=moment, measured=measured, history=history)

    if what is SolveFor.TOKENS:
        return _most_data(workload, planned)
    if what is SolveFor.DEADLINE:
        found = planned(_asking(workload, Sort.TIME, deadline=None))
        return _answer(what, found, "hours", lambda best: best.hours.p50)
    if what is SolveFor.BUDGET:
        found = planned(_asking(workload, Sort.COST, budget=None))
        return _answer(what, found, "USD", lambda best: best.cost_usd.p50 if best.cost_usd else 0.0)
    found = planned(_asking(workload, Sort.GPUS))
    return _answer(what, found, "GPUs", lambda best: best.gpus)


def _asking(workload: Workload, sort: Sort, *, top: int = 1, **limits: object) -> Workload:
    """The request with another order and some of its limits changed."""
    return workload.model_copy(
        update={
            "constraints": workload.constraints.model_copy(update=limits),
            "options": workload.options.model_copy(update={"sort": sort, "top": top}),
        }
    )


def _answer(what: SolveFor, found: PlanDocument, unit: str, value: Callable[[PlanEntry], float]) -> SolveDocument:
    best = found.plans[0] if found.plans else None
    return SolveDocument(
        solve_for=what.value,
        value=None if best is None else value(best),
        unit=unit,
        plan=best,
        binding=found.binding,
        hints=found.hints,
    )


def _most_data(workload: Workload, planned: Callable[[Workload], PlanDocument]) -> SolveDocument:
    """The most tokens (or samples) that one plan trains within the limits.

    Hours and dollars grow almost in proportion to the data, so each plan's front tells how much more would still fit;
    following it converges in a few plans. Where a step goes too far, the ratio to the last good amount is halved; from
    a first amount that is too large it goes down by 16.
    """
    limits = workload.constraints
    if limits.deadline is None and limits.budget is None:
        raise WorkloadError(
            "the most data needs a deadline or a budget", field="constraints", nearest=("deadline", "budget")
        )
    key = next((k for k in ("samples", "images") if getattr(workload, k) is not None), "tokens")
    amount, low, high = float(getattr(workload, key) or 1e9), 0.0, float("inf")
    best: PlanDocument | None = None
    last: PlanDocument | None = None
    for _ in range(MOST_STEPS):
        last = planned(_asking(workload.model_copy(update={key: amount}), Sort.COST))
        if last.plans:
            low, best = amount, last
            wanted = min(amount * _room(last, limits), MAX_TOKENS)
            if wanted < low * (1.0 + TOLERANCE):
                break
        else:
            high = amount
            wanted = amount / 16.0 if best is None else high
        if high < low * (1.0 + TOLERANCE):
            break
        amount = wanted if low < wanted < high else (low * high) ** 0.5
        if amount < 1.0:
            break
    if best is None:
        return SolveDocument(
            solve_for=SolveFor.TOKENS.value,
            value=None,
            unit=key,
            plan=None,
            binding=last.binding if last else None,
            hints=last.hints if last else [],
        )
    return SolveDocument(solve_for=SolveFor.TOKENS.value, value=low, unit=key, plan=best.plans[0])


def _room(found: PlanDocument, limits: Constraints) -> float:
    """How many times the data the best point of the front could train, were hours and dollars in proportion to it."""
    deadline, budget = limits.deadline or float("inf"), limits.budget or float("inf")
    rooms = (min(deadline / p.hours, budget / p.cost_usd if p.cost_usd > 0 else float("inf")) for p in found.frontier)
    return min(max(rooms, default=1.0), 1e6)
