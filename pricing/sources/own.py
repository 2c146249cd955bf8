"""What does hardware cost that somebody already has? Own machines, ranked beside the clouds' offers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import get_close_matches

from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import resolve_gpu
from pricing.instances import InstanceType
from pricing.offers import Market, Offer, OfferTable, PriceState, table_of

HOURS_PER_YEAR = 8760.0
MAX_USD_PER_HOUR = 1e6  # of one machine; above it a figure was meant for something else
INTERCONNECTS = ("pcie", "nvlink", "nvswitch", "infinity-fabric")
RDMA = ("", "efa", "infiniband", "roce", "gpudirect-tcpx")


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a machine cost to buy and costs to run; all money in USD, for one node.

    Hourly cost = (purchase - resale) / (years x 8760 x utilisation) + kW x PUE x USD/kWh + yearly upkeep / (8760 x
    utilisation): only hours in use pay for the machine, and power is counted while it works.
    """

    usd: float
    years: float = 4.0  # assumption: usual depreciation of servers is 3 to 6 years
    utilisation: float = 0.7  # assumption: shared research clusters run at 0.5 to 0.9
    power_kw: float = 0.0  # under load, whole node; 0 only where somebody else pays for power
    usd_per_kwh: float = 0.0
    pue: float = 1.0  # facility power over IT power; 1.1 to 1.6 in data centres
    upkeep_usd_per_year: float = 0.0
    resale_usd: float = 0.0

    def usd_per_hour(self) -> float:
        """USD per hour in use of one node.

        >>> round(Purchase(20_000, years=4, utilisation=0.5, power_kw=3, usd_per_kwh=0.2).usd_per_hour(), 4)
        1.7416
        """
        used = HOURS_PER_YEAR * self.utilisation
        capital = (self.usd - self.resale_usd) / (self.years * used)
        return capital + self.power_kw * self.pue * self.usd_per_kwh + self.upkeep_usd_per_year / used


@dataclass(frozen=True, slots=True)
class OwnMachine:
    """A kind of machine somebody has: `nodes` of them with `gpus_per_node` cards each.

    `usd_per_hour` is for one node; 0 is a price here (sunk cost), None is unpriced unless `purchase` says it.
    """

    name: str
    gpu: str
    gpus_per_node: float = 1.0
    nodes: int = 1
    usd_per_hour: float | None = None
    purchase: Purchase | None = None
    vcpus: int | None = None
    mem_gib: float | None = None
    gpu_mem_gib: float | None = None
    network_gbps: float | None = None
    rdma: str = ""
    gpu_interconnect: str | None = None

    def price(self) -> float | None:
        """USD per hour of one node, stated or worked out from the purchase."""
        if self.usd_per_hour is not None:
            return self.usd_per_hour
        return self.purchase.usd_per_hour() if self.purchase else None


_NUMBERS = {f.name for f in fields(OwnMachine)} - {"name", "gpu", "rdma", "gpu_interconnect", "purchase"}
_PURCHASE = {
    "purchase_usd": "usd",
    "years": "years",
    "utilisation": "utilisation",
    "power_kw": "power_kw",
    "usd_per_kwh": "usd_per_kwh",
    "pue": "pue",
    "upkeep_usd_per_year": "upkeep_usd_per_year",
    "resale_usd": "resale_usd",
}


def own_machine(entry: Mapping[str, object], *, field: str = "own") -> OwnMachine:
    """One machine from a mapping (YAML, JSON or the pairs of `--own name=lab,gpu=RTX-3090,...`).

    Purchase figures go by `purchase_usd`, `years`, `utilisation`, `power_kw`, `usd_per_kwh`, `pue`,
    `upkeep_usd_per_year` and `resale_usd`. Raises WorkloadError naming the field.
    """
    known = {*(f.name for f in fields(OwnMachine)), *_PURCHASE} - {"purchase"}
    for key in entry:
        if key not in known:
            raise WorkloadError("unknown key", field=f"{field}.{key}", nearest=get_close_matches(key, known, n=2))
    for key in ("name", "gpu"):
        if not str(entry.get(key) or "").strip():
            raise WorkloadError("is needed", field=f"{field}.{key}")
    numbers = {key: _number(entry[key], f"{field}.{key}") for key in entry if key in _NUMBERS or key in _PURCHASE}
    match = resolve_gpu(str(entry["gpu"]), field=f"{field}.gpu")
    gpus = numbers.get("gpus_per_node") or match.count or 1.0
    return OwnMachine(
        name=str(entry["name"]).strip(),
        gpu=match.gpu.name,
        gpus_per_node=gpus,
        nodes=int(numbers.get("nodes", 1)),
        usd_per_hour=numbers.get("usd_per_hour"),
        purchase=_purchase(numbers, field),
        vcpus=int(numbers["vcpus"]) if "vcpus" in numbers else None,
        mem_gib=numbers.get("mem_gib"),
        gpu_mem_gib=numbers.get("gpu_mem_gib"),
        network_gbps=numbers.get("network_gbps"),
        rdma=_word(entry.get("rdma"), RDMA, f"{field}.rdma") or "",
        gpu_interconnect=_word(entry.get("gpu_interconnect"), INTERCONNECTS, f"{field}.gpu_interconnect") or None,
    )


