"""Which Google Cloud machines have GPUs, where, and what do their parts add up to? Pure: no network here."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any

from pricing.instances import InstanceType, instance_types
from pricing.offers import Market
from pricing.sources.accelerators import canonical_gpu, cloud_name
from pricing.sources.base import Observation, Rejection
from pricing.sources.gcp_skus import Part, Rate, RateTable, card, describe
from pricing.sources.readings import listing, mapping

_ZONE = re.compile(r"zones/([a-z]+-[a-z]+\d+-[a-z])")
_N1_HOST = re.compile(r"n1-(standard|highmem)-\d+")
_GIB_A_PARTITION = 375
_MICRO = Decimal("0.000000001")
_SERIES_IN_SKUS = {"a3-megagpu": "a3plus", "a3-edgegpu": "a3", "a3-ultragpu": "a3ultra"}
"""Machine families whose SKUs do not name the series as the machine does."""
_NOT_ON_DEMAND = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})
"""Sold as spot or flex-start only, although their parts have on-demand SKUs."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine type with GPUs in one zone (None: anywhere in the region), built in or attached to an N1 host."""

    name: str
    region: str
    zone: str | None
    accelerator: str
    gpus: int
    vcpus: int
    mem_gib: Decimal
    ssd_partitions: int = 0

    @property
    def series(self) -> str:
        """What the SKUs call its series: a3-megagpu-8g is A3Plus."""
        family = "-".join(self.name.split("-")[:2])
        return _SERIES_IN_SKUS.get(family, self.name.split("-")[0])


@dataclass(frozen=True, slots=True)
class Host:
    """An N1 machine type in one zone, to which GPUs can be attached."""

    name: str
    zone: str
    vcpus: int
    mem_gib: Decimal


def machines(items: Mapping[str, Any]) -> Iterator[Machine | Host]:
    """GPU machines and N1 hosts of one page of `machineTypes.aggregatedList` (its `items`).

    Scopes that hold only a warning are empty by design. Deprecated types are still listed by the cloud and left out;
    TPU machines have a TPU where others have a GPU and are left out.
    """
    for scope, part in items.items():
        zone = _ZONE.fullmatch(str(scope))
        if zone is None:
            continue
        for row in listing(mapping(part).get("machineTypes")):
            machine = _machine(mapping(row), zone[1])
            if machine is not None:
                yield machine


def _machine(row: Mapping[str, Any], zone: str) -> Machine | Host | None:
    name, vcpus, memory = row.get("name"), _whole(row.get("guestCpus")), _whole(row.get("memoryMb"))
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]{1,60}", name) or not vcpus or not memory:
        return None
    if mapping(row.get("deprecated")).get("state") not in (None, "", "ACTIVE"):
        return None
    mem_gib = Decimal(memory) / 1024
    cards = [mapping(each) for each in listing(row.get("accelerators"))]
    if not cards:
        return Host(name, zone, vcpus, mem_gib) if _N1_HOST.fullmatch(name) and vcpus > 1 else None
    accelerator, count = cards[0].get("guestAcceleratorType"), _whole(cards[0].get("guestAcceleratorCount"))
    if len(cards) > 1 or not isinstance(accelerator, str) or not count or not is_gpu(accelerator):
        return None
    partitions = _whole(mapping(row.get("bundledLocalSsds")).get("partitionCount")) or 0
    return Machine(name, region_of(zone), zone, accelerator, count, vcpus, mem_gib, partitions)


def region_of(zone: str) -> str:
    """The region of a zone.

    >>> region_of("us-central1-a")
    'us-central1'
    """
    return zone.rsplit("-", 1)[0]


def is_gpu(accelerator: str) -> bool:
    """Whether an accelerator name is a GPU for computing: no TPU (ct5lp), no virtual workstation twin (-vws)."""
    return accelerator.startswith(("nvidia-", "amd-")) and not accelerator.endswith("-vws")


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None


