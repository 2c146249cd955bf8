"""Every way to run the job: an offer, a number of nodes, the best layout there, with hours and dollars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from estimator.bill import Extras, data_place, extras_of
from estimator.job import Job
from estimator.planning.evidence import Evidenced, Measured
from estimator.planning.machines import Fleet, Kinds, fleet_of
from estimator.planning.offered import GpuFilter, quota_gpus
from estimator.planning.search import Found
from estimator.planning.step_times import StepTimes
from estimator.planning.steps import Told, silently
from estimator.request.run import AZURE_BANDS
from estimator.request.sections import Constraints
from estimator.risk.hazard import Hazards, hazards_of
from estimator.risk.outcome import Outcome, Plain, checkpoint_interval, outcome_of
from estimator.risk.price_path import PricePaths, constant, price_paths
from estimator.risk.spot_spread import SpotSpread
from estimator.runtime import checkpoint_hours, default, defaults, evaluation_share, staging, start_up, training_hours
from pricing.interruptions import eviction_rates, reclaimed_shares
from pricing.offers import Market, OfferTable
from pricing.regions import region_filter
from pricing.spot_history import Place, SpotHistory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Possible:
    """n ways to run the job before chance: an offer (the cheapest place of its type and market) with some nodes."""

    table: OfferTable
    offer: Ints  # (n,) row of `table`
    found: Ints  # (n,) row of the search's result
    nodes: Floats
    plain: Plain
    others: Ints  # (n,) further offers of the same type and market, no cheaper
    extras: Mapping[tuple[str, bool], Extras]  # by cloud, and whether it is in the region of the data
    near: Mask  # (N,) offers in the region of the data
    kinds: Kinds
    fleet: Fleet
    best: Found
    evidence: Evidenced
    refused: Counter[str]  # offers whose hardware cannot run the job, by reason
    spread: SpotSpread | None  # of spot prices over the whole market

    def __len__(self) -> int:
        return len(self.offer)

    @property
    def usd_per_hour(self) -> Floats:
        """Of the machines of the whole job."""
        return self.table.usd_per_hour[self.offer] * self.nodes

    def select(self, keep: Mask | Ints) -> Self:
        """Some of the ways."""
        return replace(
            self,
            offer=self.offer[keep],
            found=self.found[keep],
            nodes=self.nodes[keep],
            plain=self.plain.select(keep),
            others=self.others[keep],
        )

    def lived(self, outcome: Outcome) -> Ways:
        """The ways with what comes out of them."""
        return Ways(**{field.name: getattr(self, field.name) for field in fields(self)}, outcome=outcome)

    def through_chance(self, limits: Constraints) -> Ways:
        """All of the ways with what comes out of them; see `planning.contenders` for a plan's few."""
        return self.lived(outcome_of(self.plain, deadline=limits.deadline, budget=limits.budget))


@dataclass(frozen=True, slots=True)
class Ways(Possible):
    """n ways to run the job, and what comes out of them when chance is counted."""

    outcome: Outcome

    @property
    def hours(self) -> Floats:
        """Median hours on the clock."""
        return self.outcome.hours_p50

    @property
    def cost(self) -> Floats:
        """Median dollars."""
        return self.outcome.cost_p50

    def select(self, keep: Mask | Ints) -> Self:
        """Some of the ways."""
        return replace(Possible.select(self, keep), outcome=self.outcome.select(keep))


