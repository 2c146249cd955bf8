"""The HTTP face: `create_app` builds it, `app` is what a server runs (`estimator serve`, `uvicorn api.app:app`)."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware

from api import problems
from api.deps import Planners
from api.limits import BodyLimit
from api.market import Prices
from api.problems import Problem
from api.routes import catalogue, cells, health, manual, page, plan, sheets, tables
from api.settings import Settings, from_environment
from benchmarks_db.errors import EstimatorError

DESCRIPTION = "Train this model on this data: on which cloud GPUs, how long, how much, does it fit, how sure, and why?"


def _version() -> str:
    try:
        return version("gpu-cost-estimator")
    except PackageNotFoundError:  # run from a source tree
        return "0+unknown"


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application with its own settings; those of the environment unless given."""
    configured = settings or from_environment()
    problem = {"model": Problem, "content": {problems.MEDIA_TYPE: {}}}
    app = FastAPI(
        title="GPU training cost estimator",
        description=DESCRIPTION,
        version=_version(),
        docs_url=None,  # the framework's page loads scripts from elsewhere; ours works without a network
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat whatever Host header the client sent
        responses={"4XX": problem, "5XX": problem},
    )
    app.state.settings = configured
    app.state.prices = Prices(configured)
    app.state.planners = Planners(configured.planners)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    app.add_middleware(BodyLimit, limit=configured.max_body_bytes)
    problems.install(app)
    for room in (plan, catalogue, cells, tables, sheets, health, manual, page):
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
