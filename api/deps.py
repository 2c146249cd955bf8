"""What does a route need besides the request? The clock, the settings, and a place for heavy work."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from pydantic import AfterValidator

from api.listing_cache import Listings
from api.market import Prices
from api.plan_cache import Plans
from api.planners import Planners
from api.settings import Settings
from benchmarks_db.errors import WorkloadError
from estimator.request.measured_text import EXAMPLE, is_text
from estimator.request.workload import Workload


def only_json(request: Request) -> None:
    """415 for a body of another kind: `curl --data` alone, for one, sends a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(
            415, f"the body is {kind or 'of no stated kind'}: send JSON, with content-type: application/json"
        )


MOST_NAMED = 100  # GPUs or own machines of one request, each of which is a search of its own
MOST_PLANS = 1000


def bounded(workload: Workload) -> Workload:
    """A request whose work is bounded and that names no files; WorkloadError for any other."""
    for field, count, most in (
        ("own", len(workload.own), MOST_NAMED),
        ("measured", len(workload.measured), MOST_NAMED),
        ("constraints.gpus", len(workload.constraints.gpus or ()), MOST_NAMED),
        ("options.top", workload.options.top, MOST_PLANS),
    ):
        if count > most:
            raise WorkloadError(f"a server takes at most {most} in one request", field=field, value=count)
    return _without_files(workload)


def _without_files(workload: Workload) -> Workload:
    """A server opens no path that a request names: what is in files on a laptop comes in the body here."""
    if isinstance(workload.hf_config, str):
        raise WorkloadError(
            "send the content of config.json, not its path", field="hf_config", value=workload.hf_config
        )
    for text in workload.measured:
        if not is_text(text):
            raise WorkloadError(
                "files are read on the command line only; say it in words",
                field="measured",
                value=text,
                nearest=(EXAMPLE,),
            )
    return workload


# These look something up and nothing more. As coroutines they run where they are called; plain functions would each
# wait for a thread of their own, which costs a cell more than its answer.


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _planners(request: Request) -> Planners:
    planners: Planners = request.app.state.planners
    return planners


async def _prices(request: Request) -> Prices:
    prices: Prices = request.app.state.prices
    return prices


async def _listings(request: Request) -> Listings:
    listings: Listings = request.app.state.listings
    return listings


async def _plans(request: Request) -> Plans:
    plans: Plans = request.app.state.plans
    return plans


async def _now(settings: Annotated[Settings, Depends(_settings)]) -> datetime:
    return settings.clock()


Asked = Annotated[Workload, AfterValidator(bounded)]
Configured = Annotated[Settings, Depends(_settings)]
Now = Annotated[datetime, Depends(_now)]
Priced = Annotated[Prices, Depends(_prices)]
Heavy = Annotated[Planners, Depends(_planners)]
Kept = Annotated[Listings, Depends(_listings)]
Remembered = Annotated[Plans, Depends(_plans)]
