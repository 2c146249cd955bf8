"""What will it cost, how long will it take, does it fit? Three questions, each answered by one domain function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from api import examples
from api.batches import BatchIn, BatchItem, BatchOut, items
from api.deps import Asked, Configured, Heavy, Now, Priced, Remembered, only_json
from api.predictions import RowsIn, RowsOut
from api.streams import LEFT, LINES, UNCACHED, Steps, answered, wants, while_there
from estimator import Workload, estimate
from estimator.documents import EstimateDocument, PlanDocument
from estimator.rows.predict import predict_rows

router = APIRouter(prefix="/v1", tags=["plan"], dependencies=[Depends(only_json)])


@router.post("/plan", operation_id="plan", response_model=PlanDocument, openapi_extra=examples.PLAN)
async def post_plan(request: Request, asked: Asked, plans: Remembered, now: Now, heavy: Heavy) -> Response:
    """Ranked plans over every cloud and your own machines; `plans` is empty and `binding` set where nothing fits.

    With `Accept: text/event-stream` the answer comes as events: `progress`, then `result` or `problem`.
    """

    def planned(steps: Steps) -> PlanDocument:
        return plans.planned(asked, now, steps)

    return await answered(request, heavy, planned)


@router.post(
    "/estimate",
    operation_id="estimate",
    response_model=EstimateDocument,
    openapi_extra=examples.ESTIMATE,
)
async def post_estimate(
    request: Request, asked: Asked, prices: Priced, plans: Remembered, now: Now, heavy: Heavy
) -> Response:
    """The workload on each GPU of `constraints.gpus` (and `own`), in that order: time, memory, and why.

    With `Accept: text/event-stream` the answer comes as events: `progress`, then `result` or `problem`.
    """

    def estimated(steps: Steps) -> EstimateDocument:
        offers = prices.table(now, asked.constraints.accelerators)
        history = prices.history_for(asked, now)
        return estimate(
            asked,
            offers=offers,
            now=now,
            measured=prices.measured(now),
            told=steps,
            history=history,
            step_times=plans.step_times,
        )

    return await answered(request, heavy, estimated)


@router.post("/batch", operation_id="batch", response_model=BatchOut, openapi_extra=examples.BATCH)
async def post_batch(
    request: Request, asked: BatchIn, plans: Remembered, now: Now, heavy: Heavy, settings: Configured
) -> Response:
    """A plan, or the problem, of each of many workloads, in order.

    With `Accept: application/x-ndjson` the answers come one a line, as they are made.
    """
    asked.check(settings.max_batch)

    def planned(workload: Workload, steps: Steps) -> PlanDocument:
        return plans.planned(workload, now, steps)

    def answers(seconds: float) -> AsyncIterator[BatchItem]:
        return items(asked, heavy, planned, seconds, request.url.path)

    if wants(request, LINES):
        lines = (item.model_dump_json() + "\n" async for item in answers(settings.batch_seconds))
        return StreamingResponse(lines, media_type=LINES, headers=UNCACHED)

    async def collected() -> list[BatchItem]:
        return [item async for item in answers(settings.request_seconds)]

    results = await while_there(request, asyncio.ensure_future(collected()), seconds=None)  # each item has its budget
    if results is None:
        return LEFT
    failed = sum(item.problem is not None for item in results)
    return await heavy.answer(lambda: BatchOut(answered=len(results) - failed, failed=failed, results=results))


@router.post("/predict", operation_id="predict", response_model=RowsOut, openapi_extra=examples.PREDICT)
async def post_predict(asked: RowsIn, settings: Configured, heavy: Heavy) -> Response:
    """Training throughput of every row with its 80% interval; a row that cannot be predicted says so in `error`."""
    return await heavy.answer(lambda: RowsOut(rows=predict_rows(asked.texts(settings.max_predict_rows))))
