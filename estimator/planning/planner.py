"""Which offers train this, best first: every offer x node count x layout in one pass, ranked and Pareto-marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.errors import PricesUnavailable
from benchmarks_db.gpus import gpus as all_gpus
from benchmarks_db.gpus import resolve_gpu
from estimator.documents import FrontierPoint, Interval, MeasurementUsed, PlanDocument, PlanEntry, PolicyDocument
from estimator.job import Job, job_of
from estimator.planning.closest import closest
from estimator.planning.contenders import (
    BUDGET,
    DEADLINE,
    HOURLY,
    INTERRUPTIONS,
    contenders,
    hopeless,
    sorted_by,
    within,
)
from estimator.planning.evidence import Measured, measurements_near
from estimator.planning.explain import explained
from estimator.planning.formats import best_formats, formats_of
from estimator.planning.fronts import pareto_front
from estimator.planning.machines import Kinds
from estimator.planning.offered import GpuFilter, Offered, gpu_filter, offered
from estimator.planning.own_measurements import with_stated
from estimator.planning.present import echo, entry_of
from estimator.planning.repair import way_out
from estimator.planning.step_times import StepTimes
from estimator.planning.steps import Told, silently
from estimator.planning.tradeoffs import apart, roomier, steadier, tradeoffs_of
from estimator.planning.ways import Possible, Ways, alphabetical, ways_of
from estimator.request.fields import Accelerators, Sort
from estimator.request.run import SpotPolicy
from estimator.request.sections import Constraints
from estimator.request.workload import Workload
from estimator.risk.hazard import hazards_of
from estimator.risk.outcome import Outcome, checkpoint_interval, outcome_of, under_policies
from estimator.risk.price_path import constant
from estimator.risk.spot_spread import SpotSpread, spot_spread
from pricing.offers import Market, OfferTable, concatenate, current_offers
from pricing.sources.own import own_machine, own_table
from pricing.spot_history import SpotHistory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
WaysFrom = Callable[[Job, OfferTable, GpuFilter, Measured, Told, SpotSpread], Possible]


def plan(
    workload: Workload | Mapping[str, Any],
    *,
    offers: OfferTable | None = None,
    now: datetime | None = None,
    measured: Measured = (),
    told: Told = silently,
    ways_from: WaysFrom | None = None,
    history: SpotHistory | None = None,
    step_times: StepTimes | None = None,
) -> PlanDocument:
    """Rank every way to train `workload` on the market.

    `offers` is what can be rented (default: the shipped snapshot), `now` the moment that ages are counted to
    (default: the present; pass it for a reproducible document), `measured` rows of the user's own measurements (see
    `own_measurements.checked`), which weigh most. `told` hears each stage (see `steps.STAGES`) and may stop the work
    by raising. `ways_from` works out the ways; a sweep passes one that remembers them from cell to cell. `history` is
    how spot prices moved before (see `pricing.spot_history`); without it their spread and age widen the dollars.
    `step_times` remembers what does not depend on tokens, limits or prices, for whoever plans more than once. A request
    that nothing satisfies comes back with no plans, what was rejected by which reason, and the binding one.

    Raises WorkloadError for a request that cannot be understood, TypeError for what is none (see `Workload.of`),
    PricesUnavailable when no offer has a usable price.

    >>> from estimator import Workload, plan
    >>> plan(Workload(model="llama3-8b", method="lora", tokens="50M")).plans[0].rank
    1
    """
    workload, moment = Workload.of(workload), moment_of(now)
    if formats_of(workload):
        same = partial(plan, offers=offers, now=moment, measured=measured, told=told, history=history)
        return best_formats(workload, partial(same, ways_from=ways_from, step_times=step_times))
    job = job_of(workload)
    market = market_of(workload, offers, moment)
    own, disagreeing = with_stated(job, measured)
    gpus = gpu_filter(workload.constraints.gpus)
    open_offers = offered(market, workload.constraints, gpus)
    told("offers", len(open_offers.table), len(market))
    document = PlanDocument(
        workload=echo(job),
        plans=[],
        rejected=dict(open_offers.removed),
        assumptions=[str(assumption) for assumption in job.training.assumed],
        warnings=[*job.warnings, *disagreeing, *gpus.warnings, *market.warnings],
    )
    if open_offers.last is not None:
        limits = workload.constraints
        hints = [*_filter_hints(open_offers), *_accelerator_hints(workload, gpus), *_market_hints(open_offers, limits)]
        hints += _rented_hints(market, gpus)
        return document.model_copy(update={"binding": open_offers.last, "hints": hints})

    found = ways_from or partial(ways_of, history=history, step_times=step_times)
    possible = found(job, open_offers.table, gpus, own, told, spot_spread(market, moment))
    rejected = open_offers.removed + possible.refused
    if not len(possible) and len(possible.best.row):  # machines that could run it, more of them than may be had
        held = rejected + Counter({"quota": len(open_offers.table)})
        hints = [quota_hint(possible)]
        return document.model_copy(update={"rejected": dict(held), "binding": "quota", "hints": hints})
    if not len(possible):
        reason, machines = _binding_hardware(possible.refused), possible.fleet.hardware
        nearest = closest(job, machines) if reason == "memory" else None
        if reason in MEMORY_REASONS:
            why = {r for r in possible.refused if r in MEMORY_REASONS}
            hints = way_out(job, possible.kinds.hardware, machines, why)
        else:
            hints = _precision_hints(possible.kinds)
        return document.model_copy(
            update={"rejected": dict(rejected), "binding": reason, "hints": hints, "closest": nearest}
        )

    possible, overflowing = _without(possible, _overflowing(possible))
    told("chance", 0, len(possible))
    ways, beaten = contenders(possible, workload.constraints, workload.options)
    ways, endless = _without(ways, hopeless(ways.outcome))
    kept, dropped, binding, hint = _within_limits(ways, workload.constraints)
    gone = Counter({"memory": overflowing, INTERRUPTIONS: endless}) + dropped
    rejected = rejected + Counter({reason: gone[reason] + beaten[reason] for reason in REASONS})
    if binding is not None:
        return document.model_copy(update={"rejected": dict(rejected), "binding": binding, "hints": [hint]})
    everything, ways = ways, ways.select(kept)
    front = pareto_front(ways.hours, ways.cost)
    order = ranking(ways, workload.options.sort)
    tradeoffs = tradeoffs_of(everything, int(np.flatnonzero(kept)[order[0]]), workload.constraints)
    shown = shortlist(ways, order, workload.options.top)
    plans = []
    alike = measurements_near(job, ways.best, ways.found[shown].tolist())
    for rank, (row, near) in enumerate(zip(shown.tolist(), alike, strict=True), start=1):
        told("plans", rank - 1, len(shown))
        plans.append(_entry(job, ways, row, rank, moment, near, pareto=bool(front[row])))
    return document.model_copy(
        update={
            "plans": plans,
            "warnings": [*document.warnings, *apart(ways, int(shown[0]), workload.constraints.gpus or ())],
            "frontier": _frontier(ways, front),
            "rejected": dict(rejected),
            "tradeoffs": [*tradeoffs, *roomier(ways, shown), *steadier(ways, shown)],
            "policies": policies_of(job, ways, shown),
        }
    )


def moment_of(now: datetime | None) -> datetime:
    """The moment that ages are counted to: the present unless given; UTC where it names no zone."""
    if now is None:
        return datetime.now(UTC)
    if not isinstance(now, datetime):
        raise TypeError(f"now is a datetime, such as datetime(2026, 9, 1, tzinfo=UTC), not {type(now).__name__}")
    return now.replace(tzinfo=UTC) if now.tzinfo is None else now


def market_of(workload: Workload, offers: OfferTable | None, now: datetime) -> OfferTable:
    """What can be rented (`offers`, else the shipped snapshot) as the user pays it, and own machines beside it.

    Raises PricesUnavailable when none of it has a usable price.
    """
    if offers is not None and not isinstance(offers, OfferTable):
        raise TypeError(f"offers is what pricing.offers.current_offers() gives, not {type(offers).__name__}")
    if offers is None:
        offers = current_offers(now=now, accelerators=workload.constraints.accelerators.value)
    if workload.negotiated:
        from pricing.sources.overrides_file import apply_stated

        offers = apply_stated(offers, workload.negotiated, "negotiated", now=now)
    if workload.own:
        machines = [own_machine(m.stated(), field=f"own.{number}") for number, m in enumerate(workload.own)]
        offers = concatenate([offers, own_table(machines, now=now)])
    if not offers.ranked.any():
        raise PricesUnavailable("no offer has a usable price", field="offers", nearest=("estimator prices refresh",))
    return offers


def _overflowing(ways: Possible) -> Mask:
    """What is expected to run out of memory: tight, and above the capacity."""
    used, capacity = np.atleast_1d(ways.best.memory.used), np.asarray(ways.best.hardware.capacity_gib, float)
    return np.asarray((used > capacity)[ways.found], dtype=bool)


Some = TypeVar("Some", bound=Possible)


def _without(ways: Some, leave_out: Mask) -> tuple[Some, int]:
    """The ways that are not to be left out, and how many are gone; all of them where nothing else is left."""
    if leave_out.all() or not leave_out.any():
        return ways, 0
    return ways.select(~leave_out), int(leave_out.sum())


# --- what the limits leave -----------------------------------------------------------------------------------------


def _within_limits(ways: Ways, limits: Constraints) -> tuple[Mask, Counter[str], str | None, str]:
    """The ways within deadline, budget and hourly limit; the limit that binds and a hint when none is left."""
    hourly = ways.usd_per_hour
    tests: list[tuple[str, float | None, Floats, Floats | None, str]] = [
        (HOURLY, limits.max_usd_per_hour, hourly, None, "the cheapest plan costs ${:.2f} an hour"),
        (DEADLINE, limits.deadline, ways.hours, ways.outcome.meets_deadline, "the fastest plan takes {:.1f} hours"),
        (BUDGET, limits.budget, ways.cost, ways.outcome.meets_budget, "the cheapest plan costs ${:,.2f}"),
    ]
    keep = np.ones(len(ways), dtype=bool)
    dropped: Counter[str] = Counter()
    for reason, limit, figure, chance, words in tests:
        if limit is None:
            continue
        passes = within(figure, limit, chance, limits.confidence)
        dropped[reason] += int((keep & ~passes).sum())
        if not (keep & passes).any():
            hint = words.format(float(figure[keep].min()))
            if chance is None or limits.confidence is None:
                hint = f"{enough(reason, float(figure[keep].min()))} would do: {hint}"
            else:
                hint += f"; the best chance is {float(chance[keep].max()):.0%} where {limits.confidence:.0%} is asked"
            return keep, dropped, reason, hint + ("" if keep.all() else " within the other limits")
        keep &= passes
    return keep, +dropped, None, ""


def enough(reason: str, least: float) -> str:
    """The smallest round limit that leaves a plan.

    >>> enough(BUDGET, 1.551), enough(DEADLINE, 0.19), enough(DEADLINE, 30.2)
    ('constraints.budget: 1.56', 'constraints.deadline: 12m', 'constraints.deadline: 31h')
    """
    if reason == DEADLINE:
        value = f"{ceil(least * 60.0)}m" if least < 2.0 else f"{ceil(least)}h"
    else:
        value = f"{ceil(least * 100.0) / 100.0:.2f}" if least < 100.0 else f"{ceil(least)}"
    return f"constraints.{reason.replace('-', '_')}: {value}"


REASONS = ("memory", INTERRUPTIONS, HOURLY, DEADLINE, BUDGET)
MEMORY_REASONS = ("memory", "batch", "degrees", "gpu-count")
HARDWARE_REASONS = (*MEMORY_REASONS[:3], "precision", "unknown-gpu", "gpu-count")


def _binding_hardware(rejected: Mapping[str, int]) -> str:
    """Why no hardware can run the job: what stands in the way of the hardware that came furthest."""
    return next((reason for reason in HARDWARE_REASONS if rejected.get(reason)), "gpu-count")


def _precision_hints(kinds: Kinds) -> list[str]:
    words = sorted({text for _, text in kinds.refused.values()})
    return words[:5]


def quota_hint(ways: Possible) -> str:
    """What is needed where machines could run the job, but more of them than the quotas allow."""
    fewest = int(np.argmin(ways.best.gpus))
    return (
        f"constraints.quotas: {ways.best.gpus[fewest]:g} x {np.asarray(ways.best.hardware.gpu)[fewest]} are the fewest "
        "GPUs that can run it"
    )


def _filter_hints(open_offers: Offered) -> list[str]:
    gone = ", ".join(f"{reason} ({count})" for reason, count in open_offers.removed.items())
    words = [f"no offer is left after the filters: {gone}"]
    return [*words, open_offers.instead] if open_offers.instead else words


def _market_hints(open_offers: Offered, limits: Constraints) -> list[str]:
    """Commitments and prepaid blocks have no list price that is published."""
    asked = set(limits.markets or ())
    if open_offers.last != "market" or not asked & {Market.RESERVED, Market.BLOCK}:
        return []
    return ["commitments and prepaid blocks have the prices that you were quoted: --overrides FILE, or negotiated"]


def _accelerator_hints(workload: Workload, gpus: GpuFilter) -> list[str]:
    """TPUs and Trainium are planned only when they are asked for."""
    named = {*gpus.counts, *(resolve_gpu(machine.gpu).gpu.name for machine in workload.own)}
    others = sorted(name for name in named if all_gpus()[name].kind != "gpu")
    if not others or workload.constraints.accelerators is Accelerators.ANY:
        return []
    return [ANY_ACCELERATOR.format(", ".join(others))]


ANY_ACCELERATOR = "constraints.accelerators: any plans {} too"


def _rented_hints(market: OfferTable, gpus: GpuFilter) -> list[str]:
    """GPUs that nobody rents can still be planned where they are the user's own."""
    asked = sorted(name for name in gpus.counts if all_gpus()[name].kind == "gpu")
    if not asked or market.where_type("gpu", lambda gpu: gpu in gpus.counts).any():
        return []
    return [
        f"no cloud offers {', '.join(asked[:5])}; your own are planned with own: name, gpu, gpus_per_node, usd_per_hour"
    ]


