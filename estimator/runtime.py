"""How long does the whole run take on the clock: steps, and what happens before the first one?

Only what a sourced fact supports is counted; interruptions, evaluation and checkpoints are not part of this yet, and
plans say so.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Seconds:
    """A sourced duration: low and high are the range of the sources, not an interval of a fit."""

    low: float
    typical: float
    high: float
    source: str


@cache
def _defaults() -> dict[tuple[str, str], Seconds]:
    with (files("estimator") / "data" / "run_defaults.csv").open(encoding="utf-8") as lines:
        return {
            (row["part"], row["cloud"]): Seconds(
                float(row["low"]), float(row["typical"]), float(row["high"]), row["source"]
            )
            for row in csv.DictReader(lines)
        }


def start_up_parts(cloud: str) -> dict[str, Seconds]:
    """What passes between asking a cloud for machines and the first step; an own machine only starts the process.

    The search for capacity is not in it: no source measures it.
    """
    known = _defaults()
    parts = {"process_start": known["process_start", ""]}
    if ("vm_ready", cloud) in known:
        parts = {"vm_ready": known["vm_ready", cloud], "image_pull": known["image_pull", ""]} | parts
    return parts


def start_up_seconds(cloud: str) -> Seconds:
    """Sum of `start_up_parts(cloud)`, seconds.

    >>> start_up_seconds("own").typical
    108.0
    """
    parts = start_up_parts(cloud).values()
    return Seconds(
        sum(p.low for p in parts),
        sum(p.typical for p in parts),
        sum(p.high for p in parts),
        "; ".join(p.source for p in parts),
    )


def optimizer_steps(samples: float, global_batch: float) -> int:
    """Steps of the run: ceil(samples x epochs / global batch), at least one.

    >>> optimizer_steps(50_000, 64)
    782
    """
    return max(1, math.ceil(samples / global_batch - 1e-9))


@dataclass(frozen=True, slots=True)
class RunHours:
    """Wall-clock hours of n candidates, shape (n,) each; an 80% interval."""

    p10: NDArray[np.float64]
    p50: NDArray[np.float64]
    p90: NDArray[np.float64]
    training: NDArray[np.float64]
    start_up: NDArray[np.float64]


def run_hours(
    steps: NDArray[np.float64],
    step_seconds: NDArray[np.float64],
    low_factor: NDArray[np.float64],
    high_factor: NDArray[np.float64],
    start_up: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
) -> RunHours:
    """Hours = start-up + steps x step time.

    `low_factor` <= 1 <= `high_factor` bound the throughput (80%), so time divides by them; `start_up` is (low,
    typical, high) in seconds. Both move together (a slow lab is slow twice), which widens rather than narrows.
    """
    training = steps * step_seconds / SECONDS_PER_HOUR
    low, typical, high = (s / SECONDS_PER_HOUR for s in start_up)
    return RunHours(
        p10=training / high_factor + low,
        p50=training + typical,
        p90=training / low_factor + high,
        training=training,
        start_up=typical,
    )
