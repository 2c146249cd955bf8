"""What will it cost, how long will it take, does it fit? Each question is answered by one domain function."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from api import examples
from api.deps import Asked, Configured, Heavy, Now, only_json
from api.market import offers_for
from estimator import estimate, plan
from estimator.documents import EstimateDocument, PlanDocument

router = APIRouter(prefix="/v1", tags=["plan"], dependencies=[Depends(only_json)])


@router.post("/plan", operation_id="plan", openapi_extra=examples.PLAN)
async def post_plan(asked: Asked, settings: Configured, now: Now, heavy: Heavy) -> PlanDocument:
    """Ranked plans over every cloud and your own machines; `plans` is empty and `binding` set where nothing fits."""
    offers = offers_for(settings, now, asked.constraints.accelerators)
    return await heavy.run(plan, asked, offers=offers, now=now)


@router.post("/estimate", operation_id="estimate", openapi_extra=examples.ESTIMATE)
async def post_estimate(asked: Asked, settings: Configured, now: Now, heavy: Heavy) -> EstimateDocument:
    """The workload on each GPU of `constraints.gpus` (and `own`), in that order: time, memory, and why."""
    offers = offers_for(settings, now, asked.constraints.accelerators)
    return await heavy.run(estimate, asked, offers=offers, now=now)
