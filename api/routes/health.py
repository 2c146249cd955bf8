"""Is the server alive, can it answer, and what does it count?"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from api.deps import Configured, Now, Priced
from api.metrics import exposition

router = APIRouter(tags=["health"])
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Plans can be made: `offers` usable prices are at hand."""

    status: Literal["ready"] = "ready"
    offers: int
    database: Literal["ok", "silent"] = Field(
        "ok", description="silent: it does not answer, and what was read before is used for a few minutes"
    )


@router.get("/healthz", operation_id="health")
async def healthz() -> Health:
    """The process is alive; says nothing of prices."""
    return Health()


@router.get("/readyz", operation_id="readiness")
def readyz(prices: Priced, now: Now) -> Readiness:
    """The server has prices to plan with and a database that answers (or did a moment ago), else 503."""
    offers = prices.usable(now)
    return Readiness(offers=offers, database="ok" if prices.silent_since is None else "silent")


@router.get("/metrics", operation_id="metrics", response_class=Response,
            responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})  # fmt: skip
async def metrics(request: Request, settings: Configured) -> Response:
    """Prometheus metrics of all workers of this server."""
    if settings.metrics == "off":
        raise HTTPException(404)
    text = await run_in_threadpool(exposition, request.app.state.market_metrics.collect)
    return Response(text, headers={"content-type": TEXT, "cache-control": "no-store"})
