"""The HTTP face: `create_app` builds it, `app` is what a server runs (`estimator serve`, `uvicorn api.app:app`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette_compress import CompressMiddleware, add_compress_type

from api import problems
from api.access import Access, KeyRing
from api.cell_errors import CellErrors
from api.envelope import Envelope
from api.heads import Heads
from api.limits import BodyLimit
from api.listing_cache import Listings
from api.market import Prices
from api.market_metrics import MarketMetrics
from api.openapi import described
from api.plan_cache import Plans
from api.planners import Planners
from api.problems import Problem
from api.rates import Rates
from api.refreshing import Refresher
from api.routes import catalogue, cells, health, history, manual, page, plan, schemas, sheets, tables
from api.settings import Settings, from_environment
from api.shared import shared_of
from api.tracing import Traced, tracing_of
from api.warmup import warm
from benchmarks_db.errors import EstimatorError
from pricing.refresh_reach import Reach
from pricing.store import Store

DESCRIPTION = "Train this model on this data: on which cloud GPUs, how long, how much, does it fit, how sure, and why?"


def _version() -> str:
    try:
        return version("gpu-cost-estimator")
    except PackageNotFoundError:  # run from a source tree
        return "0+unknown"


class Application(FastAPI):
    """FastAPI whose document also says what the framework does not see: keys, examples, headers."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = described(super().openapi())
        return self.openapi_schema


MOST_WARMING = 10.0  # seconds; then requests are served while it goes on


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Be warm before the first request, keep prices fresh while serving, let go of everything at the end."""
    settings: Settings = app.state.settings
    await asyncio.wait({asyncio.ensure_future(asyncio.to_thread(warm, app))}, timeout=MOST_WARMING)
    refresher = Refresher(settings) if settings.refresh_minutes and not settings.offline else None
    if refresher is not None:
        refresher.start()
    yield
    if refresher is not None:
        refresher.stop()
    await app.state.shared.close()
    app.state.tracing.close()


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application with its own settings; those of the environment unless given."""
    configured = settings or from_environment()
    problem = {"model": Problem, "content": {problems.MEDIA_TYPE: {}}}
    app = Application(
        title="GPU training cost estimator",
        description=DESCRIPTION,
        version=_version(),
        docs_url=None,  # the framework's page loads scripts from elsewhere; ours works without a network
        redoc_url=None,
        lifespan=_life,
        redirect_slashes=False,  # a redirect would repeat whatever Host header the client sent
        responses={"4XX": problem, "5XX": problem},
    )
    app.state.settings = configured
    app.state.prices = Prices(configured)
    app.state.listings = Listings()
    app.state.plans = Plans(app.state.prices)
    app.state.market_metrics = MarketMetrics(app.state.prices, configured.clock, Reach.of(configured.clouds))
    app.state.shared = shared_of(configured.redis_url.get_secret_value() if configured.redis_url else None)
    app.state.tracing = tracing_of(configured.tracing)
    app.state.planners = Planners(
        configured.planners,
        seconds=configured.request_seconds,
        waiting=configured.max_waiting,
        tracing=app.state.tracing,
    )
    # The last one added is the outermost: every answer gets its envelope, and nobody is read who may not ask.
    app.add_middleware(
        BodyLimit,
        limit=configured.max_body_bytes,
        seconds=configured.body_seconds,
        depth=configured.max_json_depth,
    )
    for kind in ("text/csv", "application/problem+json", "application/schema+json"):
        add_compress_type(kind)
    add_compress_type("application/x-ndjson", streaming=True)  # lines leave as they come
    app.add_middleware(CompressMiddleware, minimum_size=1024, zstd=False, brotli_quality=5, gzip_level=5)
    app.add_middleware(Heads, apart=frozenset({"/v1/cell", "/v1/cell.xml"}))  # without working the cell out
    keys = KeyRing(Store(configured.store_url), configured.outage_seconds)
    app.add_middleware(Access, settings=configured, keys=keys, rates=Rates(app.state.shared))
    app.add_middleware(CellErrors)
    if configured.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=configured.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "if-none-match", "x-api-key", "x-request-id"],
            expose_headers=["age", "etag", "ratelimit", "ratelimit-policy", "retry-after", "x-request-id"],
            max_age=600,
        )
    if app.state.tracing.on:
        app.add_middleware(Traced, tracing=app.state.tracing)
    app.add_middleware(Envelope)
    problems.install(app)
    for room in (plan, catalogue, history, cells, tables, sheets, schemas, health, manual, page):
        app.include_router(room.router)
    return app


def _app_of_environment() -> FastAPI:
    """`app` for servers that import it by name; a setting that cannot be used ends the process with one line."""
    try:
        return create_app()
    except EstimatorError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


app = _app_of_environment()
