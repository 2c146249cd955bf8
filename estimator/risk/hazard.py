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


# Azure's portal states the chance of an eviction within the next hour as a band, in per cent: low, typical and high of
# each. The open ends are judgements: 0.5% below, and above as high as any trace (0.6 an hour, run_facts `spot`).
AZURE_PERCENT = {
    "0-5": (0.5, 2.5, 5.0),
    "5-10": (5.0, 7.5, 10.0),
    "10-15": (10.0, 12.5, 15.0),
    "15-20": (15.0, 17.5, 20.0),
    "20+": (20.0, 30.0, 45.0),
}


def azure_hazard(band: str) -> Range:
    """Evictions an hour of one instance from a band of Azure's portal: -ln(1 - chance within an hour).

    >>> round(azure_hazard("5-10").typical, 3)
    0.078
    """
    low, typical, high = (float(-np.log1p(-percent / 100.0)) for percent in AZURE_PERCENT[band])
    return Range(low, typical, high, "Azure's eviction band, as the request states it")


def hazards_of(
    workload: Workload,
    gpus: Floats,
    nodes: Floats,
    spot: Mask,
    reclaimed: tuple[Floats, Floats] | None = None,
    azure: Mask | None = None,
) -> Hazards:
    """Hazards of jobs on `gpus` cards in `nodes` instances, some of them `spot`, some of them on `azure`; shape (n,).

    `reclaimed` are the monthly shares (low, high) that a cloud's advisor states by job, NaN where none. Advisors count
    all capacity of a type; measured GPU traces are hundreds of times worse (run_facts), so a share can only lower the
    low end of the range: the contradiction is shown, not averaged.
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
    if azure is not None and asked.azure_eviction and asked.interruptions and asked.hazard_per_hour is None:
        band = azure_hazard(asked.azure_eviction)
        one_low, one, one_high = (
            np.where(azure, end, usual)
            for end, usual in ((band.low, one_low), (band.typical, one), (band.high, one_high))
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
