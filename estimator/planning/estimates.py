"""How long, does it fit, and why, on hardware that the person names, whether or not a cloud rents it?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from glob import escape

import numpy as np

from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import resolve_gpu
from estimator.documents import EstimateDocument, EstimateEntry
from estimator.job import Job, job_of
from estimator.planning.evidence import Measured
from estimator.planning.explain import explained
from estimator.planning.formats import every_format, formats_of
from estimator.planning.offered import GpuFilter, gpu_filter, offered
from estimator.planning.own_measurements import with_stated
from estimator.planning.planner import market_of
from estimator.planning.present import echo, entry_of
from estimator.planning.repair import way_out
from estimator.planning.steps import Told, silently
from estimator.planning.ways import Ways, ways_of
from estimator.request.sections import Constraints, split_gpu
from estimator.request.workload import Workload
from pricing.instances import InstanceType
from pricing.offers import Market, Offer, OfferTable, PriceState, table_of
from pricing.sources.own import own_machine, own_table
from pricing.spot_history import SpotHistory

GPUS_PER_NODE = 8
"""Of a machine that no cloud rents: more GPUs than this are taken as several nodes."""


def estimate(
    workload: Workload,
    *,
    gpus: Sequence[str] | None = None,
    offers: OfferTable | None = None,
    now: datetime | None = None,
    measured: Measured = (),
    told: Told = silently,
    history: SpotHistory | None = None,
) -> EstimateDocument:
    """The workload on each `GPU[:COUNT]` of `gpus` (default: `constraints.gpus`) and on each own machine, in order.

    A GPU that an offer has in that number is priced by the cheapest such offer (on-demand unless `constraints.markets`
    says otherwise); any other is estimated from its datasheet and has no price. No count means one GPU. `told` hears
    of each machine and may stop the work by raising; `history` is how spot prices moved, as for a plan.

    Raises WorkloadError when no hardware is named.
    """
    moment = now or datetime.now(UTC)
    if formats_of(workload):
        same = partial(estimate, gpus=gpus, offers=offers, now=moment, measured=measured, told=told, history=history)
        return every_format(workload, same)
    job = job_of(workload)
    asked = tuple(gpus if gpus is not None else workload.constraints.gpus or ())
    if not asked and not workload.own:
        raise WorkloadError("say on which GPUs, for example H100:8", field="gpus", nearest=("H100:8", "A100-80GB"))
    market = market_of(workload, offers, moment)
    limits = workload.constraints
    if limits.markets is None:
        limits = limits.model_copy(update={"markets": (Market.ON_DEMAND,)})
    entries: list[EstimateEntry] = []
    rejected: dict[str, str] = {}
    own, disagreeing = with_stated(job, measured)
    warnings: list[str] = [*job.warnings, *disagreeing]
    hints: list[str] = []
    for text in asked:
        told("estimates", len(entries) + len(rejected), len(asked) + len(workload.own))
        name, count = split_gpu(text)
        gpu_filter([name])  # refuses what is no GPU
        match = resolve_gpu(name)
        if match.loose:
            others = ", ".join(match.alternatives)
            warnings.append(f"{text!r} is taken as {match.gpu.name}; it could also be {others}")
        wanted = GpuFilter({match.gpu.name: frozenset({count or match.count or 1.0})}, ())
        ways = _ways_on(job, market, limits, wanted, own, history)
        _add(job, ways, text, moment, entries, rejected, hints)
    for machine in workload.own:
        told("estimates", len(entries) + len(rejected), len(asked) + len(workload.own))
        alone = limits.model_copy(
            update={"clouds": ("own",), "markets": None, "instance_types": (escape(machine.name),)}
        )
        open_offers = offered(market, alone, GpuFilter({}, ()))
        table = open_offers.table
        if open_offers.last is not None:  # no price stated: the time is still worth knowing
            table = own_table([own_machine(machine.stated())], now=moment)
        _add(job, ways_of(job, table, GpuFilter({}, ()), own), machine.name, moment, entries, rejected, hints)
    return EstimateDocument(
        workload=echo(job),
        estimates=entries,
        rejected=rejected,
        assumptions=[str(assumption) for assumption in job.training.assumed],
        warnings=warnings,
        hints=hints,
    )


def _ways_on(
    job: Job,
    market: OfferTable,
    limits: Constraints,
    wanted: GpuFilter,
    measured: Measured,
    history: SpotHistory | None,
) -> Ways:
    """The ways to run the job on exactly these GPUs: rented if anybody rents them so, else by their datasheet."""
    table = offered(market, limits, wanted).table
    if len(table):
        ways = ways_of(job, table, wanted, measured, history=history)
        if len(ways):
            return ways
    ((gpu, counts),) = wanted.counts.items()
    (count,) = counts
    per_node = count if count <= GPUS_PER_NODE else float(GPUS_PER_NODE)
    return ways_of(job, _unrented(gpu, per_node, datetime.fromtimestamp(0, UTC)), wanted, measured)


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
    ways: Ways,
    asked: str,
    now: datetime,
    entries: list[EstimateEntry],
    rejected: dict[str, str],
    hints: list[str],
) -> None:
    """Append the best of `ways` (cheapest, or fastest where nothing is priced), or say why there is none."""
    if not len(ways):
        reasons = [words for _, words in ways.kinds.refused.values()]
        rejected[asked] = reasons[0] if reasons else ", ".join(ways.refused) or "gpu-count"
        if not reasons:
            found = way_out(job, ways.kinds.hardware, ways.fleet.hardware, ways.refused)
            hints.extend(f"{asked}: {hint}" for hint in found)
        return
    priced = np.isfinite(ways.cost).any()
    row = int(np.nanargmin(ways.cost)) if priced else int(np.argmin(ways.hours))
    entry = EstimateEntry(**entry_of(job, ways, row, now))
    entries.append(explained(job, entry, ways.table.offer(int(ways.offer[row])).cloud))
