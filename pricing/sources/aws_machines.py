"""Which AWS machines have GPUs, which and how many? Read from DescribeInstanceTypes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pricing.instances import InstanceType, instance_types
from pricing.sources.accelerators import canonical_gpu
from pricing.sources.readings import listing, mapping, quote

GPU_FAMILY = "GPU instance"
"""What the price list calls the family of a machine with GPUs (also those whose `gpu` attribute is missing)."""


def gpu_machine(row: object) -> InstanceType | None:
    """The machine that one entry of DescribeInstanceTypes describes, None if it has no GPU (Neuron is none).

    What the shipped table knows of a type wins over what the API says of it: the API has named an H200 "NVIDIA" and
    given a machine's total as one card's memory. Fractions of a card have Count 0 and a partition size.
    """
    entry = mapping(row)
    name = entry.get("InstanceType")
    cards = [mapping(card) for card in listing(mapping(entry.get("GpuInfo")).get("Gpus"))]
    if not isinstance(name, str) or not name or not cards:
        return None
    known = instance_types().get(("aws", name))
    if known is not None:
        return known if known.accelerator == "gpu" else None
    count = sum(_cards(card) for card in cards)
    words = {str(card.get("Name", ""))[:60] for card in cards}
    memory = _mib(mapping(cards[0].get("MemoryInfo")).get("SizeInMiB"))
    word = words.pop() if len(words) == 1 else ""
    gpu = canonical_gpu("aws", word, memory) if word else None
    return InstanceType(
        cloud="aws",
        instance_type=name,
        gpu=gpu,
        gpus=count or None,
        gpu_mem_gib=memory,
        vcpus=_whole(mapping(entry.get("VCpuInfo")).get("DefaultVCpus")),
        mem_gib=_mib(mapping(entry.get("MemoryInfo")).get("SizeInMiB")),
        notes="" if gpu else f"AWS calls its accelerator {quote(word or sorted(words), 80)!r}",
        source="aws:describe-instance-types",
    )


def _cards(card: dict[str, Any]) -> float:
    count, part = card.get("Count"), card.get("GpuPartitionSize")
    if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= 1024:
        return float(count)
    logical = card.get("LogicalGpuCount", 1)
    if isinstance(part, int | float) and 0 < part <= 1 and isinstance(logical, int) and 0 < logical <= 1024:
        return float(part) * logical
    return 0.0


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**6 else None


def _mib(value: object) -> float | None:
    whole = value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else None
    return whole / 1024 if whole else None


class GpuCatalogue:
    """Which instance types have GPUs, as far as EC2 said; the shipped table and the price list fill the rest."""

    def __init__(self, rows: Iterable[object] = ()) -> None:
        self._machines: dict[str, InstanceType | None] = {}
        self.add(rows)

    def add(self, rows: Iterable[object]) -> None:
        """Takes in entries of DescribeInstanceTypes."""
        for row in rows:
            name = mapping(row).get("InstanceType")
            if isinstance(name, str) and name:
                self._machines[name] = gpu_machine(row)

    def knows(self, instance_type: str) -> bool:
        """Whether EC2 described the type."""
        return instance_type in self._machines

    def gpu_types(self) -> list[str]:
        """The types that EC2 described as having GPUs."""
        return sorted(name for name, machine in self._machines.items() if machine is not None)

    def new_machines(self) -> list[InstanceType]:
        """GPU machines that the shipped table lacks."""
        shipped = instance_types()
        return [m for name, m in sorted(self._machines.items()) if m is not None and ("aws", name) not in shipped]

    def gpu_of(self, instance_type: str, family: str = "") -> tuple[str | None, float | None] | None:
        """(canonical GPU, GPUs per node) of a machine, with None for what is unknown; None if it has no GPU.

        EC2's word counts first, then the shipped table, then the price list's family.
        """
        machine = self._machines.get(instance_type)
        if machine is None and instance_type not in self._machines:
            machine = instance_types().get(("aws", instance_type))
            if machine is None:
                return (None, None) if family == GPU_FAMILY else None
        if machine is None or machine.accelerator != "gpu":
            return None
        return machine.gpu, machine.gpus