def _number(value: object, field: str) -> float:
    try:
        number = float(str(value).strip().removeprefix("$").replace(",", ""))
    except ValueError:
        raise WorkloadError(f"{value!r} is not a number", field=field, value=value) from None
    name = field.rpartition(".")[2]
    positive = name not in ("usd_per_hour", "power_kw", "usd_per_kwh", "upkeep_usd_per_year", "resale_usd")
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise WorkloadError(f"must be {'above' if positive else 'at least'} 0", field=field, value=value)
    if name in ("usd_per_hour",) and number > MAX_USD_PER_HOUR:
        raise WorkloadError(f"must be at most {MAX_USD_PER_HOUR:g} USD per hour", field=field, value=value)
    if name == "utilisation" and number > 1:
        raise WorkloadError("is a fraction of the hours, at most 1", field=field, value=value)
    if name == "pue" and number < 1:
        raise WorkloadError("is facility power over machine power, at least 1", field=field, value=value)
    if name in ("nodes", "vcpus") and number != int(number):
        raise WorkloadError("must be a whole number", field=field, value=value)
    return number


def _word(value: object, known: Sequence[str], field: str) -> str:
    word = str(value or "").strip().casefold()
    if word and word not in known:
        words = [k for k in known if k]
        raise WorkloadError(f"{value!r} is not one of {', '.join(words)}", field=field, value=value)
    return word


def _purchase(numbers: Mapping[str, float], field: str) -> Purchase | None:
    given = {_PURCHASE[key]: numbers[key] for key in numbers if key in _PURCHASE}
    if not given:
        return None
    if "usd" not in given:
        raise WorkloadError("is needed beside other purchase figures", field=f"{field}.purchase_usd")
    purchase = Purchase(**given)
    if purchase.resale_usd > purchase.usd:
        raise WorkloadError("is above the purchase price", field=f"{field}.resale_usd", value=purchase.resale_usd)
    return purchase


def own_table(machines: Iterable[OwnMachine], *, now: datetime) -> OfferTable:
    """The machines as offers: cloud `own`, market `own`, the machine's name as its instance type, price 0 legal.

    One without any price is listed as unpriced. How many nodes there are stays with the machine (`nodes`).
    """
    offers = []
    types = []
    for machine in machines:
        price = machine.price()
        stated = machine.usd_per_hour is not None
        offers.append(
            Offer(
                cloud="own",
                region=None,
                zone=None,
                zone_id=None,
                instance_type=machine.name,
                market=Market.OWN,
                gpu=machine.gpu,
                gpus_per_node=machine.gpus_per_node,
                price_usd_per_hour=price,
                source="own:stated" if stated else "own:purchase" if machine.purchase else "own",
                observed_at=now,
                state=PriceState.OWN if price is not None else PriceState.UNPRICED,
                ranked=price is not None,
                note="" if price is not None else "no price stated",
            )
        )
        types.append(
            InstanceType(
                cloud="own",
                instance_type=machine.name,
                gpu=machine.gpu,
                gpus=machine.gpus_per_node,
                gpu_mem_gib=machine.gpu_mem_gib,
                vcpus=machine.vcpus,
                mem_gib=machine.mem_gib,
                network_gbps=machine.network_gbps,
                rdma=machine.rdma,
                gpu_interconnect=machine.gpu_interconnect,
                source="stated by the user",
            )
        )
    return table_of(offers, types)
