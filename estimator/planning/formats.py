"""Which number format is best, where a request allows several? One plan a format, and what is best of all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from estimator.documents import EstimateDocument, PlanDocument, PlanEntry
from estimator.planning.fronts import pareto_front
from estimator.request.fields import Sort
from estimator.request.workload import Workload
from estimator.terms import Precision


def formats_of(workload: Workload) -> tuple[Precision, ...]:
    """The formats that the request lets the search choose among; empty where it leaves no choice."""
    return tuple(dict.fromkeys(workload.constraints.precisions or ()))


def in_format(workload: Workload, precision: Precision) -> Workload:
    """The request in one format."""
    limits = workload.constraints.model_copy(update={"precisions": None})
    return workload.model_copy(update={"precision": precision, "constraints": limits})


def best_formats(workload: Workload, planned: Callable[[Workload], PlanDocument]) -> PlanDocument:
    """The plans of all formats, ranked together; what stands in the way of the first format where none has a plan."""
    documents = [planned(in_format(workload, precision)) for precision in formats_of(workload)]
    feasible = [document for document in documents if document.plans]
    if not feasible:
        return documents[0]
    every = [entry for document in feasible for entry in document.plans]
    points = [point for document in feasible for point in document.frontier]
    front = pareto_front(np.array([p.hours for p in points]), np.array([p.cost_usd for p in points]))
    frontier = sorted((p for p, kept in zip(points, front, strict=True) if kept), key=lambda p: (p.hours, p.cost_usd))
    on_front = {(p.hours, p.cost_usd) for p in frontier}
    ordered = sorted(every, key=lambda entry: _order(entry, workload.options.sort))[: workload.options.top]
    plans = [
        entry.model_copy(
            update={
                "rank": rank,
                "pareto": entry.cost_usd is not None and (entry.hours.p50, entry.cost_usd.p50) in on_front,
            }
        )
        for rank, entry in enumerate(ordered, start=1)
    ]
    best = next(document for document in feasible if any(entry is ordered[0] for entry in document.plans))
    refused = [f"{p}: {d.binding}" for p, d in zip(formats_of(workload), documents, strict=True) if d.binding]
    warnings = list(dict.fromkeys(text for document in documents for text in document.warnings))
    warnings += [f"no plan in {text}" for text in refused]
    return best.model_copy(update={"plans": plans, "frontier": frontier, "warnings": warnings})


def every_format(workload: Workload, estimated: Callable[[Workload], EstimateDocument]) -> EstimateDocument:
    """The estimates of each format, one after the other."""
    documents = [estimated(in_format(workload, precision)) for precision in formats_of(workload)]
    rejected = {
        f"{name} in {precision}": reason
        for precision, document in zip(formats_of(workload), documents, strict=True)
        for name, reason in document.rejected.items()
    }
    return documents[0].model_copy(
        update={
            "estimates": [entry for document in documents for entry in document.estimates],
            "rejected": rejected,
            "warnings": list(dict.fromkeys(text for document in documents for text in document.warnings)),
            "hints": list(dict.fromkeys(text for document in documents for text in document.hints)),
            "closest": {
                f"{name} in {precision}": nearest
                for precision, document in zip(formats_of(workload), documents, strict=True)
                for name, nearest in document.closest.items()
            },
        }
    )


def _order(entry: PlanEntry, sort: Sort) -> tuple[float, float]:
    cost = entry.cost_usd.p50 if entry.cost_usd else float("inf")
    hours = entry.hours.p50
    return {
        Sort.COST: (cost, hours),
        Sort.EXPECTED: (entry.risk.expected_cost_usd or cost, cost),
        Sort.TIME: (hours, cost),
        Sort.VALUE: (cost * hours, cost),
        Sort.GPUS: (entry.gpus, cost),
    }[sort]
