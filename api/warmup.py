"""What makes the first request slow? Everything that is read, imported or drawn once; done here before anybody asks."""

from __future__ import annotations

import logging

from fastapi import FastAPI

from api.routes.page import warm_page
from benchmarks_db.errors import EstimatorError
from estimator import Workload
from estimator.planning.steps import silently

log = logging.getLogger("estimator.api")

USUAL = (
    {"model": "llama3-8b", "method": "lora", "tokens": "50M", "options": {"top": 1, "explain": True}},
    {"model": "resnet50", "images": "1M", "options": {"top": 1}},
)
"""One request of each family of models: what they need is then at hand for all others."""


def warm(app: FastAPI) -> None:
    """Read the facts and prices, draw the page once, write the OpenAPI document; a second or two, in a thread.

    A server answers while this runs. What cannot be done now is said by the request that needs it.
    """
    try:
        now = app.state.settings.clock()
        for request in USUAL:
            app.state.plans.planned(Workload.model_validate(request), now, silently)
        app.openapi()
        warm_page(app)
    except EstimatorError as error:
        log.warning("the server is not warm: %s", error)
