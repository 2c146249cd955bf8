"""What is paid besides machine hours: storage, egress, fees, tax. A part whose price nobody knows is unknown, never 0.

List prices of one US region each (`data/bill_defaults.csv`, sourced and dated); regions elsewhere can be twice as dear.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from estimator.job import Job
from estimator.runtime import checkpoint_gb, data_gb
from pricing.regions import resolve_cloud

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class Extras:
    """What a run in one cloud costs besides its machines."""

    usd_per_hour: float  # storage while it runs
    once_usd: float  # egress and fees
    unknown: tuple[str, ...]  # parts without a known price, in words

    def usd(self, hours: float) -> dict[str, float]:
        """The parts for a run of `hours`."""
        return {"storage": self.usd_per_hour * hours, "egress_and_fees": self.once_usd}


@cache
def prices() -> dict[tuple[str, str], tuple[float, str]]:
    """USD a unit and source by (part, cloud)."""
    with (files("estimator") / "data" / "bill_defaults.csv").open(encoding="utf-8") as lines:
        return {(row["part"], row["cloud"]): (float(row["usd"]), row["source"]) for row in csv.DictReader(lines)}


def extras_of(job: Job, cloud: str) -> Extras:
    """Storage of the data set and the kept checkpoints, data brought in from elsewhere, results moved out, fees."""
    asked = job.workload.bill
    unknown: list[str] = []
    size = data_gb(job)
    storage = 0.0
    if asked.storage and cloud != "own":
        stored = asked.checkpoints_kept * checkpoint_gb(job.work) + (size or 0.0)
        known = prices().get(("object_storage", cloud))
        if known is None:
            unknown.append("storage")
        else:
            storage = stored * known[0] / HOURS_PER_MONTH
        if size is None:
            unknown.append("storage of the data set, whose size is not known")
    once = asked.fixed_usd
    if asked.data_in:
        once += _egress(job, cloud, size, unknown)
    if asked.egress_gb:
        once += _moved(asked.egress_gb, "internet_egress", cloud, unknown)
    return Extras(storage, once, tuple(unknown))


def _egress(job: Job, cloud: str, size: float | None, unknown: list[str]) -> float:
    """Dollars to bring the data from where it lies; within one cloud the region fee, unless it names no region."""
    origin, _, region = (job.workload.bill.data_in or "").partition("/")
    home = resolve_cloud(origin, field="bill.data_in")
    if size is None:
        unknown.append("moving the data, whose size is not known")
        return 0.0
    if home == cloud:
        return _moved(size, "region_egress", cloud, unknown) if region else 0.0
    return _moved(size, "internet_egress", home, unknown)


def _moved(gigabytes: float, part: str, cloud: str, unknown: list[str]) -> float:
    known = prices().get((part, cloud))
    if known is None:
        if cloud != "own":
            unknown.append(f"{part.replace('_', ' ')} of {cloud}")
        return 0.0
    usd = known[0] * gigabytes
    return usd if math.isfinite(usd) else 0.0
