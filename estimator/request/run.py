"""What of the whole run does the person want counted: start-up, evaluation, checkpoints, failures, spot, the bill?"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from estimator.request.fields import (
    MAX_HOURS,
    Figure,
    FigureOrZero,
    Flag,
    Hours,
    Strict,
    UsdOrZero,
    choice,
    quantity,
    refused,
    said,
    schema,
    whole,
    words,
)
from estimator.request.quantities import parse_count, parse_hours, parse_percent, parse_share

Share = Annotated[float, quantity(parse_share, 0, 0.95, zero=True)]
Rate = Annotated[float, quantity(parse_count, 0, 1e3, zero=True)]
Factor = Annotated[float, quantity(parse_count, 1, 1e4)]
HoursOrZero = Annotated[
    float,
    quantity(parse_hours, 0, MAX_HOURS, zero=True),
    schema("number", "string", examples=["5m", 0], description="hours, or a duration with its unit; 0 turns it off"),
]
AZURE_BANDS = {  # as the portal words them, per cent an hour: the chance of an eviction within the hour, from and to
    "0-5": (0.0, 0.05), "5-10": (0.05, 0.10), "10-15": (0.10, 0.15), "15-20": (0.15, 0.20), "20+": (0.20, float("nan")),
}  # fmt: skip


def _hours_or_auto(value: object) -> object:
    return "auto" if isinstance(value, str) and value.strip().casefold() == "auto" else value


def _band(value: object) -> object:
    """`5-10%` as `5-10`."""
    return value.strip().removesuffix("%").strip() if isinstance(value, str) else value


def _currency(value: object) -> object:
    """`EUR=0.92` as a code and what one US dollar is worth in it."""
    if not isinstance(value, str):
        return value
    code, equals, rate = value.partition("=")
    if not equals or not code.strip() or not rate.strip():
        raise refused(f"{said(value)} is not CODE=RATE: what one US dollar is worth", ("EUR=0.92",))
    return {"code": code.strip(), "per_usd": rate.strip()}


def _code(value: object) -> object:
    """Three letters, as in ISO 4217; USD is what everything is counted in already."""
    text = str(value).strip().upper()
    if len(text) != 3 or not text.isascii() or not text.isalpha():
        raise refused(f"{said(value)} is not a code of three letters", ("EUR", "GBP"))
    if text == "USD":
        raise refused("every figure is in USD already; leave it out", ("EUR", "GBP"))
    return text


class Currency(Strict):
    """A second currency to show dollars in, at a rate that the user gives; no rate is ever looked up."""

    code: Annotated[str, BeforeValidator(_code)]
    per_usd: Figure  # units of it that one US dollar is worth


class SpotPolicy(StrEnum):
    """What a spot job does when it is interrupted: wait for capacity, or go on with on-demand machines."""

    WAIT = "wait"
    FALLBACK = "fallback"


class Evaluation(Strict):
    """How often the model is evaluated, and on how much."""

    every_steps: Annotated[int, whole(1, 10**9)] | None = None
    every_epochs: Figure | None = None  # instead of steps; 1: after each pass over the data
    samples: Figure

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        if (self.every_steps is None) == (self.every_epochs is None):
            raise refused("say how often: every_steps or every_epochs, one of the two", ("every_epochs", "every_steps"))
        return self


class Run(Strict):
    """The parts of a run besides its training steps; each has a sourced default and can be turned off."""

    start_up: Flag = True  # provisioning, image pull and warm-up
    start_up_hours: Hours | None = None  # all three together, instead of the sourced defaults
    provisioning_hours: HoursOrZero | None = None  # from asking for a machine to having it
    image_pull_hours: HoursOrZero | None = None
    warm_up_hours: HoursOrZero | None = None  # process start, communicators, compilation, first step
    data_gb: FigureOrZero | None = None  # staged before the first step; default: from tokens or images
    staging: Flag = True
    staging_gbps: Figure | None = None  # GB/s a node
    evaluation: Flag = True
    evaluation_share: Share | None = None  # of the run's time
    evaluate: Evaluation | None = None  # instead of a share
    checkpoints: Flag = True
    checkpoint_interval: Annotated[Hours | Literal["auto"], BeforeValidator(_hours_or_auto)] = "auto"
    checkpoint_async: Flag = False
    checkpoint_gbps: Figure | None = None  # GB/s of the whole job
    failures: Flag = True
    failures_per_gpu_hour: Rate | None = None
    repair_hours: HoursOrZero | None = None  # from a failure to running again
    finish_early: Annotated[float, quantity(parse_share, 0, 1)] = 1.0  # share of the epochs actually run
    trials: Annotated[int, whole(1, 100_000)] = 1  # seeds or points of a sweep, one after the other
    attempts: Factor = 1.0  # all dollars over those of the good run; off at 1


class Spot(Strict):
    """How spot machines behave and what the job does about it."""

    interruptions: Flag = True
    policy: Annotated[SpotPolicy, choice(SpotPolicy)] = SpotPolicy.WAIT
    fallback_after: Annotated[int, whole(0, 10_000)] = 3  # interruptions before a `fallback` job stays on-demand
    hazard_per_hour: Rate | None = None  # of one instance, instead of the prior
    azure_eviction: Annotated[str, words(AZURE_BANDS), BeforeValidator(_band)] | None = None  # per cent an hour
    wait: Hours | None = None  # for capacity after an interruption
    save_on_notice: Flag = False  # the job saves when it is told that it will be interrupted, if the notice is enough
    elastic: Flag = False  # the job goes on with the nodes that are left


class Bill(Strict):
    """What is paid besides machines."""

    storage: Flag = True  # the data set and checkpoints while the job runs
    checkpoints_kept: Annotated[int, whole(0, 100_000)] = 2
    disk_gb: FigureOrZero = 100.0  # block volume of each rented node: system, image, libraries (an assumption)
    egress_gb: FigureOrZero | None = None  # moved out of the cloud that the data lies in
    data_in: Annotated[str, Field(max_length=100)] | None = None  # cloud (aws, gcp, azure) or cloud/region of the data
    fixed_usd: UsdOrZero = 0.0
    tax_percent: Annotated[float, quantity(parse_percent, 0, 100, zero=True)] = 0.0
    energy: Flag = False  # kWh and kg CO2e as lines, off by default
    currency: Annotated[Currency | None, BeforeValidator(_currency)] = None  # shown beside USD
