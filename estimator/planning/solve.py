"""How many tokens, how little time or money, how few GPUs: the question turned round, within a request's limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import models
from estimator.documents import PlanDocument, PlanEntry, SolveDocument
from estimator.job import facts_of
from estimator.planning.evidence import Measured
from estimator.planning.planner import moment_of, plan
from estimator.planning.step_times import StepTimes
from estimator.request.fields import MAX_TOKENS, Sort
from estimator.request.sections import Constraints
from estimator.request.training import is_language
from estimator.request.workload import Workload
from pricing.offers import OfferTable, current_offers
from pricing.spot_history import SpotHistory

TOLERANCE = 2e-3  # of the answer
DECODER, MOE = "decoder", "moe"
MOST_STEPS = 24


class SolveFor(StrEnum):
    """What is looked for."""

    TOKENS = "tokens"  # most data (tokens or samples) within deadline and budget
    DEADLINE = "deadline"  # least hours within the budget
    BUDGET = "budget"  # least dollars within the deadline
    GPUS = "gpus"  # fewest GPUs within deadline and budget
    CONTEXT = "context"  # longest sequence within the limits, for the same tokens
    MODEL = "model"  # largest known model of the same kind within the limits, for the same data


def solve(
    workload: Workload,
    what: SolveFor,
    *,
    offers: OfferTable | None = None,
    now: datetime | None = None,
    measured: Measured = (),
    history: SpotHistory | None = None,
    step_times: StepTimes | None = None,
) -> SolveDocument:
    """Answer an inverse question; limits of the request that are not asked for stay in force.

    Raises WorkloadError when the limits leave the answer without bound (most tokens without deadline or budget).
    """
    moment = moment_of(now)
    market = offers if offers is not None else current_offers(now=moment)
    known = step_times or StepTimes()  # most of the plans differ in what no step depends on

    def planned(changed: Workload) -> PlanDocument:
        return plan(changed, offers=market, now=moment, measured=measured, history=history, step_times=known)

    if what is SolveFor.TOKENS:
        return _most_data(workload, planned)
    if what is SolveFor.DEADLINE:
        found = planned(_asking(workload, Sort.TIME, deadline=None))
        return _answer(what, found, "hours", lambda best: best.hours.p50)
    if what is SolveFor.BUDGET:
        found = planned(_asking(workload, Sort.COST, budget=None))
        return _answer(what, found, "USD", lambda best: best.cost_usd.p50 if best.cost_usd else None)
    if what is SolveFor.CONTEXT:
        return _longest_sequence(workload, planned)
    if what is SolveFor.MODEL:
        return _largest_model(workload, planned)
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


def _answer(
    what: SolveFor, found: PlanDocument, unit: str, value: Callable[[PlanEntry], float | None]
) -> SolveDocument:
    best = found.plans[0] if found.plans else None
    return SolveDocument(
        solve_for=what.value,
        value=None if best is None else value(best),
        unit=unit,
        plan=best,
        binding=found.binding,
        hints=found.hints,
    )


SEQUENCE_STEP = 128  # sequences are rounded down to a multiple of it
LONGEST = 2**20


def _longest_sequence(workload: Workload, planned: Callable[[Workload], PlanDocument]) -> SolveDocument:
    """The longest sequence that some plan trains within the limits, up to what the model was made for."""
    facts, _, _ = facts_of(workload)
    if not is_language(workload, facts):
        raise WorkloadError("only language models have a sequence", field="--solve-for", nearest=("tokens", "model"))
    most = max(1, int(facts.max_seq_len or LONGEST) // SEQUENCE_STEP)

    def within(steps: int) -> PlanDocument:
        return planned(_asking(workload.model_copy(update={"seq_len": steps * SEQUENCE_STEP}), Sort.COST))

    found = _last_feasible(most, within)
    if found.best is None:
        return _none(SolveFor.CONTEXT, "tokens a sequence", found.refused)
    answer = _answer(SolveFor.CONTEXT, found.best, "tokens a sequence", lambda _: float(found.at * SEQUENCE_STEP))
    return answer.model_copy(update=_what_stops(found, "the model is made for no longer sequence"))


def _largest_model(workload: Workload, planned: Callable[[Workload], PlanDocument]) -> SolveDocument:
    """The largest model of the tables, of the kind of the one asked about, that some plan trains within the limits."""
    facts, _, _ = facts_of(workload)
    alike = {DECODER, MOE} if facts.kind in (DECODER, MOE) else {facts.kind}
    known = sorted(
        (m for m in models().values() if m.kind in alike and m.params_m), key=lambda m: (m.params_m or 0.0, m.name)
    )
    if not known:
        raise WorkloadError(
            "no table has models of that kind", field="--solve-for", value=facts.name, nearest=("tokens", "budget")
        )
    bare = {"architecture": None, "hf_config": None, "custom": None}

    def within(place: int) -> PlanDocument:
        try:
            return planned(_asking(workload.model_copy(update={**bare, "model": known[place - 1].name}), Sort.COST))
        except WorkloadError as error:  # a sequence longer than that model takes, for one
            return PlanDocument(workload={}, plans=[], binding=error.field, hints=[str(error)])

    found = _last_feasible(len(known), within)
    if found.best is None:
        return _none(SolveFor.MODEL, "million parameters", found.refused)
    model = known[found.at - 1]
    answer = _answer(SolveFor.MODEL, found.best, "million parameters", lambda _: float(model.params_m or 0.0))
    return answer.model_copy(update={"model": model.name} | _what_stops(found, "it is the largest that is known"))


@dataclass(frozen=True, slots=True)
class _Search:
    """Where a bisection ended: the last place with a plan, that plan, and what stopped the next one."""

    at: int
    best: PlanDocument | None
    refused: PlanDocument | None


def _last_feasible(most: int, within: Callable[[int], PlanDocument]) -> _Search:
    """The greatest of 1..most that has a plan, taking what is beyond one without a plan to have none either."""
    best: PlanDocument | None = None
    refused: PlanDocument | None = None
    low, high = 0, most + 1
    at = most
    while high - low > max(1, low * TOLERANCE * 8):
        found = within(at)
        if found.plans:
            low, best = at, found
        else:
            high, refused = at, found
        at = max(low + 1, min(high - 1, round((max(low, 1) * high) ** 0.5)))
    return _Search(low, best, refused)


def _what_stops(found: _Search, end: str) -> dict[str, object]:
    """Why it is not more: the limit that the next one breaks, or that there is no next one."""
    if found.refused is None:
        return {"hints": [end]}
    return {"binding": found.refused.binding, "hints": found.refused.hints}


def _none(what: SolveFor, unit: str, last: PlanDocument | None) -> SolveDocument:
    return SolveDocument(
        solve_for=what.value,
        value=None,
        unit=unit,
        plan=None,
        binding=last.binding if last else None,
        hints=last.hints if last else [],
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
        return _none(SolveFor.TOKENS, key, last)
    return SolveDocument(solve_for=SolveFor.TOKENS.value, value=low, unit=key, plan=best.plans[0])


def _room(found: PlanDocument, limits: Constraints) -> float:
    """How many times the data the best point of the front could train, were hours and dollars in proportion to it."""
    deadline, budget = limits.deadline or float("inf"), limits.budget or float("inf")
    rooms = (min(deadline / p.hours, budget / p.cost_usd if p.cost_usd > 0 else float("inf")) for p in found.frontier)
    return min(max(rooms, default=1.0), 1e6)
