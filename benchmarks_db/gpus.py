"""What can a GPU do, on paper? Datasheet figures (dense, fp32 accumulation) and the names people give the cards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.names import fold
from benchmarks_db.tables import DATA, number, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator as software sees it; rates in TFLOP/s, None = unknown or not offered."""

    name: str
    vendor: str
    arch: str
    compute_capability: str | None
    memory_gib: float | None  # the label of the card, a name rather than a capacity
    usable_gib: float | None  # what software can allocate
    memory_bandwidth_gbps: float | None
    fp64_tflops: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    fp4_tflops: float | None
    l2_mb: float | None
    sms: float | None
    boost_mhz: float | None
    tdp_w: float | None
    nvlink_gbps: float | None  # both directions together; None = unknown, 0 = none
    pcie_gen: float | None
    launch_year: int | None
    geforce: bool  # no peer-to-peer transfers over PCIe
    kind: str  # gpu | tpu | trainium
    source: str
    usable_source: str = ""


@dataclass(frozen=True, slots=True)
class GpuMatch:
    """What a person's text meant: the card, how many, and whether the text fits several cards (`loose`)."""

    gpu: Gpu
    count: float | None
    loose: bool
    alternatives: tuple[str, ...] = ()


_TEXT = ("name", "vendor", "arch", "kind", "source", "usable_source")


@cache
def gpus() -> Mapping[str, Gpu]:
    """All accelerators by canonical name."""
    table: dict[str, Gpu] = {}
    for row in read(DATA / "gpus.csv"):
        figures = {
            key: number(cell)
            for key, cell in row.items()
            if key not in (*_TEXT, "compute_capability", "geforce", "launch_year")
        }
        year = number(row["launch_year"])
        table[row["name"]] = Gpu(
            **{key: row[key] for key in _TEXT},
            **figures,  # type: ignore[arg-type]
            compute_capability=row["compute_capability"] or None,
            launch_year=int(year) if year else None,
            geforce=row["geforce"] == "yes",
        )
    return table


def gpu(name: str) -> Gpu:
    """The accelerator of a canonical name; UnknownName with near names otherwise."""
    table = gpus()
    if name not in table:
        raise UnknownName("GPU", name, table, field="gpu")
    return table[name]


@cache
def _aliases() -> Mapping[str, tuple[str, bool, tuple[str, ...]]]:
    known = {fold(name): (name, False, ()) for name in gpus()}
    for row in read(DATA / "gpu_aliases.csv"):
        others = tuple(filter(None, row["alternatives"].split("; ")))
        known.setdefault(fold(row["alias"]), (row["gpu"], row["loose"] == "yes", others))
    return known


_COUNT = re.compile(r"^(?P<name>.+?)\s*[:*]\s*(?P<count>\d+(?:\.\d+)?|\.\d+)\s*$")
_REFUSED = re.compile(r"gaudi|hpu|ascend|ipu|inferentia|cerebras|groq|graphcore|habana")


def resolve_gpu(text: str) -> GpuMatch:
    """The accelerator that a person's text names, with its count.

    >>> resolve_gpu("h100:8").count
    8.0
    """
    name, count = text.strip(), None
    if match := _COUNT.match(name):
        name, count = match["name"], float(match["count"])
        if count <= 0:
            raise WorkloadError("the number of GPUs must be above 0", field="gpu", value=text)
    key = fold(name)
    if _REFUSED.search(key):
        raise WorkloadError(
            f"{name!r} is not planned: only NVIDIA and AMD GPUs (TPU and Trainium as listings)", field="gpu", value=text
        )
    known = _aliases()
    for candidate in (key, re.sub(r"nvidia|tesla|geforce|quadro|amd|instinct|google|aws|gpu", "", key)):
        found = known.get(candidate)
        if found:
            return GpuMatch(gpu(found[0]), count, found[1], found[2])
    raise UnknownName("GPU", name, gpus(), field="gpu")