def ways_of(
    job: Job,
    table: OfferTable,
    gpus: GpuFilter,
    measured: Measured = (),
    told: Told = silently,
    spread: SpotSpread | None = None,
    history: SpotHistory | None = None,
    step_times: StepTimes | None = None,
) -> Possible:
    """Every offer of `table` with every number of nodes that can run the job, the cheapest place of each type only.

    `spread` is how spot prices differ over the whole market that the table was picked from; without it, and without a
    `history`, the present ones are taken to hold.
    """
    known = step_times or StepTimes()
    kinds, fleet = _hardware(job, table, gpus, known)
    told("layouts", 0, len(fleet.kind))
    best, evidence = known.of(job, fleet, measured)
    told("evidence", 0, len(best.row))
    most_gpus = quota_gpus(table, job.workload.constraints.quotas)
    near = _near_data(job, table)
    cheapest, others = _cheapest_places(table, most_gpus, near)
    kind = kinds.of_type[table.type_index[cheapest]]
    planned = kind >= 0
    cheapest, others, kind = cheapest[planned], others[planned], kind[planned]

    # Rows of the search's result are sorted by kind: each offer meets the run of rows of its kind.
    kind_of_found = fleet.kind[best.row]
    start = np.searchsorted(kind_of_found, kind, side="left")
    copies = np.searchsorted(kind_of_found, kind, side="right") - start
    offer = np.repeat(cheapest, copies)
    within = np.arange(len(offer)) - np.repeat(np.cumsum(copies) - copies, copies)
    found = np.repeat(start, copies) + within
    alike = np.repeat(others, copies)

    nodes = np.asarray(best.hardware.nodes, float)[found]
    enough = _enough_nodes(job, table, offer, nodes) & (best.gpus[found] <= most_gpus[offer])
    offer, found, nodes, alike = offer[enough], found[enough], nodes[enough], alike[enough]
    training = training_hours(job, evidence.step_seconds[found])
    hazards = _hazards(job, table, offer, best.gpus[found], nodes)
    extras = {
        (cloud, beside): extras_of(job, cloud, beside_data=beside)
        for cloud in table.names["cloud"]
        for beside in ((False, True) if near.any() else (False,))
    }
    hourly, once = _extra_usd(table, offer, nodes, extras, near)
    write, evaluated = checkpoint_hours(job, best.gpus[found]), evaluation_share(job)
    saves = _saves_on_notice(job, table, offer, write)
    plain = Plain(
        training=training,
        slow=evidence.low[found],
        fast=evidence.high[found],
        start_up=_start_up(job, table, offer),
        staging=staging(job),
        evaluation=evaluated,
        write=write,
        interval=checkpoint_interval(job.workload.run, training * (1.0 + evaluated.typical), write, hazards, saves),
        hazards=hazards,
        saves=saves,
        usd_per_hour=table.usd_per_hour[offer] * nodes,
        price=_price_paths(table, offer, training, history, spread),
        term=np.where(_in_market(table, Market.BLOCK)[offer], table.term_hours[offer], np.nan),
        fallback_usd_per_hour=_on_demand_beside(table)[offer] * nodes,
        policy=job.workload.spot.policy,
        fallback_after=job.workload.spot.fallback_after,
        own=_in_market(table, Market.OWN)[offer],
        attempts=job.workload.run.attempts,
        extra_usd=once,
        extra_usd_per_hour=hourly,
        tax=1.0 + job.workload.bill.tax_percent / 100.0,
    )
    return Possible(
        table=table,
        offer=offer,
        found=found,
        nodes=nodes,
        plain=plain,
        others=alike,
        extras=extras,
        near=near,
        kinds=kinds,
        fleet=fleet,
        best=best,
        evidence=evidence,
        refused=_refusals(table, kinds, fleet, best),
        spread=spread,
    )


def _hazards(job: Job, table: OfferTable, offer: Ints, gpus: Floats, nodes: Floats) -> Hazards:
    spot = _in_market(table, Market.SPOT)[offer]
    if not spot.any():
        return hazards_of(job.workload, gpus, nodes, spot)
    rows, place = np.unique(offer, return_inverse=True)  # the advisors' facts of those places alone
    used = table.select(rows.astype(np.int32))
    reclaimed, evicted = reclaimed_shares(used), eviction_rates(used)
    if band := job.workload.spot.azure_eviction:
        low, high = AZURE_BANDS[band]
        azure = used.where("cloud", lambda cloud: cloud == "azure")
        evicted = (np.where(azure, low, evicted[0]), np.where(azure, high, evicted[1]))
    of_way = [(low[place], high[place]) for low, high in (reclaimed, evicted)]
    return hazards_of(job.workload, gpus, nodes, spot, *of_way)


def _in_market(table: OfferTable, market: Market) -> Mask:
    return table.where("market", lambda name: name == market)


def _saves_on_notice(job: Job, table: OfferTable, offer: Ints, write: Floats) -> Mask:
    """Spot ways whose notice leaves time to write a checkpoint, where the job does so."""
    if not job.workload.spot.save_on_notice:
        return np.zeros(len(offer), dtype=bool)
    notice = np.array(
        [
            default("spot_notice", cloud).low / 3600.0 if ("spot_notice", cloud) in defaults() else 0.0
            for cloud in table.names["cloud"]
        ]
    )
    return _in_market(table, Market.SPOT)[offer] & (write <= notice[table.codes["cloud"][offer]])


def _price_paths(
    table: OfferTable, offer: Ints, hours: Floats, history: SpotHistory | None, spread: SpotSpread | None
) -> PricePaths:
    """How the spot price of each way is expected to move over its hours: by its zone's history, else by the spread."""
    found = _watched(table, offer, hours, history) if history else constant(len(offer))
    return found if spread is None else found.around(*spread.around(table, offer, hours))