def attachable(items: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """(zone, accelerator, most cards an instance) of one page of `acceleratorTypes.aggregatedList`."""
    for scope, part in items.items():
        zone = _ZONE.fullmatch(str(scope))
        if zone is None:
            continue
        for row in listing(mapping(part).get("acceleratorTypes")):
            name, most = mapping(row).get("name"), _whole(mapping(row).get("maximumCardsPerInstance"))
            listed = mapping(mapping(row).get("deprecated")).get("state") in (None, "", "ACTIVE")
            if isinstance(name, str) and is_gpu(name) and most and listed:
                yield zone[1], name, most


@cache
def _limits() -> dict[str, list[tuple[int, int, int]]]:
    """By attachable accelerator: (GPUs, most vCPUs, most GiB) of an N1 host."""
    text = resources.files("pricing").joinpath("sources/gcp_gpu_hosts.csv").read_text(encoding="utf-8")
    limits: dict[str, list[tuple[int, int, int]]] = {}
    for row in csv.DictReader(text.splitlines()):
        limit = int(row["gpus"]), int(row["most_vcpus"]), int(row["most_mem_gib"])
        limits.setdefault(row["accelerator"], []).append(limit)
    return limits


def attached(hosts: Iterable[Host], cards: Iterable[tuple[str, str, int]]) -> Iterator[Machine]:
    """N1 hosts with GPUs attached: each count that the zone allows and the host is small enough for."""
    by_zone: dict[str, list[tuple[str, int]]] = {}
    for zone, accelerator, most in dict.fromkeys(cards):
        by_zone.setdefault(zone, []).append((accelerator, most))
    for host in hosts:
        for accelerator, most in by_zone.get(host.zone, []):
            for gpus, most_vcpus, most_mem in _limits().get(accelerator, []):
                if gpus <= most and host.vcpus <= most_vcpus and host.mem_gib <= most_mem:
                    name = f"{host.name}+{gpus}*{accelerator}"
                    yield Machine(name, region_of(host.zone), host.zone, accelerator, gpus, host.vcpus, host.mem_gib)


def bill(machine: Machine, rates: RateTable, market: Market) -> list[tuple[Part, Decimal]]:
    """What the machine is billed for: (part, how many). A "1 gpu slice" holds a GPU's share of everything else."""
    region, name = machine.region, card(machine.accelerator)
    whole = Part("slice", machine.series, name)
    if rates.why_not(region, market, whole) != "missing":
        return [(whole, Decimal(machine.gpus))]
    parts = [
        (Part("core", machine.series), Decimal(machine.vcpus)),
        (Part("ram", machine.series), machine.mem_gib),
        (Part("gpu", card=name), Decimal(machine.gpus)),
    ]
    if machine.ssd_partitions:
        parts.append((Part("ssd"), Decimal(machine.ssd_partitions * _GIB_A_PARTITION)))
    return parts


def price(machine: Machine, rates: RateTable, market: Market) -> list[Observation] | str:
    """The price of a machine: the sum of all its parts in one region and market, USD per hour.

    core x vCPUs + ram x GiB + gpu x GPUs + ssd x 375 GiB x partitions; a part that is missing, zero or unreadable
    means no price (the answer is then a text saying which), never a partial sum. A part with two prices gives two
    sums, the cheapest and the dearest: ambiguous.
    """
    region, known = machine.region, known_machine(machine)
    if known.gpus is not None and known.gpus != machine.gpus:
        return f"no price: {machine.gpus} GPUs says the API, {known.gpus:g} the machine's page"
    low = high = Decimal(0)
    first: Rate | None = None
    for part, count in bill(machine, rates, market):
        found = rates.get(region, market, part)
        if not found:
            return f"no price: {part.kind} SKU {rates.why_not(region, market, part)}"
        cheapest, dearest = found[0], found[-1]
        low += count * (cheapest.price or 0)
        high += count * (dearest.price or 0)
        first = cheapest if part.kind in ("gpu", "slice") else first
    observation = Observation(
        cloud="gcp",
        region=region,
        instance_type=machine.name,
        market=market,
        price_usd_per_hour=low.quantize(_MICRO),
        zone=machine.zone,
        raw_id=first.sku if first else None,
        gpu=known.gpu,
        gpus_per_node=known.gpus,
    )
    sums = {observation.price_usd_per_hour, high.quantize(_MICRO)}
    return [replace(observation, price_usd_per_hour=amount) for amount in sorted(sums)]


def priced(found: Iterable[Machine], rates: RateTable, market: Market) -> tuple[list[Observation], list[Rejection]]:
    """Observations of all machines in one market; unreadable SKUs, and machines that lack a part ("no price: ...")."""
    observations: list[Observation] = []
    rejected: list[Rejection] = []
    unreadable: dict[str, Rejection] = {}
    for machine in found:
        if market is Market.ON_DEMAND and machine.name in _NOT_ON_DEMAND:
            continue
        for part, _ in bill(machine, rates, market):
            for rate in rates.unreadable(machine.region, market, part):
                unreadable[rate.sku] = Rejection("gcp", machine.region, market, rate.reason, detail=describe(rate))
        answer = price(machine, rates, market)
        if isinstance(answer, str):
            rejected.append(Rejection("gcp", machine.region, market, answer, machine.name, machine.zone))
        else:
            observations.extend(answer)
    return observations, [*unreadable.values(), *rejected]


def known_machine(machine: Machine) -> InstanceType:
    """The machine of the shipped table, else one made of what the API says."""
    known = instance_types().get(("gcp", machine.name))
    if known is not None:
        return known
    gpu = canonical_gpu("gcp", machine.accelerator)
    return InstanceType(
        cloud="gcp",
        instance_type=machine.name,
        gpu=gpu,
        gpus=float(machine.gpus),
        vcpus=machine.vcpus,
        mem_gib=float(machine.mem_gib),
        local_ssd_gb=float(machine.ssd_partitions * _GIB_A_PARTITION) if machine.ssd_partitions else None,
        notes="" if gpu else f"Google calls its accelerator {machine.accelerator!r}",
        source="gcp:machine-types",
    )


def is_shipped(machine: Machine) -> bool:
    """Whether the shipped table has the machine."""
    return ("gcp", machine.name) in instance_types()


def shipped_machines() -> list[Machine]:
    """Machines by region as the shipped snapshot knows them: for when the compute API cannot be asked.

    The catalogue alone does not tell where a machine is sold: an SKU of "Americas" holds in regions without the GPU.
    """
    from pricing.snapshot import snapshot_offers

    found: dict[tuple[str, str], Machine] = {}
    for offer in snapshot_offers():
        known = instance_types().get((offer.cloud, offer.instance_type))
        if offer.cloud != "gcp" or not offer.region or known is None:
            continue
        if known.gpu is None or known.gpus is None or known.vcpus is None or known.mem_gib is None:
            continue
        _, _, attached_name = offer.instance_type.partition("*")
        mega = offer.instance_type.startswith("a3-megagpu")
        accelerator = attached_name or ("nvidia-h100-mega-80gb" if mega else cloud_name("gcp", known.gpu))
        if accelerator is None or known.gpus != int(known.gpus):
            continue
        found[offer.region, offer.instance_type] = Machine(
            name=offer.instance_type,
            region=offer.region,
            zone=None,
            accelerator=accelerator,
            gpus=int(known.gpus),
            vcpus=known.vcpus,
            mem_gib=Decimal(str(known.mem_gib)),
            ssd_partitions=round((known.local_ssd_gb or 0) / _GIB_A_PARTITION),
        )
    return list(found.values())
