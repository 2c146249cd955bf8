"""Every way to run the job: an offer, a number of nodes, the best layout there, with hours and dollars."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.cost import run_cost_usd
from estimator.evidence import Evidenced, evidence_of
from estimator.job import Job
from estimator.machines import Fleet, Kinds, fleet_of, kinds_of
from estimator.offered import GpuFilter
from estimator.runtime import RunHours, run_hours, start_up_seconds
from estimator.search import Found, search
from pricing.offers import Market, OfferTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ways:
    """n ways to run the job: an offer (the cheapest region of its type and market) with a number of nodes."""

    table: OfferTable
    offer: Ints  # (n,) row of `table`
    found: Ints  # (n,) row of the search's result
    nodes: Floats
    hours: RunHours
    cost: Floats  # p50, USD
    cost_p10: Floats
    cost_p90: Floats
    others: Ints  # (n,) further offers of the same type and market, no cheaper
    kinds: Kinds
    fleet: Fleet
    best: Found
    evidence: Evidenced
    refused: Counter[str]  # offers whose hardware cannot run the job, by reason

    def __len__(self) -> int:
        return len(self.offer)

    def hours_of(self, row: int) -> tuple[float, float, float]:
        """p10, p50, p90 of one way, hours."""
        return float(self.hours.p10[row]), float(self.hours.p50[row]), float(self.hours.p90[row])

    def cost_of(self, row: int) -> tuple[float, float, float]:
        """p10, p50, p90 of one way, USD."""
        return float(self.cost_p10[row]), float(self.cost[row]), float(self.cost_p90[row])

    def select(self, keep: Mask | Ints) -> Ways:
        """Some of the ways."""
        hours = RunHours(
            self.hours.p10[keep],
            self.hours.p50[keep],
            self.hours.p90[keep],
            self.hours.training[keep],
            self.hours.start_up[keep],
        )
        return replace(
            self,
            offer=self.offer[keep],
            found=self.found[keep],
            nodes=self.nodes[keep],
            hours=hours,
            cost=self.cost[keep],
            cost_p10=self.cost_p10[keep],
            cost_p90=self.cost_p90[keep],
            others=self.others[keep],
        )


def ways_of(job: Job, table: OfferTable, gpus: GpuFilter) -> Ways:
    """Every offer of `table` with every number of nodes that can run the job, the cheapest place of each type only."""
    kinds, fleet = _hardware(job, table, gpus)
    found = search(job, fleet)
    evidence = evidence_of(job, found)
    cheapest, others = _cheapest_places(table)
    kind = kinds.of_type[table.type_index[cheapest]]
    planned = kind >= 0
    cheapest, others, kind = cheapest[planned], others[planned], kind[planned]

    # Rows of the search's result are sorted by kind: each offer meets the run of rows of its kind.
    found_kind = fleet.kind[found.row]
    start = np.searchsorted(found_kind, kind, side="left")
    copies = np.searchsorted(found_kind, kind, side="right") - start
    offer = np.repeat(cheapest, copies)
    within = np.arange(len(offer)) - np.repeat(np.cumsum(copies) - copies, copies)
    row = np.repeat(start, copies) + within

    nodes = np.asarray(found.hardware.nodes, float)[row]
    own = table.where("market", lambda market: market == Market.OWN)[offer]
    enough = _enough_nodes(job, table, offer, nodes)
    offer, row, nodes, own = offer[enough], row[enough], nodes[enough], own[enough]
    alike = np.repeat(others, copies)[enough]
    hours = run_hours(
        np.full(len(row), float(job.steps)),
        evidence.step_seconds[row],
        evidence.low[row],
        evidence.high[row],
        _start_up(table, offer),
    )
    price = table.usd_per_hour[offer]
    cost, low, high = (run_cost_usd(h, price, nodes, own) for h in (hours.p50, hours.p10, hours.p90))
    return Ways(
        table=table,
        offer=offer,
        found=row,
        nodes=nodes,
        hours=hours,
        cost=cost,
        cost_p10=low,
        cost_p90=high,
        others=alike,
        kinds=kinds,
        fleet=fleet,
        best=found,
        evidence=evidence,
        refused=_refusals(table, kinds, fleet, found),
    )


def _cheapest_places(table: OfferTable) -> tuple[Ints, Ints]:
    """The cheapest offer of each (instance type, market), and how many further ones there are.

    Ties go to the first by region and zone name, so that the answer does not depend on the order of the table.
    """
    region, zone = (alphabetical(table, name) for name in ("region", "zone"))
    market = table.codes["market"]
    order = np.lexsort((zone, region, table.usd_per_hour, market, table.type_index))
    keys = table.type_index[order].astype(np.int64) * len(table.names["market"]) + market[order]
    first = np.flatnonzero(np.concatenate([[True], np.diff(keys) != 0]))
    sizes = np.diff(np.append(first, len(order)))
    return order[first], sizes - 1


def alphabetical(table: OfferTable, column: str) -> Ints:
    """The codes of a text column, renumbered in alphabetical order."""
    rank = np.empty(len(table.names[column]), dtype=np.int64)
    rank[np.argsort(np.array(table.names[column], dtype=object), kind="stable")] = np.arange(len(rank))
    return rank[table.codes[column]]


def _enough_nodes(job: Job, table: OfferTable, offer: Ints, nodes: Floats) -> Mask:
    """Own machines exist in a number; clouds are taken to have as many as asked for."""
    if not job.workload.own:
        return np.ones(len(offer), dtype=bool)
    have = {machine.name: float(machine.nodes) for machine in job.workload.own}
    limit = np.array(
        [
            have.get(name, np.inf) if cloud == Market.OWN else np.inf
            for name, cloud in zip(table.types.texts["instance_type"], table.types.texts["cloud"], strict=True)
        ]
    )
    return nodes <= limit[table.type_index[offer]]


def _start_up(table: OfferTable, offer: Ints) -> tuple[Floats, Floats, Floats]:
    by_cloud = [start_up_seconds(cloud) for cloud in table.names["cloud"]]
    code = table.codes["cloud"][offer]
    return (
        np.array([s.low for s in by_cloud])[code],
        np.array([s.typical for s in by_cloud])[code],
        np.array([s.high for s in by_cloud])[code],
    )


def _hardware(job: Job, table: OfferTable, gpus: GpuFilter) -> tuple[Kinds, Fleet]:
    """The distinct hardware of the offers, with the node counts worth a look."""
    wanted = np.zeros(len(table.types), dtype=bool)
    wanted[np.unique(table.type_index)] = True
    kinds = kinds_of(table.types, wanted, job)
    counts: dict[int, frozenset[float]] = {}
    nodes: dict[int, int] = {}
    own = {machine.name: machine.nodes for machine in job.workload.own}
    for row in np.flatnonzero(kinds.of_type >= 0):
        kind = int(kinds.of_type[row])
        asked = gpus.counts.get(table.types.texts["gpu"][row])
        if asked:
            counts[kind] = asked
        if table.types.texts["cloud"][row] == Market.OWN:
            name = table.types.texts["instance_type"][row]
            nodes[kind] = max(nodes.get(kind, 0), own.get(name, 1))
    clouds = {int(kinds.of_type[row]) for row in np.unique(table.type_index) if _rented(table, int(row))}
    fleet = fleet_of(kinds, job, gpu_counts=counts, limits={k: n for k, n in nodes.items() if k not in clouds})
    return kinds, fleet


def _rented(table: OfferTable, type_row: int) -> bool:
    return table.types.texts["cloud"][type_row] != Market.OWN


def _refusals(table: OfferTable, kinds: Kinds, fleet: Fleet, found: Found) -> Counter[str]:
    """Offers whose hardware cannot run the job, by reason (an offer counts once, by its best node count)."""
    reasons = np.array(found.reasons(), dtype=object)
    of_kind: dict[int, str] = {}
    for kind in range(len(kinds)):
        mine = reasons[fleet.kind == kind]
        if len(mine) == 0:
            of_kind[kind] = "gpu-count"
        elif all(mine):
            of_kind[kind] = Counter(mine).most_common(1)[0][0]
    counted: Counter[str] = Counter()
    kind_of_offer = kinds.of_type[table.type_index]
    for row, (reason, _) in kinds.refused.items():
        if offers := int((table.type_index == row).sum()):
            counted[reason] += offers
    for kind, reason in of_kind.items():
        counted[reason] += int((kind_of_offer == kind).sum())
    return counted
