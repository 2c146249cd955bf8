"""Which hours of a run does a bill count?

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