def _watched(table: OfferTable, offer: Ints, hours: Floats, history: SpotHistory) -> PricePaths:
    names, codes = table.names, table.codes
    places: list[Place | None] = [None] * len(offer)
    for row in np.flatnonzero(_in_market(table, Market.SPOT)[offer]):
        at = offer[row]
        cloud, region, zone, zone_id, kind = (
            names[column][codes[column][at]] for column in ("cloud", "region", "zone", "zone_id", "instance_type")
        )
        places[row] = (cloud, region, zone or zone_id, kind)
    return price_paths(history, places, hours)


def _near_data(job: Job, table: OfferTable) -> Mask:
    """Offers in the very region that the data lies in; UnknownName for a region that does not exist."""
    place = data_place(job)
    if place is None or not place[1]:
        return np.zeros(len(table), dtype=bool)
    home, region = place
    test = region_filter((region,), field="bill.data_in")
    here = table.where("region", lambda name: bool(name) and test(home, name))
    return here & table.where("cloud", lambda cloud: cloud == home)


def _on_demand_beside(table: OfferTable) -> Floats:
    """For each offer, the on-demand price of the same machine: in the same region, else the lowest of any other region.

    NaN where nobody offers it on demand. Shape (N,).
    """
    rows = np.flatnonzero(table.where("market", lambda market: market == Market.ON_DEMAND))
    if not len(rows):
        return np.full(len(table), np.nan)
    region = table.codes["region"].astype(np.int64)
    here = table.type_index.astype(np.int64) * max(1, len(table.names["region"])) + region
    near, far = (_lowest_of(key, rows, table.usd_per_hour) for key in (here, table.type_index.astype(np.int64)))
    return np.where(np.isnan(near), far, near)


def _lowest_of(key: Ints, rows: Ints, price: Floats) -> Floats:
    """For each element of `key`, the lowest price among `rows` of the same key; NaN where there is none."""
    order = rows[np.lexsort((price[rows], key[rows]))]
    place = np.minimum(np.searchsorted(key[order], key), len(order) - 1)
    return np.where(key[order][place] == key, price[order][place], np.nan)


def _extra_usd(
    table: OfferTable, offer: Ints, nodes: Floats, extras: Mapping[tuple[str, bool], Extras], near: Mask
) -> tuple[Floats, Floats]:
    """Dollars an hour and once, besides machines, of each way."""
    hourly, once = np.zeros(len(offer)), np.zeros(len(offer))
    code = table.codes["cloud"][offer]
    for (cloud, beside), part in extras.items():
        rows = (code == table.names["cloud"].index(cloud)) & (near[offer] == beside)
        hourly[rows] = part.usd_per_hour(0.0) + part.disk_per_node_hour * nodes[rows]
        once[rows] = part.once_usd
    return hourly, once


def _cheapest_places(table: OfferTable, most_gpus: Floats, near: Mask) -> tuple[Ints, Ints]:
    """The cheapest offer of each (instance type, market, quota, term), and how many further ones there are.

    The region of the data counts as a place of its own: what is dearer an hour may save the egress.

    Ties go to the first by region and zone name, so that the answer does not depend on the order of the table.
    """
    region, zone = (alphabetical(table, name) for name in ("region", "zone"))
    market = table.codes["market"]
    term = np.nan_to_num(table.term_hours)  # a longer block or commitment may be cheaper an hour, yet not for the run
    order = np.lexsort((zone, region, table.usd_per_hour, most_gpus, term, near, market, table.type_index))
    keys = table.type_index[order].astype(np.int64) * len(table.names["market"]) + market[order]
    new = np.diff(keys) != 0
    for split in (most_gpus, near, term):
        new |= split[order][1:] != split[order][:-1]
    first = np.flatnonzero(np.concatenate([[True], new]))
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


def _start_up(job: Job, table: OfferTable, offer: Ints) -> tuple[Floats, Floats, Floats]:
    compiled = bool(job.workload.compiled)
    by_cloud = [start_up(cloud, job.workload.run, compiled=compiled) for cloud in table.names["cloud"]]
    code = table.codes["cloud"][offer]
    return (
        np.array([s.low for s in by_cloud])[code],
        np.array([s.typical for s in by_cloud])[code],
        np.array([s.high for s in by_cloud])[code],
    )


def _hardware(job: Job, table: OfferTable, gpus: GpuFilter, known: StepTimes) -> tuple[Kinds, Fleet]:
    """The distinct hardware of the offers, with the node counts worth a look."""
    wanted = np.zeros(len(table.types), dtype=bool)
    wanted[np.unique(table.type_index)] = True
    kinds = known.kinds(table.types, wanted, job)
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
            if name in own:  # hardware that an estimate names has no end
                nodes[kind] = max(nodes.get(kind, 0), own[name])
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
