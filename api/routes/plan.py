"""What will it cost, how long will it take, does it fit? Three questions, each answered by one domain function."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from api import examples
from api.deps import Asked, Configured, Heavy, Now, Priced, only_json
from api.predictions import RowsIn, RowsOut
from estimator import estimate, plan
from estimator.documents import EstimateDocument, PlanDocument
from estimator.predict import predict_rows

router = APIRouter(prefix="/v1", tags=["plan"], dependencies=[Depends(only_json)])


@router.post("/plan", operation_id="plan", response_model=PlanDocument, openapi_extra=examples.PLAN)
async def post_plan(asked: Asked, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """Ranked plans over every cloud and your own machines; `plans` is empty and `binding` set where nothing fits."""
    kinds = asked.constraints.accelerators
    return await heavy.answer(lambda: plan(asked, offers=prices.table(now, kinds), now=now))


@router.post("/estimate", operation_id="estimate", response_model=EstimateDocument, openapi_extra=examples.ESTIMATE)
async def post_estimate(asked: Asked, prices: Priced, now: Now, heavy: Heavy) -> Response:
    """The workload on each GPU of `constraints.gpus` (and `own`), in that order: time, memory, and why."""
    kinds = asked.constraints.accelerators
    return await heavy.answer(lambda: estimate(asked, offers=prices.table(now, kinds), now=now))


@router.post("/predict", operation_id="predict", response_model=RowsOut, openapi_extra=examples.PREDICT)
async def post_predict(asked: RowsIn, settings: Configured, heavy: Heavy) -> Response:
    """Training throughput of every row with its 80% interval; a row that cannot be predicted says so in `error`."""
    return await heavy.answer(lambda: RowsOut(rows=predict_rows(asked.texts(settings.max_predict_rows))))
