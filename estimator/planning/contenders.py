"""Which ways can a plan be about at all? Those are lived through; of the others it is enough to know why they are out.

A plan shows the first of a ranking, the best of each cloud, the front of time against cost, and the cheapest that has
room in memory where the first has not; it counts what each limit rejects. `risk.bounds` says cheaply, for every way,
what it takes at least and whether it keeps a limit. The ways of which the bounds cannot tell are lived through, and a
few promising ones with them. What by its bounds cannot come before those needs no closer look: the document is the same
to the last digit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from estimator.memory import TIGHT, YES
from estimator.planning.fronts import pareto_front
from estimator.planning.ways import Possible, Ways
from estimator.request.fields import Sort
from estimator.request.sections import Constraints, Options, split_gpu
from estimator.risk import bounds
from estimator.risk.outcome import Outcome, outcome_of, undisturbed_late
from pricing.offers import Market

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

HOPELESS = 10.0
FEW = 48  # ways that are lived through without more ado
INTERRUPTIONS, HOURLY, DEADLINE, BUDGET, BEATEN = "interruptions", "max-usd-per-hour", "deadline", "budget", ""


def hopeless(outcome: Outcome) -> Mask:
    """What interruptions hardly let come to an end: one run in ten takes `HOPELESS` times what a late one would."""
    return np.asarray(outcome.hours_p90 > HOPELESS * outcome.undisturbed_late, dtype=bool)


def within(figure: Floats, limit: float, chance: Floats | None = None, confidence: float | None = None) -> Mask:
    """Which ways keep a limit: by their median, or by the chance to keep it where the request says how sure."""
    if chance is not None and confidence is not None:
        return np.asarray(chance >= confidence, dtype=bool)
    return np.asarray(figure <= limit * (1 + 1e-12), dtype=bool)


def sorted_by(sort: Sort, hours: Floats, cost: Floats, mean: Floats, gpus: Floats) -> tuple[Floats, Floats]:
    """The figures that a ranking goes by, the less the better: the first, and the second where that is equal."""
    return {
        Sort.COST: (cost, hours),
        Sort.EXPECTED: (mean, cost),
        Sort.TIME: (hours, cost),
        Sort.VALUE: (cost * hours, cost),
        Sort.GPUS: (gpus, cost),
    }[sort]


def contenders(ways: Possible, limits: Constraints, options: Options) -> tuple[Ways, Counter[str]]:
    """The ways that the plan may be about, and how many others each reason rejects ("" where they are only beaten)."""
    counted = any(split_gpu(text)[1] is not None for text in limits.gpus or ())  # the best is compared with all others
    if len(ways) <= max(FEW, 3 * options.top) or counted or not bounds.hold(ways.plain):
        return ways.through_chance(limits), Counter()
    least_hours, least_cost = bounds.least(ways.plain, bounds.ranks_of(0.5)[0])
    gpus = ways.best.gpus[ways.found]
    least = _Figures(  # at least half of the paths cost the median, so the mean is half of it
        least_hours, least_cost, *sorted_by(options.sort, least_hours, least_cost, least_cost / 2.0, gpus)
    )
    cloud = ways.table.codes["cloud"][ways.offer].astype(np.int64)
    reason, unsettled = _settled(ways, limits)
    lived = _Lived(ways, limits, options.sort)

    lived.look(unsettled | _promising(least, reason, unsettled, cloud, options.top))
    kept, fine = lived.kept(), lived.fine()
    ahead = ~_behind(least, lived.figures, fine)
    ahead |= (reason == BEATEN) & ~_behind(least, lived.figures, kept)
    ahead |= (reason == BEATEN) & _may_be_shown(least, lived.figures, kept, cloud, options.top)
    ahead |= (reason == BEATEN) & _may_have_room(ways, least, lived.figures, kept)
    lived.look(ahead & (reason != INTERRUPTIONS))
    kept, fine = lived.kept(), lived.fine()
    lived.look(_on_demand_beside(ways, _shown(lived.figures, kept, cloud, options.top)))
    strict = limits.max_usd_per_hour is not None or limits.confidence is not None
    if not fine.any() or (strict and not kept.any()):  # what stands in the way is then a matter of all of them
        lived.look(np.ones(len(ways), dtype=bool))
    rows = np.flatnonzero(lived.looked_at)
    return ways.select(rows).lived(lived.outcome.select(rows)), Counter(reason[~lived.looked_at].tolist())


@dataclass(frozen=True, slots=True)
class _Figures:
    """Of n ways: median hours and dollars, and the two figures that the ranking goes by."""

    hours: Floats
    cost: Floats
    first: Floats
    second: Floats


class _Lived:
    """What comes out of those of n ways that were lived through; NaN elsewhere."""

    def __init__(self, ways: Possible, limits: Constraints, sort: Sort) -> None:
        self._ways, self._limits, self._sort = ways, limits, sort
        self.looked_at = np.zeros(len(ways), dtype=bool)
        self.outcome = Outcome(**{field.name: np.full(len(ways), np.nan) for field in fields(Outcome)})

    def look(self, rows: Mask) -> None:
        """Live through those of the rows that were not yet."""
        new = np.flatnonzero(rows & ~self.looked_at)
        if len(new):
            limits = self._limits
            found = outcome_of(self._ways.plain.select(new), deadline=limits.deadline, budget=limits.budget)
            for field in fields(Outcome):
                getattr(self.outcome, field.name)[new] = getattr(found, field.name)
            self.looked_at[new] = True

    @property
    def figures(self) -> _Figures:
        """Their figures."""
        hours, cost, gpus = self.outcome.hours_p50, self.outcome.cost_p50, self._ways.best.gpus[self._ways.found]
        return _Figures(hours, cost, *sorted_by(self._sort, hours, cost, self.outcome.cost_mean, gpus))

    def fine(self) -> Mask:
        """Those that are not hopeless."""
        return self.looked_at & ~hopeless(self.outcome)

    def kept(self) -> Mask:
        """Those that keep every limit as well."""
        limits, outcome, kept = self._limits, self.outcome, self.fine()
        if limits.max_usd_per_hour is not None:
            kept &= within(self._ways.usd_per_hour, limits.max_usd_per_hour)
        if limits.deadline is not None:
            kept &= within(outcome.hours_p50, limits.deadline, outcome.meets_deadline, limits.confidence)
        if limits.budget is not None:
            kept &= within(outcome.cost_p50, limits.budget, outcome.meets_budget, limits.confidence)
        return kept


def _settled(ways: Possible, limits: Constraints) -> tuple[NDArray[np.object_], Mask]:
    """The first reason that rejects each way as far as the bounds tell, and the ways of which they cannot."""
    plain, upper, sure = ways.plain, bounds.Upper(ways.plain), limits.confidence
    ranks = bounds.ranks_of(0.5) if sure is None else bounds.ranks_of_share(sure)
    verdicts = [(INTERRUPTIONS, *upper.keep(HOPELESS * undisturbed_late(plain), bounds.ranks_of(0.9)))]
    if limits.max_usd_per_hour is not None:
        cheap = within(ways.usd_per_hour, limits.max_usd_per_hour)
        verdicts.append((HOURLY, cheap, ~cheap))
    if limits.deadline is not None:
        verdicts.append((DEADLINE, *upper.keep(limits.deadline, ranks)))
    if limits.budget is not None:
        verdicts.append((BUDGET, *upper.keep(limits.budget, ranks, dollars=True, unseen=sure is not None)))
    reason = np.full(len(ways), BEATEN, dtype=object)
    unsettled = np.zeros(len(ways), dtype=bool)
    for name, surely, surely_not in verdicts:
        going = (reason == BEATEN) & ~unsettled
        reason[going & surely_not] = name
        unsettled |= going & ~surely & ~surely_not
    return reason, unsettled


def _promising(least: _Figures, reason: NDArray[np.object_], unsettled: Mask, cloud: Ints, top: int) -> Mask:
    """By their bounds the first of the ranking and of each cloud, and the front."""
    chosen = np.zeros(len(unsettled), dtype=bool)
    kept = np.flatnonzero((reason == BEATEN) & ~unsettled)
    order = kept[np.lexsort((least.second[kept], least.first[kept]))]
    chosen[order[: 2 * top]] = True
    for one in np.unique(cloud[kept]):
        chosen[order[cloud[order] == one][:2]] = True
    for some in (kept, np.flatnonzero(reason != INTERRUPTIONS)):
        if len(some):
            chosen[some[pareto_front(least.hours[some], least.cost[some])]] = True
    return chosen


def _behind(least: _Figures, exact: _Figures, rivals: Mask) -> Mask:
    """Ways that one of the rivals surely beats in time and cost at once."""
    rows = np.flatnonzero(rivals)
    if not len(rows):
        return np.zeros(len(rivals), dtype=bool)
    rows = rows[np.argsort(exact.hours[rows])]
    cheapest = np.minimum.accumulate(exact.cost[rows])
    faster = np.searchsorted(exact.hours[rows], least.hours, side="right")
    return np.asarray((faster > 0) & (cheapest[np.maximum(faster - 1, 0)] <= least.cost), dtype=bool)


def _shown(exact: _Figures, kept: Mask, cloud: Ints, top: int) -> Ints:
    """Rows among which those shown are: the first `top`, and the first of each cloud."""
    rows = np.flatnonzero(kept)
    order = rows[np.lexsort((exact.second[rows], exact.first[rows]))]
    _, best = np.unique(cloud[order], return_index=True)
    return np.union1d(order[:top], order[best])


def _may_be_shown(least: _Figures, exact: _Figures, kept: Mask, cloud: Ints, top: int) -> Mask:
    """Ways that may come before the last of the first `top` known ones, or before the first known of their cloud."""
    rows = np.flatnonzero(kept)
    order = rows[np.lexsort((exact.second[rows], exact.first[rows]))]

    def before(row: int) -> Mask:
        first, second = exact.first[row], exact.second[row]
        return np.asarray((least.first < first) | ((least.first == first) & (least.second <= second)), dtype=bool)

    may = before(int(order[top - 1])) if len(order) >= top else np.ones(len(kept), dtype=bool)
    for one in np.unique(cloud):
        known = order[cloud[order] == one]
        may |= (cloud == one) & (before(int(known[0])) if len(known) else True)
    return may


def _may_have_room(ways: Possible, least: _Figures, exact: _Figures, kept: Mask) -> Mask:
    """Where memory of some is tight, those that surely fit and may be the cheapest of such: it is named beside them."""
    verdict = np.asarray(ways.best.verdict)[ways.found]
    if not (verdict == TIGHT).any():
        return np.zeros(len(kept), dtype=bool)
    known = exact.cost[kept & (verdict == YES)]
    return np.asarray((verdict == YES) & (least.cost <= known.min(initial=np.inf)), dtype=bool)


def _on_demand_beside(ways: Possible, rows: Ints) -> Mask:
    """The same machines on demand, in the same number, as the spot ways among `rows`: a plan compares them."""
    market, kind = ways.table.column("market")[ways.offer], ways.table.type_index[ways.offer]
    spot = rows[market[rows] == Market.SPOT]
    nodes = ways.nodes.astype(np.int64)
    machines = kind.astype(np.int64) * (int(nodes.max()) + 1) + nodes
    return np.asarray((market == Market.ON_DEMAND) & np.isin(machines, machines[spot]), dtype=bool)
