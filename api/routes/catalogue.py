"""What is known? GPUs, models, instance types, offers and measurements, in filtered pages with ETags."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from api.deps import Kept, Now, Priced
from api.listing_cache import KeptRoute, Made
from api.pages import Page, PageQuery, aged, cards, cut, matching, past, respond
from api.records import Measured, OfferRow, measured_rows, offer_key, offer_rows
from benchmarks_db.gpus import Gpu, gpus
from benchmarks_db.models import ModelFacts, models
from estimator.request.fields import Accelerators
from pricing.instances import InstanceType, instance_types
from pricing.market import Market

router = APIRouter(
    prefix="/v1", tags=["catalogue"], route_class=KeptRoute, responses={304: {"description": "the ETag still holds"}}
)

Pattern = Annotated[str | None, Field(None, max_length=200, description="a name, or a pattern such as `A100*`")]


class GpuQuery(PageQuery):
    """Filters of the GPU table."""

    name: Pattern
    vendor: Pattern
    kind: Pattern


class ModelQuery(PageQuery):
    """Filters of the model table."""

    name: Pattern
    kind: Pattern


class InstanceQuery(PageQuery):
    """Filters of the instance types."""

    cloud: Pattern
    instance_type: Pattern
    gpu: Pattern


class OfferQuery(PageQuery):
    """Filters of the offers."""

    cloud: Pattern
    region: Pattern
    zone: Pattern
    instance_type: Pattern
    gpu: Pattern
    market: Market | None = None
    accelerators: Accelerators = Field(Accelerators.GPU, description="`any` lists Trainium and TPU machines too")
    all: bool = Field(False, description="offers without a price or with an unknown GPU too")


class OfferListQuery(OfferQuery):
    """Filters of the listing of offers, which also knows the past."""

    as_of: str | None = Field(
        None,
        max_length=40,
        pattern=r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?$",
        description="as known at this moment, `2026-07-01` or ISO 8601 with a time; UTC unless it says otherwise",
    )


class BenchmarkQuery(PageQuery):
    """Filters of the measurements."""

    source: Pattern
    model: Pattern
    gpu: Pattern
    precision: Pattern
    task: Pattern


class GpuPage(Page):
    """Accelerators with their datasheet figures."""

    gpus: list[Gpu]


class ModelPage(Page):
    """Models with their shapes."""

    models: list[ModelFacts]


class InstancePage(Page):
    """Machine shapes of the clouds."""

    instances: list[InstanceType]


class OfferPage(Page):
    """What can be rented, where, at which price."""

    currency: Literal["USD"] = "USD"
    offers: list[OfferRow]


class BenchmarkPage(Page):
    """Measured training throughputs with their sources."""

    benchmarks: list[Measured]


@router.get("/gpus", operation_id="list_gpus", response_model=GpuPage)
async def list_gpus(request: Request, query: Annotated[GpuQuery, Query()], kept: Kept, now: Now) -> Response:
    """Accelerators that are planned or listed, with dense datasheet rates."""

    def made() -> Made:
        rows = matching(cards(gpus().values(), query.name), {"vendor": query.vendor, "kind": query.kind})
        page, total, following = cut(rows, lambda gpu: (gpu.name,), query)
        return GpuPage(gpus=page, total=total, next=following), None

    return (await kept.page(request, made)).answer(request, now)


@router.get("/models", operation_id="list_models", response_model=ModelPage)
async def list_models(request: Request, query: Annotated[ModelQuery, Query()], kept: Kept, now: Now) -> Response:
    """Models that can be named in a request, with their shapes."""

    def made() -> Made:
        rows = matching(models().values(), {"name": query.name, "kind": query.kind})
        page, total, following = cut(rows, lambda model: (model.name,), query)
        return ModelPage(models=page, total=total, next=following), None

    return (await kept.page(request, made)).answer(request, now)


@router.get("/instances", operation_id="list_instances", response_model=InstancePage)
async def list_instances(request: Request, query: Annotated[InstanceQuery, Query()], kept: Kept, now: Now) -> Response:
    """Machine shapes with their GPUs, host and network."""

    def made() -> Made:
        wanted = {"cloud": query.cloud, "instance_type": query.instance_type, "gpu": query.gpu}
        rows = matching(instance_types().values(), wanted)
        page, total, following = cut(rows, lambda shape: (shape.cloud, shape.instance_type), query)
        return InstancePage(instances=page, total=total, next=following), None

    return (await kept.page(request, made)).answer(request, now)


@router.get("/offers", operation_id="list_offers", response_model=OfferPage)
async def list_offers(
    request: Request, query: Annotated[OfferListQuery, Query()], prices: Priced, now: Now, kept: Kept
) -> Response:
    """Prices by place and market, each with its source, its time and how far it can be relied on."""
    names = ("cloud", "region", "zone", "instance_type", "gpu", "market")
    moment = past(query.as_of, now)

    def made() -> Made:
        offers = prices.sorted_offers(now, query.accelerators, every=query.all, as_of=moment)
        rows = matching(offers, {name: getattr(query, name) for name in names})
        page, total, following = cut(rows, offer_key, query)
        observed = [offer.observed_at for offer in page if offer.observed_at is not None]
        return OfferPage(offers=offer_rows(page), total=total, next=following), max(observed, default=None)

    if moment is not None:
        answer, newest = await run_in_threadpool(made)
        return respond(request, answer, aged(newest, moment))
    market = prices.recent(now, query.accelerators)
    if market is None:
        market = await run_in_threadpool(prices.market, now, query.accelerators)
    page = await kept.page(request, made, (query.accelerators, market.state))
    return page.answer(request, now)


@router.get("/benchmarks", operation_id="list_benchmarks", response_model=BenchmarkPage)
async def list_benchmarks(
    request: Request, query: Annotated[BenchmarkQuery, Query()], kept: Kept, now: Now
) -> Response:
    """Measured training throughputs: what the estimates are fitted on and corrected by."""

    def made() -> Made:
        names = ("source", "model", "gpu", "precision", "task")
        rows = matching(measured_rows(), {name: getattr(query, name) for name in names})
        page, total, following = cut(rows, lambda row: (row.id,), query)
        return BenchmarkPage(benchmarks=page, total=total, next=following), None

    return (await kept.page(request, made)).answer(request, now)
