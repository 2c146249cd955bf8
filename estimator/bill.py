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


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What a run in one place costs besides its machines."""

    data_per_hour: float = 0.0  # the data set in object storage while the job runs
    checkpoints_per_hour: float = 0.0  # the kept checkpoints, likewise
    disk_per_node_hour: float = 0.0  # block volume of a rented node
    egress_usd: float = 0.0  # data brought in from elsewhere, results moved out
    fees_usd: float = 0.0
    unknown: tuple[str, ...] = ()  # parts without a known price, in words

    def usd_per_hour(self, nodes: float) -> float:
        """Storage and disks of an hour on `nodes`."""
        return self.data_per_hour + self.checkpoints_per_hour + self.disk_per_node_hour * nodes

    @property
    def once_usd(self) -> float:
        """What does not grow with the hours."""
        return self.egress_usd + self.fees_usd

    def usd(self, hours: float, nodes: float) -> dict[str, float]:
        """The parts for a run of `hours` on `nodes`."""
        return {
            "data_storage": self.data_per_hour * hours,
            "checkpoint_storage": self.checkpoints_per_hour * hours,
            "disks": self.disk_per_node_hour * nodes * hours,
            "egress": self.egress_usd,
            "fees": self.fees_usd,
        }


@cache
def prices() -> dict[tuple[str, str], tuple[float, str]]:
    """USD a unit and source by (part, cloud)."""
    with (files("estimator") / "data" / "bill_defaults.csv").open(encoding="utf-8") as lines:
        return {(row["part"], row["cloud"]): (float(row["usd"]), row["source"]) for row in csv.DictReader(lines)}


def extras_of(job: Job, cloud: str, *, beside_data: bool = False) -> Extras:
    """Storage of the data set and the kept checkpoints, disks, data brought in and moved out, fees.

    `beside_data`: the machines are in the very region that `bill.data_in` names.
    """
    asked = job.workload.bill
    unknown: list[str] = []
    size = data_gb(job)
    data = checkpoints = disk = 0.0
    if asked.storage and cloud != "own":
        data = _stored(size or 0.0, "object_storage", cloud, unknown)
        checkpoints = _stored(asked.checkpoints_kept * checkpoint_gb(job), "object_storage", cloud, unknown)
        disk = _stored(asked.disk_gb, "block_storage", cloud, unknown)
        if size is None:
            unknown.append("storage of the data set, whose size is not known")
    egress = _brought(job, cloud, size, unknown, beside_data=beside_data) if asked.data_in else 0.0
    if asked.egress_gb:
        egress += _moved(asked.egress_gb, "internet_egress", cloud, unknown)
    return Extras(
        data_per_hour=data,
        checkpoints_per_hour=checkpoints,
        disk_per_node_hour=disk,
        egress_usd=egress,
        fees_usd=asked.fixed_usd,
        unknown=tuple(dict.fromkeys(unknown)),
    )


def data_place(job: Job) -> tuple[str, str] | None:
    """The cloud and region ("" where it names none) that the data lies in; None where the request does not say."""
    if not job.workload.bill.data_in:
        return None
    origin, _, region = job.workload.bill.data_in.partition("/")
    return resolve_cloud(origin, field="bill.data_in"), region.strip().casefold()


def _stored(gigabytes: float, part: str, cloud: str, unknown: list[str]) -> float:
    """Dollars an hour of so much storage."""
    known = prices().get((part, cloud))
    if known is None:
        if gigabytes:
            unknown.append(f"{part.replace('_', ' ')} of {cloud}")
        return 0.0
    return gigabytes * known[0] / HOURS_PER_MONTH


def _brought(job: Job, cloud: str, size: float | None, unknown: list[str], *, beside_data: bool) -> float:
    """Dollars to bring the data from where it lies; within one cloud the region fee, unless it names no region."""
    place = data_place(job)
    if place is None or beside_data:
        return 0.0
    home, region = place
    if home == cloud and not region:
        return 0.0
    if size is None:
        unknown.append("moving the data, whose size is not known")
        return 0.0
    return _moved(size, "region_egress" if home == cloud else "internet_egress", home, unknown)


def _moved(gigabytes: float, part: str, cloud: str, unknown: list[str]) -> float:
    known = prices().get((part, cloud))
    if known is None:
        if cloud != "own":
            unknown.append(f"{part.replace('_', ' ')} of {cloud}")
        return 0.0
    usd = known[0] * gigabytes
    return usd if math.isfinite(usd) else 0.0
