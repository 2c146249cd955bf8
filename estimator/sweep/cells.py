"""What is the answer to one cell of a grid? The rows of its plans, or one row that says why there is none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchmarks_db.errors import EstimatorError, PricesUnavailable
from estimator.job import Job, job_of
from estimator.planning.evidence import Measured
from estimator.planning.offered import GpuFilter, gpu_filter, offered
from estimator.planning.planner import WaysFrom, market_of, plan
from estimator.planning.step_times import StepTimes
from estimator.planning.steps import Told
from estimator.planning.ways import Possible, ways_of
from estimator.risk.spot_spread import SpotSpread
from estimator.sheets.answers import Market, one_line
from estimator.sweep.spec import ANSWER, AS_OF, LIMITS, Spec, blamed, probes
from pricing.offers import OfferTable
from pricing.spot_history import SpotHistory

Row = dict[str, Any]
OK, NO_PLAN, INVALID, NO_PRICE, FAULT = "ok", "no-plan", "invalid", "no-price", "fault"
KEPT = 4  # jobs whose ways are remembered: as many as number formats that one cell may compare
STATUSES = (OK, NO_PLAN, INVALID, NO_PRICE, FAULT)


@dataclass(frozen=True)
class Question:
    """All that the cells of a sweep are worked out from."""

    spec: Spec
    markets: Mapping[str, Market]  # by date of the prices as the grid writes it; "" = without one
    measured: Measured = ()
    histories: Mapping[str, SpotHistory] = field(default_factory=dict)  # of spot prices, by the same dates


@dataclass(slots=True)
class Physics:
    """The ways of the last few jobs, kept for the next cells, which often differ in their limits alone."""

    ways: OrderedDict[tuple[str, datetime, str], Possible] = field(default_factory=OrderedDict)
    step_times: StepTimes = field(default_factory=StepTimes)
    reused: int = 0

    def sharing(self, market: Market, history: SpotHistory | None) -> WaysFrom:
        """`ways_of` for cells of one market, which knows the ways of the job before."""

        def ways(
            job: Job, table: OfferTable, gpus: GpuFilter, measured: Measured, told: Told, spread: SpotSpread
        ) -> Possible:
            key = (market.state, market.now, physics_of(job))  # by the moment: negotiated prices begin and end
            known = self.ways.get(key)
            if known is not None:
                self.reused += 1
                return known
            found = self.ways[key] = ways_of(job, table, gpus, measured, told, spread, history, self.step_times)
            while len(self.ways) > KEPT:
                self.ways.popitem(last=False)
            return found

        return ways


def physics_of(job: Job) -> str:
    """Everything of a request that decides which ways there are, as text: all but the limits and the answer's form."""
    return job.workload.model_dump_json(exclude={"constraints": set(LIMITS)} | dict.fromkeys(ANSWER, True))


def rows_of(question: Question, cell: int, physics: Physics) -> list[Row]:
    """The rows of one cell: a row for each plan asked for, else one with the reason.

    What is wrong with a cell is part of its row, a fault of this program included: one cell must not end a sweep.
    """
    varied, shown = question.spec.varied(cell), question.spec.shown(cell)
    head: Row = {"cell": cell, **{f"asked_{key}": value for key, value in shown.items()}}
    date = str(varied.get(AS_OF, ""))
    market, history = question.markets[date], question.histories.get(date)
    try:
        workload = question.spec.workload(varied)
        document = plan(
            workload,
            offers=market.offers,
            now=market.now,
            measured=question.measured,
            ways_from=physics.sharing(market, history),
            history=history,
        )
    except PricesUnavailable as error:
        return [head | {"status": NO_PRICE, "error": one_line(error)}]
    except EstimatorError as error:
        return [head | {"status": INVALID, "error": one_line(error)}]
    except Exception as fault:
        return [head | {"status": FAULT, "error": f"internal fault: {type(fault).__name__}: {fault}"[:1000]}]
    if document.plans:
        return [head | {"status": OK, **row} for row in document.records()]
    hint = f": {document.hints[0]}" if document.hints else ""
    why = f"no plan satisfies the request, {document.binding} stands in the way{hint}"
    return [head | {"status": NO_PLAN, "binding": document.binding, "error": why}]


def check(question: Question) -> None:
    """Try every value of every axis once; WorkloadError names the first that no cell can use, and the nearest that can.

    What is wrong with a combination only is left to its cells.
    """
    for axis, number, varied in probes(question.spec):
        market = question.markets[str(varied.get(AS_OF, ""))]
        try:
            workload = question.spec.workload(varied)
            job_of(workload)
            offers = market_of(workload, market.offers, market.now)
            offered(offers, workload.constraints, gpu_filter(workload.constraints.gpus))
        except PricesUnavailable:
            continue
        except EstimatorError as error:
            mine = blamed(error, axis, number)
            if mine is not None:
                raise mine from None