# --- ranking -------------------------------------------------------------------------------------------------------


def ranking(ways: Ways, sort: Sort) -> Ints:
    """Rows best first: by cost (median or mean), time, value or GPUs; ties by another figure, then by name."""
    cloud, kind, market = (alphabetical(ways.table, name)[ways.offer] for name in ("cloud", "instance_type", "market"))
    gpus = ways.best.gpus[ways.found]
    first, second = sorted_by(sort, ways.hours, ways.cost, ways.outcome.cost_mean, gpus)
    return np.lexsort((market, kind, cloud, second, first))


def shortlist(ways: Ways, order: Ints, top: int) -> Ints:
    """The first `top` rows of `order`, with room kept for the best of each cloud that would not be seen otherwise.

    At most half of the list is given to such; the list stays in the order of the ranking.
    """
    cloud = ways.table.codes["cloud"][ways.offer[order]]
    _, best_of_cloud = np.unique(cloud, return_index=True)
    kept = np.zeros(len(order), dtype=bool)
    kept[np.sort(best_of_cloud)[: max(1, top // 2)]] = True
    others = np.flatnonzero(~kept)[: max(0, top - int(kept.sum()))]
    kept[others] = True
    return order[kept]


FALLBACKS = (1, 3)


def policies_of(job: Job, ways: Ways, shown: Ints) -> list[PolicyDocument]:
    """For the first spot plan shown: wait for capacity, fall back after one or three interruptions, or not use spot."""
    spot = ways.table.where("market", lambda market: market == Market.SPOT)[ways.offer[shown]]
    if not spot.any():
        return []
    first, limits = shown[spot][:1], job.workload.constraints
    one, deadline, budget = ways.plain.select(first), limits.deadline, limits.budget
    policies = {"wait": (SpotPolicy.WAIT, one.fallback_after)}
    may_fall_back = bool(np.isfinite(one.fallback_usd_per_hour).all())
    if may_fall_back:
        policies |= {f"fallback-after-{k}": (SpotPolicy.FALLBACK, k) for k in FALLBACKS}
    outcomes = under_policies(one, list(policies.values()), deadline=deadline, budget=budget)
    found = dict(zip(policies, outcomes, strict=True))
    if may_fall_back:
        calm = hazards_of(job.workload, ways.best.gpus[ways.found[first]], ways.nodes[first], np.zeros(1, dtype=bool))
        work = one.training * (1.0 + one.evaluation.typical)
        interval = checkpoint_interval(job.workload.run, work, one.write, calm, one.saves)
        price, usd_per_hour = constant(1), one.fallback_usd_per_hour  # on demand the price holds
        sure = replace(one, hazards=calm, interval=interval, usd_per_hour=usd_per_hour, price=price)
        found["on-demand"] = outcome_of(sure, deadline=deadline, budget=budget)
    return [_policy_document(name, outcome) for name, outcome in found.items()]


def _policy_document(name: str, outcome: Outcome) -> PolicyDocument:
    """What one way comes to under a policy."""
    chance = float(outcome.meets_deadline[0])
    return PolicyDocument(
        policy=name,
        hours=Interval(
            p10=float(outcome.hours_p10[0]), p50=float(outcome.hours_p50[0]), p90=float(outcome.hours_p90[0])
        ),
        cost_usd=Interval(
            p10=float(outcome.cost_p10[0]), p50=float(outcome.cost_p50[0]), p90=float(outcome.cost_p90[0])
        ),
        expected_cost_usd=float(outcome.cost_mean[0]),
        expected_interruptions=float(outcome.interruptions[0]),
        probability_deadline=None if np.isnan(chance) else chance,
    )


def _frontier(ways: Ways, front: Mask) -> list[FrontierPoint]:
    """The front from fast to cheap, one point where several ways are equal."""
    points = []
    picked = np.flatnonzero(front)
    last = None
    for row in picked[np.lexsort((ways.cost[picked], ways.hours[picked]))]:
        figures = (float(ways.hours[row]), float(ways.cost[row]))
        if figures == last:
            continue
        last = figures
        offer, best = ways.table.offer(int(ways.offer[row])), int(ways.found[row])
        points.append(
            FrontierPoint(
                cloud=offer.cloud,
                region=offer.region,
                instance_type=offer.instance_type,
                market=offer.market,
                nodes=int(ways.nodes[row]),
                gpu=str(np.asarray(ways.best.hardware.gpu)[best]),
                gpus=float(ways.best.gpus[best]),
                hours=figures[0],
                cost_usd=figures[1],
            )
        )
    return points


def _entry(
    job: Job, ways: Ways, row: int, rank: int, now: datetime, near: list[MeasurementUsed], *, pareto: bool
) -> PlanEntry:
    offer = ways.table.offer(int(ways.offer[row]))
    entry = PlanEntry(
        **entry_of(job, ways, row, now, near),
        rank=rank,
        pareto=pareto,
        other_offers=int(ways.others[row]),
    )
    return explained(job, entry, offer.cloud)
