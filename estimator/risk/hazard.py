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


def hazards_of(
    workload: Workload, gpus: Floats, nodes: Floats, spot: Mask, reclaimed: tuple[Floats, Floats] | None = None
) -> Hazards:
    """Hazards of jobs on `gpus` cards in `nodes` instances, some of them `spot`; all shape (n,).

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
    together, alone = np.ones_like(nodes), nodes
    if asked.elastic:  # the rest of the job goes on: an instance lost costs its own part
        alone = together
    low_spot = taking.low * together
    if reclaimed is not None and asked.hazard_per_hour is None:
        monthly = -np.log1p(-np.clip(reclaimed[0], 0.0, 0.99)) / 730.0
        low_spot = np.where(np.isfinite(monthly), np.minimum(low_spot, monthly), low_spot)
    spot_low, spot_high = low_spot * on_spot, taking.high * alone * on_spot
    spot_typical = taking.typical * np.sqrt(alone) * on_spot
    typical = failing.typical * gpus + spot_typical
    return Hazards(
        low=failing.low * gpus + spot_low,
        typical=typical,
        high=failing.high * gpus + spot_high,
        spot_share=np.where(typical > 0, spot_typical / np.where(typical > 0, typical, 1.0), 0.0),
        wait=Range.stated(asked.wait) if asked.wait is not None else default("spot_wait"),
        repair=default("failure_down").scaled(1.0 / 3600.0),
    )
