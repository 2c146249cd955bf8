"""Is the server alive, and can it answer?"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from api.deps import Now, Priced

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Plans can be made: `offers` usable prices are at hand."""

    status: Literal["ready"] = "ready"
    offers: int


@router.get("/healthz", operation_id="health")
async def healthz() -> Health:
    """The process is alive; says nothing of prices."""
    return Health()


@router.get("/readyz", operation_id="readiness")
def readyz(prices: Priced, now: Now) -> Readiness:
    """The server has prices to plan with, else 503."""
    return Readiness(offers=prices.usable(now))
