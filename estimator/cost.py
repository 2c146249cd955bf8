"""What does the run cost: hours on the clock times what the machines cost an hour, billed as the clouds bill.

Per second with a minimum of 60 s a start on all three clouds (run_facts `billing`: AWS and GCP state it; for Azure no
text was found and per second is assumed).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MINIMUM_HOURS = 60.0 / 3600.0


def billed_hours(hours: NDArray[np.float64], own: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Hours that a bill counts; an own machine has no minimum. Shape (n,)."""
    return np.where(own, hours, np.maximum(hours, MINIMUM_HOURS))


def run_cost_usd(
    hours: NDArray[np.float64],
    usd_per_hour_instance: NDArray[np.float64],
    nodes: NDArray[np.float64],
    own: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Dollars of a run: billed hours x price of one instance x instances; NaN where the price is unknown. Shape (n,).

    >>> run_cost_usd(np.array([2.0]), np.array([3.0]), np.array([4.0]), np.array([False])).tolist()
    [24.0]
    """
    return billed_hours(hours, own) * usd_per_hour_instance * nodes
