"""What would make a workload possible that fits nowhere?"""

from __future__ import annotations

from estimator.hardware import Hardware
from estimator.job import Job


def repairs(job: Job, hardware: Hardware) -> list[str]:
    """The smallest changes that make the job fit, best first, in words."""
    return []
