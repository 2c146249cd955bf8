"""How often is the job interrupted, and how long does it then stand still? Hazards with the range of their sources.

A hazard is a rate per hour of the whole job. Failures of hardware and software come at a rate per GPU-hour that is
about flat in the size of the job. Spot machines of one job are reclaimed together more often than not (92% of the
interruptions of a type and zone fall within 3 minutes of another, run_facts `spot`), so a job of N nodes is
interrupted at least as often as one node and at most N times as often; the middle is taken as sqrt(N).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.request.workload import Workload
from estimator.runtime import NONE, Range, default

Floats = NDArray[np.float64]
Figure = float | Floats
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Hazards:
    """Interruptions per hour of n jobs with their range, the part that is failures, and the hours each costs; (n,)."""

    low: Floats
    typical: Floats
    high: Floats
    spot_share: Floats  # of the typical hazard
    wait: Range  # hours for spot capacity, not billed
    repair: Range  # hours of detection and restart after a failure, billed

    def select(self, keep: NDArray[np.int64] | Mask) -> Hazards:
        """Some of the jobs."""
        return replace(
            self,
            low=self.low[keep],
            typical=self.typical[keep],
            high=self.high[keep],
            spot_share=self.spot_share[keep],
        )


# Azure states the chance of an eviction within the next hour as a band (portal, Resource Graph). Where a band has no
# lower or no upper end these stand in, by judgement: half a per cent, and a little below any trace (run_facts `spot`).
LEAST_CHANCE, MOST_CHANCE = 0.005, 0.45


def band_hazard(low: Figure, high: Figure) -> tuple[Floats, Floats, Floats]:
    """Evictions an hour, low, typical and high, from bounds of the chance within an hour: -ln(1 - chance).

    >>> [round(float(end), 3) for end in band_hazard(0.05, 0.10)]
    [0.051, 0.078, 0.105]
    """
    least = np.maximum(np.asarray(low, float), LEAST_CHANCE)
    most = np.where(np.isnan(high), MOST_CHANCE, high)
    return -np.log1p(-least), -np.log1p(-(least + most) / 2.0), -np.log1p(-most)


def hazards_of(
    workload: Workload,
    gpus: Floats,
    nodes: Floats,
    spot: Mask,
    reclaimed: tuple[Floats, Floats] | None = None,
    evicted: tuple[Floats, Floats] | None = None,
) -> Hazards:
    """Hazards of jobs on `gpus` cards in `nodes` instances, some of them `spot`; all shape (n,).

    `reclaimed` are the monthly shares (low, high) that a cloud's advisor states by job, NaN where none. Advisors count
    all capacity of a type; measured GPU traces are hundreds of times worse (run_facts), so a share can only lower the
    low end of the range: the contradiction is shown, not averaged. `evicted` are the bounds of the chance of one
    instance to be evicted within an hour, NaN where a cloud states none (high alone: an open band).
    """
    run, asked = workload.run, workload.spot
    if not run.failures:
        failing = NONE
    elif run.failures_per_gpu_hour is not None:
        failing = Range.stated(run.failures_per_gpu_hour)
    else:
        failing = default("failures_per_gpu_hour")
    if not asked.interruptions:
        taking = NONE
    elif asked.hazard_per_hour is not None:
        taking = Range.stated(asked.hazard_per_hour)
    else:
        taking = default("spot_hazard")
    on_spot = spot.astype(float)
    alone = np.ones_like(nodes) if asked.elastic else nodes  # elastic: an instance lost costs its own part
    one_low, one, one_high = (np.full(len(nodes), end) for end in (taking.low, taking.typical, taking.high))
    if reclaimed is not None and asked.hazard_per_hour is None:
        monthly = -np.log1p(-np.clip(reclaimed[0], 0.0, 0.99)) / 730.0
        one_low = np.where(np.isfinite(monthly), np.minimum(one_low, monthly), one_low)
    if evicted is not None and asked.interruptions and asked.hazard_per_hour is None:
        stated = np.isfinite(evicted[0])
        bands = band_hazard(np.where(stated, evicted[0], 0.0), evicted[1])
        one_low, one, one_high = (
            np.where(stated, band, usual) for band, usual in zip(bands, (one_low, one, one_high), strict=True)
        )
    spot_low, spot_high = one_low * on_spot, one_high * alone * on_spot
    spot_typical = one * np.sqrt(alone) * on_spot
    typical = failing.typical * gpus + spot_typical
    return Hazards(
        low=failing.low * gpus + spot_low,
        typical=typical,
        high=failing.high * gpus + spot_high,
        spot_share=np.where(typical > 0, spot_typical / np.where(typical > 0, typical, 1.0), 0.0),
        wait=Range.stated(asked.wait) if asked.wait is not None else default("spot_wait"),
        repair=default("failure_down").scaled(1.0 / 3600.0)
        if run.repair_hours is None
        else Range.stated(run.repair_hours),
    )
