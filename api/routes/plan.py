"""What will it cost, how long will it take, does it fit? Each question is answered by one domain function."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from api import examples
from api.deps import Asked, Heavy, Now, Priced, only_json
from estimator import estimate, plan
from estimator.documents import EstimateDocument, PlanDocument

router = APIRouter(prefix="/v1", tags=["plan"], dependencies=[Depends(only_json)])


@router.post("/plan", operation_id="plan", openapi_extra=examples.PLAN)
async def post_plan(asked: Asked, prices: Priced, now: Now, heavy: Heavy) -> PlanDocument:
    """Ranked plans over every cloud and your own machines; `plans` is empty and `binding` set where nothing fits."""
    kinds = asked.constraints.accelerators
    return await heavy.run(lambda: plan(asked, offers=prices.table(now, kinds), now=now))


@router.post("/estimate", operation_id="estimate", openapi_extra=examples.ESTIMATE)
async def post_estimate(asked: Asked, prices: Priced, now: Now, heavy: Heavy) -> EstimateDocument:
    """The workload on each GPU of `constraints.gpus` (and `own`), in that order: time, memory, and why."""
    kinds = asked.constraints.accelerators
    return await heavy.run(lambda: estimate(asked, offers=prices.table(now, kinds), now=now))
