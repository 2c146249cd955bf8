"""GCP: machine prices composed of SKUs (core, RAM, GPU, local disk) for each machine type in each zone; one scope.

The catalogue knows no regions and no machines: it is read once, and so are the machine and accelerator types. With an
API key alone, which opens the catalogue but not the compute API, the machines of the shipped snapshot are priced.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pricing.sources import gcp_machines
from pricing.sources.base import Failure, FailureReason, Fetched, PriceSet, Scope, SourceSettings, Wanted
from pricing.sources.gcp_client import GcpClients
from pricing.sources.gcp_machines import Host, Machine, region_of
from pricing.sources.gcp_skus import Rate, RateTable, rates
from pricing.sources.paging import read_all
from pricing.sources.patience import Patience, WireFault

_log = logging.getLogger(__name__)

NAME = "gcp"
SOURCE = "gcp:catalog"


@dataclass(frozen=True, slots=True)
class GcpScope(Scope):
    """Everything, with the clients that were found possible."""

    clients: GcpClients | None = field(default=None, repr=False, compare=False)


@dataclass(slots=True)
class Listing:
    """What the compute API lists: machines with GPUs, zones seen, and zones that gave no answer."""

    machines: list[Machine]
    zones: set[str]
    silent_zones: set[str]
    regions: set[str]


def scopes(wanted: Wanted, settings: SourceSettings) -> list[Scope]:
    """One scope for all regions; raises SourceUnavailable without any credentials."""
    return [GcpScope(NAME, None, wanted, GcpClients(settings))] if wanted.markets else []


def fetch(scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
    """A price set (or failure) for each region and wanted market, and machines that no table knows."""
    clients = scope.clients if isinstance(scope, GcpScope) and scope.clients else GcpClients(settings)
    patience = Patience(settings)
    as_of = settings.clock()
    try:
        with ThreadPoolExecutor(2) as pool:
            catalogue = pool.submit(_catalogue, clients, settings, patience)
            listed = _listing(clients, settings, patience)
            table = catalogue.result()
    except WireFault as fault:
        for market in sorted(scope.wanted.markets):
            yield fault.failure(NAME, None, market, SOURCE)
        return
    finally:
        clients.close()
    machines = [machine for machine in listed.machines if scope.wanted.wants(machine.region)]
    seen: set[str] = set()
    for machine in machines:
        if not gcp_machines.is_shipped(machine) and machine.name not in seen:
            seen.add(machine.name)
            yield gcp_machines.known_machine(machine)
    for region in sorted(filter(scope.wanted.wants, listed.regions)):
        silent = tuple(sorted(zone for zone in listed.silent_zones if region_of(zone) == region))
        here = [machine for machine in machines if machine.region == region and machine.zone not in silent]
        answered = not silent or any(region_of(zone) == region for zone in listed.zones - listed.silent_zones)
        for market in sorted(scope.wanted.markets):
            if answered:
                found, rejected = gcp_machines.priced(here, table, market)
                yield PriceSet(NAME, region, market, SOURCE, as_of, tuple(found), tuple(rejected), silent)
            else:
                detail = f"zones gave no answer: {', '.join(silent)}"
                yield Failure(NAME, region, market, FailureReason.PARTIAL, detail, SOURCE)


def _catalogue(clients: GcpClients, settings: SourceSettings, patience: Patience) -> RateTable:
    """The rates of all machine parts, page by page: of 32,000 SKUs some hundred are kept."""
    as_of = settings.clock()

    def page(token: str | None) -> tuple[list[Rate], str | None]:
        skus, following = clients.sku_page(patience, token)
        return [rate for sku in skus for rate in rates(sku, as_of)], following

    found = read_all(page, max_pages=settings.max_pages)
    if not found:
        raise WireFault(FailureReason.MALFORMED, "the catalogue has no SKU of a machine: not its reply")
    return RateTable(found)


def _listing(clients: GcpClients, settings: SourceSettings, patience: Patience) -> Listing:
    if clients.compute_missing:
        _log.warning("gcp: machines as shipped, prices by region: %s", clients.compute_missing)
        shipped = gcp_machines.shipped_machines()
        return Listing(shipped, set(), set(), {machine.region for machine in shipped})
    zones: set[str] = set()
    silent: set[str] = set()

    def page(kind: str, token: str | None) -> tuple[list[dict[str, object]], str | None]:
        items, unreachable, following = clients.compute_page(patience, kind, token)
        zones.update(scope.removeprefix("zones/") for scope in items if scope.startswith("zones/"))
        silent.update(name.rsplit("/", 1)[-1] for name in unreachable if "zones/" in name)
        return [items], following

    shapes = read_all(lambda token: page("machines", token), max_pages=settings.max_pages)
    if not zones:
        raise WireFault(FailureReason.MALFORMED, "the machine list has no zones: not its reply")
    cards = read_all(lambda token: page("accelerators", token), max_pages=settings.max_pages)
    found = [each for items in shapes for each in gcp_machines.machines(items)]
    fixed = dict.fromkeys(machine for machine in found if isinstance(machine, Machine))
    hosts = dict.fromkeys(host for host in found if isinstance(host, Host))
    attached = gcp_machines.attached(hosts, (card for items in cards for card in gcp_machines.attachable(items)))
    regions = {region_of(zone) for zone in zones | silent}
    return Listing([*fixed, *attached], zones, silent, regions)
