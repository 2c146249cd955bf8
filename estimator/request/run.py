"""What of the whole run does the person want counted: start-up, evaluation, checkpoints, failures, spot, the bill?"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from estimator.request.fields import Figure, FigureOrZero, Flag, Hours, Strict, UsdOrZero, choice, quantity, whole
from estimator.request.quantities import parse_count

Share = Annotated[float, quantity(parse_count, 0, 0.95, zero=True)]
Rate = Annotated[float, quantity(parse_count, 0, 1e3, zero=True)]
Factor = Annotated[float, quantity(parse_count, 1, 1e4)]


def _hours_or_auto(value: object) -> object:
    return "auto" if isinstance(value, str) and value.strip().casefold() == "auto" else value


class SpotPolicy(StrEnum):
    """What a spot job does when it is interrupted: wait for capacity, or go on with on-demand machines."""

    WAIT = "wait"
    FALLBACK = "fallback"


class Evaluation(Strict):
    """How often the model is evaluated, and on how much."""

    every_steps: Annotated[int, whole(1, 10**9)]
    samples: Figure


class Run(Strict):
    """The parts of a run besides its training steps; each has a sourced default and can be turned off."""

    start_up: Flag = True  # provisioning, image pull and process start
    start_up_hours: Hours | None = None  # instead of the sourced default
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
    finish_early: Annotated[float, quantity(parse_count, 0, 1)] = 1.0  # share of the epochs actually run
    trials: Annotated[int, whole(1, 100_000)] = 1  # seeds or points of a sweep, one after the other
    attempts: Factor = 1.0  # all dollars over those of the good run; off at 1


class Spot(Strict):
    """How spot machines behave and what the job does about it."""

    interruptions: Flag = True
    policy: Annotated[SpotPolicy, choice(SpotPolicy)] = SpotPolicy.WAIT
    fallback_after: Annotated[int, whole(0, 10_000)] = 3  # interruptions before a `fallback` job stays on-demand
    hazard_per_hour: Rate | None = None  # of one instance, instead of the prior
    wait: Hours | None = None  # for capacity after an interruption
    elastic: Flag = False  # the job goes on with the nodes that are left


class Bill(Strict):
    """What is paid besides machines."""

    storage: Flag = True  # the data set and checkpoints while the job runs
    checkpoints_kept: Annotated[int, whole(0, 100_000)] = 2
    egress_gb: FigureOrZero | None = None  # moved out of the cloud that the data lies in
    data_in: Annotated[str, Field(max_length=100)] | None = None  # cloud (aws, gcp, azure) or cloud/region of the data
    fixed_usd: UsdOrZero = 0.0
    tax_percent: Annotated[float, quantity(parse_count, 0, 100, zero=True)] = 0.0
    energy: Flag = False  # kWh and kg CO2e as lines, off by default
