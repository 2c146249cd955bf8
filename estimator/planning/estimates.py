"""How long, does it fit, and why, on hardware that the person names, whether or not a cloud rents it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from glob import escape
from typing import Any

import numpy as np

from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import gpus as all_gpus
from benchmarks_db.gpus import resolve_gpu
from estimator.documents import ClosestDocument, EstimateDocument, EstimateEntry
from estimator.job import Job, job_of
from estimator.planning.closest import closest
from estimator.planning.evidence import Measured, measurements_near
from estimator.planning.explain import explained
from estimator.planning.formats import every_format, formats_of
from estimator.planning.offered import GpuFilter, gpu_filter, offered
from estimator.planning.own_measurements import with_stated
from estimator.planning.planner import ANY_ACCELERATOR, market_of, moment_of, quota_hint
from estimator.planning.present import echo, entry_of
from estimator.planning.repair import way_out
from estimator.planning.step_times import StepTimes
from estimator.planning.steps import Told, silently
from estimator.planning.ways import Possible, ways_of
from estimator.request.fields import Accelerators
from estimator.request.sections import Constraints, split_gpu
from estimator.request.workload import Workload
from estimator.risk.spot_spread import SpotSpread, spot_spread
from pricing.instances import InstanceType
from pricing.offers import Market, Offer, OfferTable, PriceState, table_of
from pricing.sources.own import own_machine, own_table
from pricing.spot_history import SpotHistory

GPUS_PER_NODE = 8
"""Of a machine that no cloud rents: more GPUs than this are taken as several nodes."""


def estimate(
    workload: Workload | Mapping[str, Any],
    *,
    gpus: str | Sequence[str] | None = None,
    offers: OfferTable | None = None,
    now: datetime | None = None,
    measured: Measured = (),
    told: Told = silently,
    history: SpotHistory | None = None,
    step_times: StepTimes | None = None,
) -> EstimateDocument:
    """The workload on each `GPU[:COUNT]` of `gpus` (default: `constraints.gpus`) and on each own machine, in order.

    A GPU that an offer has in that number is priced by the cheapest such offer with the fewest machines (on-demand
    unless `constraints.markets` says otherwise); any other is estimated from its datasheet and has no price. No count
    means one GPU. Of an own machine all its `nodes` are taken, as far as the batch divides over them. `told` hears of
    each machine and may stop the work by raising; `history` and `step_times` are as for a plan.

    Raises WorkloadError when no hardware is named, TypeError for what is no request (see `Workload.of`).
    """
    workload, moment = Workload.of(workload), moment_of(now)
    gpus = [gpus] if isinstance(gpus, str) else gpus
    if formats_of(workload):
        same = partial(estimate, gpus=gpus, offers=offers, now=moment, measured=measured, told=told, history=history)
        return every_format(workload, partial(same, step_times=step_times))
    job = job_of(workload)
    asked = tuple(gpus if gpus is not None else workload.constraints.gpus or ())
    if not asked and not workload.own:
        raise WorkloadError("say on which GPUs, for example H100:8", field="constraints.gpus")
    market = market_of(workload, offers, moment)
    limits = workload.constraints
    if limits.markets is None:
        limits = limits.model_copy(update={"markets": (Market.ON_DEMAND,)})
    answers = _Answers([], {}, [], {})
    own, disagreeing = with_stated(job, measured)
    spread = spot_spread(market, moment)
    warnings: list[str] = [*job.warnings, *disagreeing]
    for text in asked:
        told("estimates", len(answers), len(asked) + len(workload.own))
        name, count = split_gpu(text)
        gpu_filter([name])  # refuses what is no GPU
        match = resolve_gpu(name)
        if _closed(match.gpu.name, limits):
            answers.refuse_accelerator(text, match.gpu.name)
            continue
        if match.loose:
            others = "; it could also be " + ", ".join(match.alternatives) if match.alternatives else ""
            warnings.append(f"{text!r} is taken as {match.gpu.name}{others}")
        wanted = GpuFilter({match.gpu.name: frozenset({count or match.count or 1.0})}, ())
        ways = _ways_on(job, market, limits, wanted, own, history, spread, step_times)
        warnings += _apart(ways, text)
        _add(job, ways, text, moment, answers)
    for number, machine in enumerate(workload.own):
        told("estimates", len(answers), len(asked) + len(workload.own))
        card = resolve_gpu(machine.gpu, field=f"own.{number}.gpu").gpu.name
        if _closed(card, limits):
            answers.refuse_accelerator(machine.name, card)
            continue
        alone = limits.model_copy(
            update={"clouds": ("own",), "markets": None, "instance_types": (escape(machine.name),)}
        )
        open_offers = offered(market, alone, GpuFilter({}, ()))
        table = open_offers.table
        if open_offers.last is not None:  # no price stated: the time is still worth knowing
            table = own_table([own_machine(machine.stated(), field=f"own.{number}")], now=moment)
        ways = ways_of(job, table, GpuFilter({}, ()), own, step_times=step_times)
        if len(ways):
            ways = ways.select(ways.nodes == ways.nodes.max())  # all of the machines that are stated
        _add(job, ways, machine.name, moment, answers)
    return EstimateDocument(
        workload=echo(job),
        estimates=answers.entries,
        rejected=answers.rejected,
        assumptions=[str(assumption) for assumption in job.training.assumed],
        warnings=warnings,
        hints=answers.hints,
        closest=answers.closest,
    )


@dataclass(frozen=True, slots=True)
class _Answers:
    """What each hardware asked for comes to, filled one after the other."""

    entries: list[EstimateEntry]
    rejected: dict[str, str]
    hints: list[str]
    closest: dict[str, ClosestDocument]

    def __len__(self) -> int:
        return len(self.entries) + len(self.rejected)

    def refuse_accelerator(self, asked: str, card: str) -> None:
        """TPUs and Trainium are worked out only when the request says so, as in a plan."""
        self.rejected[asked] = "accelerators"
        self.hints.append(f"{asked}: {ANY_ACCELERATOR.format(card)}")


def _closed(card: str, limits: Constraints) -> bool:
    return limits.accelerators is Accelerators.GPU and all_gpus()[card].kind != "gpu"


def _apart(ways: Possible, asked: str) -> list[str]:
    """Says so where GPUs that one machine could hold have to be taken in several."""
    if not len(ways) or ways.nodes[0] <= 1:
        return []
    gpus, nodes = float(ways.best.gpus[ways.found[0]]), int(ways.nodes[0])
    if gpus > GPUS_PER_NODE:
        return []
    return [f"{asked}: no single machine with {gpus:g} of them is on offer here; {nodes} machines are taken"]


def _ways_on(
    job: Job,
    market: OfferTable,
    limits: Constraints,
    wanted: GpuFilter,
    measured: Measured,
    history: SpotHistory | None,
    spread: SpotSpread,
    step_times: StepTimes | None,
) -> Possible:
    """The ways to run the job on exactly these GPUs: rented if anybody rents them so, else by their datasheet."""
    table = offered(market, limits, wanted).table
    if len(table):
        ways = ways_of(job, table, wanted, measured, spread=spread, history=history, step_times=step_times)
        if len(ways):
            return ways.select(ways.nodes == ways.nodes.min())  # a comparison of GPUs, not of networks between them
    ((gpu, counts),) = wanted.counts.items()
    (count,) = counts
    per_node = count if count <= GPUS_PER_NODE else float(GPUS_PER_NODE)
    unrented = _unrented(gpu, per_node, datetime.fromtimestamp(0, UTC))
    return ways_of(job, unrented, wanted, measured, step_times=step_times)


def _unrented(gpu: str, per_node: float, now: datetime) -> OfferTable:
    """A machine with these GPUs that nobody rents: hardware without a price."""
    name = resolve_gpu(gpu).gpu.name
    shape = InstanceType("own", f"{name}:{per_node:g}", name, per_node)
    offer = Offer(
        cloud=shape.cloud,
        region=None,
        zone=None,
        zone_id=None,
        instance_type=shape.instance_type,
        market=Market.OWN,
        gpu=name,
        gpus_per_node=per_node,
        price_usd_per_hour=None,
        source="none",
        observed_at=None,
        state=PriceState.UNPRICED,
    )
    return table_of([offer], [shape])


def _add(
    job: Job,
    possible: Possible,
    asked: str,
    now: datetime,
    answers: _Answers,
) -> None:
    """Append the best of `ways` (cheapest, or fastest where nothing is priced), or say why there is none."""
    if not len(possible):
        reasons = [words for _, words in possible.kinds.refused.values()]
        if len(possible.best.row):
            answers.rejected[asked] = "quota"
            answers.hints.append(f"{asked}: {quota_hint(possible)}")
            return
        answers.rejected[asked] = reasons[0] if reasons else ", ".join(possible.refused) or "gpu-count"
        if not reasons:
            machines = possible.fleet.hardware
            found = way_out(job, possible.kinds.hardware, machines, possible.refused)
            answers.hints.extend(f"{asked}: {hint}" for hint in found)
            nearest = closest(job, machines) if "memory" in possible.refused else None
            if nearest is not None:
                answers.closest[asked] = nearest
        return
    ways = possible.through_chance(job.workload.constraints)
    priced = np.isfinite(ways.cost).any()
    row = int(np.nanargmin(ways.cost)) if priced else int(np.argmin(ways.hours))
    (near,) = measurements_near(job, ways.best, [int(ways.found[row])])
    entry = EstimateEntry(**entry_of(job, ways, row, now, near))
    answers.entries.append(explained(job, entry, ways.table.offer(int(ways.offer[row])).cloud))
