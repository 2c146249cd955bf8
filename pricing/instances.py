"""Which machine shapes do the clouds rent out? Instance types with their accelerators, host and network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

DATA = Path(__file__).parent / "data"
ACCELERATOR_KINDS = ("gpu", "trainium", "inferentia", "tpu")


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A cloud's machine shape. None is unknown, never zero.

    `gpu` is a canonical name of `benchmarks_db` (None: an accelerator no table knows; `notes` keeps the cloud's
    word). `gpus` may be a fraction of a card. `gpu_mem_gib` is one card's memory as the cloud states it.
    `network_gbps` is the node's bandwidth to other nodes (the fabric, where there is one). `rdma` is "" (none),
    "efa", "infiniband", "roce" or "gpudirect-tcpx"; `gpu_interconnect` is None (unknown or a single GPU), "pcie",
    "nvlink", "nvswitch" or "infinity-fabric". `accelerator` is one of `ACCELERATOR_KINDS`.
    """

    cloud: str
    instance_type: str
    gpu: str | None
    gpus: float | None
    gpu_mem_gib: float | None = None
    vcpus: int | None = None
    mem_gib: float | None = None
    local_ssd_gb: float | None = None
    network_gbps: float | None = None
    rdma: str = ""
    gpu_interconnect: str | None = None
    notes: str = ""
    source: str = ""
    accelerator: str = "gpu"


def _number(text: str) -> float | None:
    return float(text) if text else None


@lru_cache(maxsize=1)
def instance_types() -> Mapping[tuple[str, str], InstanceType]:
    """Every shipped instance type by (cloud, instance type)."""
    import csv

    text = (DATA / "instances.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, str], InstanceType] = {}
    for row in csv.DictReader(text.splitlines()):
        found[row["cloud"], row["instance_type"]] = InstanceType(
            cloud=row["cloud"],
            instance_type=row["instance_type"],
            gpu=row["gpu"] or None,
            gpus=_number(row["gpus"]),
            gpu_mem_gib=_number(row["gpu_mem_gib"]),
            vcpus=int(row["vcpus"]) if row["vcpus"] else None,
            mem_gib=_number(row["mem_gib"]),
            local_ssd_gb=_number(row["local_ssd_gb"]),
            network_gbps=_number(row["network_gbps"]),
            rdma=row["rdma"],
            gpu_interconnect=row["gpu_interconnect"] or None,
            notes=row["notes"],
            source=row["source"],
            accelerator=row["accelerator"],
        )
    return MappingProxyType(found)
