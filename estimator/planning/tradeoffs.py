"""What do the limits of a request cost, what would more time or money buy, and what else is nearly as good?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from estimator.memory import TIGHT, YES
from estimator.planning.contenders import within
from estimator.planning.fronts import pareto_front
from estimator.planning.offered import gpu_filter
from estimator.planning.ways import Ways
from estimator.request.sections import Constraints

Ints = NDArray[np.int64]


def apart(ways: Ways, row: int, asked: Sequence[str]) -> list[str]:
    """Says so where the best plan spreads a number of GPUs asked for over more machines than could hold them."""
    names, total = np.asarray(ways.best.hardware.gpu)[ways.found], ways.best.gpus[ways.found]
    for text in asked if ways.nodes[row] > 1 else ():
        counts = gpu_filter((text,)).counts
        if not counts.get(str(names[row])):
            continue
        fewest = int(ways.nodes[np.isin(names, list(counts)) & (total == total[row])].min())
        if fewest < ways.nodes[row]:
            return [
                f"{text} counts the GPUs of the whole job; the best plan has them in {ways.nodes[row]:.0f} machines: "
                f"constraints.max_nodes: {fewest} keeps to {fewest}"
            ]
    return []


def tradeoffs_of(ways: Ways, best: int, limits: Constraints) -> list[str]:
    """What the limits cost, and what more time or money would buy: the nearest points of the front around the plan.

    The plan that is best by what was asked for, row `best`, is compared with the next cheaper one and with the next
    faster one, beyond the limits too; an alternative that breaks a limit says which.
    """
    front = np.flatnonzero(pareto_front(ways.hours, ways.cost))
    hours, cost = float(ways.hours[best]), float(ways.cost[best])
    words = []
    cheaper = front[(ways.cost[front] < cost * 0.97) & (ways.hours[front] > hours)]
    if len(cheaper):
        row = int(cheaper[np.argmin(ways.hours[cheaper])])
        words.append(
            f"{_hours(ways.hours[row] - hours)} more hours save {_dollars(cost - ways.cost[row])}: {_point(ways, row)}"
            + _beyond(ways, row, limits)
        )
    faster = front[(ways.hours[front] < hours * 0.8) & (ways.cost[front] > cost)]
    if len(faster):
        row = int(faster[np.argmin(ways.cost[faster])])
        more = ways.cost[row] - cost
        price = "less than a cent more saves" if more < 0.01 else f"{_dollars(more)} more save"
        words.append(
            f"{price} {_hours(hours - ways.hours[row])} hours: {_point(ways, row)}" + _beyond(ways, row, limits)
        )
    return words


NEARLY = 1.1  # times the cheapest: nearly the same dollars
SAFER = 0.95  # times its upper dollars: clearly less at stake
FRESHER_DAYS = 14.0


def steadier(ways: Ways, shown: Ints) -> list[str]:
    """Where the cheapest of the plans shown rests on a spot price that may have moved: what costs nearly as little and
    moves less, another of the plans whose upper dollars lie clearly below, or the same machines in a place whose price
    was seen much later.
    """
    best = int(shown[np.lexsort((ways.hours[shown], ways.cost[shown]))[0]])
    if not ways.plain.price.unseen[best] or ways.spread is None:
        return []
    upper = ways.outcome.cost_p90
    words = []
    near = shown[(ways.cost[shown] <= ways.cost[best] * NEARLY) & (upper[shown] < upper[best] * SAFER)]
    if len(near):
        row = int(near[np.argmin(upper[near])])
        words.append(
            f"a steadier price: one run in ten costs more than {_dollars(upper[row])} instead of "
            f"{_dollars(upper[best])}: {_point(ways, row)}"
        )
    table, at = ways.table, int(ways.offer[best])
    same = (table.type_index == table.type_index[at]) & (table.codes["market"] == table.codes["market"][at])
    others = np.flatnonzero(same & (table.usd_per_hour <= table.usd_per_hour[at] * NEARLY))
    ages, age = ways.spread.age_days(table, others), float(ways.spread.age_days(table, np.array([at]))[0])
    fresh = (ages <= age / 2.0) & (ages <= age - FRESHER_DAYS)
    if fresh.any():
        found = int(np.flatnonzero(fresh)[np.argmin(table.usd_per_hour[others[fresh]])])
        offer = table.offer(int(others[found]))
        words.append(
            f"a fresher price: the same machines at {_dollars(offer.price_usd_per_hour or 0.0)} an hour in "
            f"{offer.zone or offer.region}, seen {ages[found]:.0f} d ago instead of {age:.0f} d"
        )
    return words


def roomier(ways: Ways, shown: Ints) -> list[str]:
    """Where memory of the first plan is tight: the cheapest way looked at that surely fits, or that there is none."""
    first, codes = int(shown[0]), np.asarray(ways.best.verdict)[ways.found]
    if codes[first] != TIGHT:
        return []
    sure = np.flatnonzero(codes == YES)
    if not len(sure):
        return ["memory of every plan looked at is tight: a shorter sequence, QLoRA or 8-bit AdamW gives room"]
    row = int(sure[np.lexsort((ways.hours[sure], ways.cost[sure]))[0]])
    more = float(ways.cost[row] - ways.cost[first])
    price = f"{_dollars(more)} more buy room" if more >= 0.01 else "room in memory for no more dollars"
    memory, at = ways.best.memory, int(ways.found[row])
    return [
        f"{price}, as memory of the first is tight: {np.atleast_1d(memory.used)[at]:.0f} of "
        f"{np.atleast_1d(ways.best.hardware.capacity_gib)[at]:.0f} GiB a GPU, {_point(ways, row)}"
    ]


def _beyond(ways: Ways, row: int, limits: Constraints) -> str:
    """Which of the request's limits a way breaks, in words; empty where it keeps to all of them."""
    sure, outcome = limits.confidence, ways.outcome
    broken = []
    if (most := limits.max_usd_per_hour) is not None and not within(ways.usd_per_hour[row], most):
        broken.append(f"over max_usd_per_hour of ${most:,.2f}")
    for side, name, limit, said, figure, chance in (
        ("past", "deadline", limits.deadline, "{:g} h".format, ways.hours[row], outcome.meets_deadline[row]),
        ("over", "budget", limits.budget, _dollars, ways.cost[row], outcome.meets_budget[row]),
    ):
        if limit is None:
            continue
        if not within(figure, limit):
            broken.append(f"{side} the {name} of {said(limit)}")
        elif sure is not None and chance < sure:
            broken.append(f"within the {name} of {said(limit)} in {chance:.0%} of cases where {sure:.0%} is asked")
    return f"; but {' and '.join(broken)}" if broken else ""


def _point(ways: Ways, row: int) -> str:
    return f"{_name(ways, row)}, {_hours(ways.hours[row])} h and {_dollars(ways.cost[row])}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"


def _dollars(dollars: float) -> str:
    return f"${dollars:,.0f}" if dollars >= 100 else f"${dollars:.2f}"


def _name(ways: Ways, row: int) -> str:
    offer = ways.table.offer(int(ways.offer[row]))
    where = f" {offer.region}" if offer.region else ""
    return f"{int(ways.nodes[row])} x {offer.instance_type} on {offer.cloud}{where}, {offer.market}"
