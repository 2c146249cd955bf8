"""Many workloads in one request: each is answered or refused by itself, in the order in which they were sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.deps import bounded
from api.planners import Planners, out_of_time
from api.problems import Problem
from api.streams import Steps, problem
from benchmarks_db.errors import WorkloadError
from estimator import Workload
from estimator.documents import PlanDocument
from estimator.request.errors import unwritable


class BatchIn(BaseModel):
    """Workloads to plan; each one as the body of `/v1/plan`, read and refused by itself."""

    model_config = ConfigDict(extra="forbid")

    workloads: list[dict[str, Any]] = Field(min_length=1, description="each one as the body of `/v1/plan`")
    top: int = Field(1, ge=1, le=100, description="plans of each workload that does not say so itself")

    def check(self, limit: int) -> None:
        """WorkloadError for more workloads than a server takes."""
        if len(self.workloads) > limit:
            raise WorkloadError(
                f"at most {limit} workloads in one request", field="workloads", value=len(self.workloads)
            )


class BatchItem(BaseModel):
    """The answer to one workload: a plan or a problem."""

    index: int = Field(description="place in the request, from 0")
    name: str | None = Field(None, description="`name` of the workload")
    plan: PlanDocument | None = None
    problem: Problem | None = None


class BatchOut(BaseModel):
    """The answers, one for each workload, in order."""

    version: Literal["1"] = "1"
    answered: int = Field(description="workloads with a plan document, be it without a plan")
    failed: int = Field(description="workloads with a problem")
    results: list[BatchItem]


async def items(
    batch: BatchIn, planners: Planners, planned: Callable[[Workload, Steps], PlanDocument], seconds: float, path: str
) -> AsyncIterator[BatchItem]:
    """One answer after the other, one at a time so that a batch leaves planners to others.

    What is not reached within `seconds` gets a problem; leaving the iteration stops the work.
    """
    until = time.monotonic() + seconds
    for index, body in enumerate(batch.workloads):
        name = body.get("name")
        name = name if isinstance(name, str) and unwritable(name) is None else None
        left = until - time.monotonic()
        if left <= 0:
            yield BatchItem(index=index, name=name, problem=problem(out_of_time(seconds), path))
            continue
        steps = Steps()
        try:
            work = planners.start(partial(_planned, planned, body, batch.top, steps), patient=True)
            await asyncio.wait({work}, timeout=left)
            if not work.done():
                work.cancel()
                raise out_of_time(seconds)
            yield BatchItem(index=index, name=name, plan=work.result())
        except Exception as error:
            yield BatchItem(index=index, name=name, problem=problem(error, path))
        finally:
            steps.stop()


def _planned(
    planned: Callable[[Workload, Steps], PlanDocument], body: Mapping[str, Any], top: int, steps: Steps
) -> PlanDocument:
    return planned(_workload(body, top), steps)


def _workload(body: Mapping[str, Any], top: int) -> Workload:
    options = body.get("options", {})
    if isinstance(options, Mapping) and "top" not in options:
        body = {**body, "options": {**options, "top": top}}
    return bounded(Workload.model_validate(body))
