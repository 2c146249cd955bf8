"""What does a route need besides the request? The clock, the settings, and a place for heavy work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, HTTPException, Request, Response
from pydantic import AfterValidator, BaseModel

from api.market import Prices
from api.settings import Settings
from benchmarks_db.errors import WorkloadError
from estimator.workload import Workload

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Planners:
    """Runs the domain's heavy functions off the event loop, a few at a time, so that listings stay quick."""

    def __init__(self, at_once: int) -> None:
        self._limiter = CapacityLimiter(at_once)

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """The result of `function(*args, **kwargs)`, computed in a worker thread."""
        return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=self._limiter)

    async def answer(self, function: Callable[[], BaseModel]) -> Response:
        """The document that `function` makes, as JSON; written in the same thread, since documents can be large."""
        body = await self.run(lambda: function().model_dump_json())
        return Response(body, media_type="application/json")


def only_json(request: Request) -> None:
    """415 for a body of another kind: `curl --data` alone, for one, sends a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(
            415, f"the body is {kind or 'of no stated kind'}: send JSON, with content-type: application/json"
        )


def _without_files(workload: Workload) -> Workload:
    """A server opens no path that a request names: what is in files on a laptop comes in the body here."""
    if isinstance(workload.hf_config, str):
        raise WorkloadError(
            "send the content of config.json, not its path", field="hf_config", value=workload.hf_config
        )
    if workload.measured:
        raise WorkloadError("files are read on the command line only", field="measured", value=workload.measured[0])
    return workload


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _planners(request: Request) -> Planners:
    planners: Planners = request.app.state.planners
    return planners


def _prices(request: Request) -> Prices:
    prices: Prices = request.app.state.prices
    return prices


def _now(settings: Annotated[Settings, Depends(_settings)]) -> datetime:
    return settings.clock()


Asked = Annotated[Workload, AfterValidator(_without_files)]
Configured = Annotated[Settings, Depends(_settings)]
Now = Annotated[datetime, Depends(_now)]
Priced = Annotated[Prices, Depends(_prices)]
Heavy = Annotated[Planners, Depends(_planners)]
