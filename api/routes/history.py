"""How did a price move? The steps that the server's store has seen, with their distribution over time."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from api.deps import Now, Priced
from api.pages import Page, PageQuery, aged, cut, respond
from api.routes.catalogue import Pattern
from pricing.market import Market
from pricing.store_queries import Series, price_history

router = APIRouter(prefix="/v1", tags=["catalogue"], responses={304: {"description": "the ETag still holds"}})


class HistoryQuery(PageQuery):
    """Which prices, and how far back."""

    instance_type: str = Field(min_length=1, max_length=200, description="name of a machine type, `p5.48xlarge`")
    cloud: Pattern
    region: Pattern
    market: Market | None = None
    days: float = Field(30.0, ge=0.01, le=3650, description="length of the window that ends now")


class PriceStep(BaseModel):
    """From this moment on, this price; null = not offered."""

    since: datetime
    price_usd_per_hour: float | None


class PriceSeries(BaseModel):
    """One price through the window; the figures weigh each price by how long it held."""

    cloud: str
    region: str
    zone: str | None
    zone_id: str | None
    instance_type: str
    market: Market
    min: float | None
    p10: float | None
    median: float | None
    p90: float | None
    max: float | None
    mean: float | None
    changes: int
    steps: list[PriceStep]


class HistoryPage(Page):
    """Prices by place and market, each with its steps; empty where the server has fetched none."""

    currency: Literal["USD"] = "USD"
    days: float
    series: list[PriceSeries]


@router.get("/prices/history", operation_id="price_history", response_model=HistoryPage)
def get_history(request: Request, query: Annotated[HistoryQuery, Query()], prices: Priced, now: Now) -> Response:
    """How the fetched prices of a machine type moved, by place and market; the shipped snapshot has no history."""
    clouds, regions = (query.cloud or "*").casefold(), (query.region or "*").casefold()

    def wanted(cloud: str, region: str) -> bool:
        return fnmatchcase(cloud.casefold(), clouds) and fnmatchcase(region.casefold(), regions)

    found: list[Series] = []
    if prices.store is not None:
        found = price_history(
            prices.store,
            now=now,
            days=query.days,
            instance_type=query.instance_type,
            market=None if query.market is None else query.market.value,
            where=wanted,
        )
    page, total, following = cut(found, _key, query)
    answer = HistoryPage(
        days=query.days,
        total=total,
        next=following,
        series=[PriceSeries.model_validate(one.document()) for one in page],
    )
    newest = max((one.steps[-1][0] for one in page if one.steps), default=None)
    return respond(request, answer, aged(newest, now))


def _key(one: Series) -> tuple[str, ...]:
    return (one.cloud, one.region, one.zone or "", one.zone_id or "", one.instance_type, one.market)
