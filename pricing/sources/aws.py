"""AWS: on-demand from the price list, spot from the price history by zone, GPU facts from EC2; one scope a region.

Without credentials the public offer files (CSV by region, streamed) give on-demand prices, and spot is reported as
missing credentials. The Spot Advisor's public file gives interruption buckets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pricing.instances import instance_types
from pricing.offers import Market
from pricing.sources import aws_bulk, aws_price_list, aws_spot, aws_spot_advisor
from pricing.sources.aws_client import NO_CREDENTIALS, PRICING_REGION, AwsClients
from pricing.sources.aws_machines import GPU_FAMILY, GpuCatalogue
from pricing.sources.base import (
    Failure,
    FailureReason,
    Fetched,
    Observation,
    PriceSet,
    Rejection,
    Scope,
    SourceSettings,
    Wanted,
)
from pricing.sources.paging import read_all
from pricing.sources.patience import HostGate, Patience, WireFault
from pricing.sources.plain_http import get, get_lines, http_client
from pricing.sources.readings import NotJson, mapping, read_json

T = TypeVar("T")

NAME = "aws"
BULK_URL = "https://pricing.us-east-1.amazonaws.com"
BULK_INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
ADVISOR_URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
PRICING, SPOT, BULK = "aws:pricing", "aws:spot-history", "aws:bulk"

_HOME_REGIONS = ("us-east-1", "us-west-2", "eu-west-1")  # asked in turn for what every region can answer
_NAMES_A_CALL = 100  # DescribeInstanceTypes takes no more
_FILTER_LENGTH = 900  # characters of a list in one filter value of the price list API
_MOST_BULK_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True)
class AwsScope(Scope):
    """One region, or the advisor's file (`region` None), with what all scopes of one refresh share."""

    account: Account | None = field(default=None, repr=False, compare=False)
    status: str = ""  # "bulk": no credentials; "off": not enabled for this account; "advisor"; "broken"
    fault: WireFault | None = field(default=None, repr=False, compare=False)


class Account:
    """What the scopes of one refresh share: clients, and the GPU catalogue read once."""

    def __init__(self, clients: AwsClients) -> None:
        self.clients = clients
        self._lock = threading.Lock()
        self._catalogue: GpuCatalogue | WireFault | None = None
        self._homes: tuple[str, ...] = _HOME_REGIONS

    def regions(self, patience: Patience) -> dict[str, bool]:
        """Every region and whether it is enabled here; raises WireFault when no region can be asked."""
        reply = self._first(
            lambda home: self.clients.ask(patience, "ec2", home, "DescribeRegions", "Regions", AllRegions=True)
        )
        return {
            row["RegionName"]: row.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
            for row in reply["Regions"]
            if isinstance(row.get("RegionName"), str) and not row["RegionName"].startswith(("cn-", "us-gov-"))
        }

    def accepts_credentials(self, patience: Patience) -> WireFault | None:
        """None if STS knows the credentials (or cannot be asked), else why not: tells bad keys from a region off."""
        try:
            self.clients.ask(patience, "sts", PRICING_REGION, "GetCallerIdentity", "Account")
        except WireFault as fault:
            return fault if fault.reason is FailureReason.CREDENTIALS else None
        return None

    def catalogue(self, patience: Patience) -> GpuCatalogue:
        """The machines with GPUs, read in one region for all; the fault of the first try is raised again."""
        with self._lock:
            if self._catalogue is None:
                try:
                    self._catalogue = GpuCatalogue(self._home_types(patience))
                except WireFault as fault:
                    self._catalogue = fault
            if isinstance(self._catalogue, WireFault):
                raise self._catalogue
            return self._catalogue

    def _home_types(self, patience: Patience) -> list[object]:
        def whole(region: str) -> list[object]:
            def page(token: str | None) -> tuple[list[object], str | None]:
                more = {"NextToken": token} if token else {}
                reply = self.clients.ask(
                    patience, "ec2", region, "DescribeInstanceTypes", "InstanceTypes", MaxResults=100, **more
                )
                return reply["InstanceTypes"], reply.get("NextToken")

            return read_all(page, max_pages=self.clients.settings.max_pages)

        return self._first(whole)

    def _first(self, ask: Callable[[str], T]) -> T:
        """What the first of the home regions answers (asked first from then on); the first fault if none does."""
        first: WireFault | None = None
        for region in self._homes:
            try:
                answer = ask(region)
            except WireFault as fault:
                first = first or fault
                if fault.reason in (FailureReason.CREDENTIALS, FailureReason.PERMISSION, FailureReason.INTERNAL):
                    break
            else:
                self._homes = (region, *(other for other in _HOME_REGIONS if other != region))
                return answer
        assert first is not None
        if first.reason is FailureReason.REGION_OFF:  # these regions cannot be off: it is the account or its keys
            raise WireFault(FailureReason.PERMISSION, f"EC2 refuses this account in every region: {first.detail}")
        raise first


def scopes(wanted: Wanted, settings: SourceSettings) -> list[Scope]:
    """One scope a region, one for the advisor's file. Without credentials: the regions of the public offer files."""
    found: list[Scope] = []
    if wanted.markets:
        found += _region_scopes(wanted, settings)
    if wanted.interruptions:
        account = next((scope.account for scope in found if isinstance(scope, AwsScope)), None)
        found.append(AwsScope(NAME, None, replace(wanted, markets=frozenset()), account, "advisor"))
    return found


def _region_scopes(wanted: Wanted, settings: SourceSettings) -> list[Scope]:
    try:
        clients: AwsClients | None = AwsClients(settings)
    except ImportError:
        clients = None
    patience = Patience(settings)
    if clients is None or not clients.has_credentials():
        return _bulk_scopes(wanted, settings, patience)
    account = Account(clients)
    try:
        regions = account.regions(patience)
    except WireFault as fault:
        refused = fault if fault.reason is FailureReason.CREDENTIALS else account.accepts_credentials(patience)
        if refused is not None:
            return [AwsScope(NAME, None, wanted, account, "broken", refused)]
        regions = dict.fromkeys(_guessed_regions(clients), True)
    return [
        AwsScope(NAME, region, wanted, account, "" if enabled else "off")
        for region, enabled in sorted(regions.items())
        if wanted.wants(region)
    ]


def _guessed_regions(clients: AwsClients) -> list[str]:
    """Regions for when EC2 does not list them: those that the library knows."""
    return [region for region in clients.known_regions() if not region.startswith(("cn-", "us-gov-", "us-iso"))]


def _bulk_scopes(wanted: Wanted, settings: SourceSettings, patience: Patience) -> list[Scope]:
    base = (settings.aws_bulk_url or BULK_URL).rstrip("/")
    with http_client(settings, base) as client:

        def ask() -> list[str]:
            body = get(client, base + BULK_INDEX, settings=settings, deadline=patience.deadline)
            try:
                regions = mapping(read_json(body)).get("regions")
            except NotJson as error:
                raise WireFault(FailureReason.MALFORMED, f"region index: {error}", tries=WireFault.MANY) from None
            if not isinstance(regions, dict):
                raise WireFault(FailureReason.NOT_THE_API, "region index: regions missing")
            return [name for name in regions if name.count("-") == 2 and not name.startswith(("cn-", "us-gov-"))]

        try:
            regions = patience.call(HostGate(), ask)
        except WireFault as fault:
            return [AwsScope(NAME, None, wanted, None, "broken", fault)]
    return [AwsScope(NAME, region, wanted, None, "bulk") for region in sorted(regions) if wanted.wants(region)]


def fetch(scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
    """The price sets, failures, new machines and interruption facts of one scope (one of `scopes`)."""
    if not isinstance(scope, AwsScope):
        scope = _prepared(scope, settings)
    patience = Patience(settings)
    if scope.status == "advisor":
        yield from _advisor(scope, settings, patience)
    elif scope.status == "broken" or scope.region is None:
        fault = scope.fault or WireFault(FailureReason.INTERNAL, "a scope without a region")
        yield fault.failure(NAME, None, None, "aws")
    elif scope.status == "bulk" or scope.account is None:
        yield from _without_credentials(scope.region, scope.wanted, settings, patience)
    else:
        yield from _region(scope, scope.account, scope.region, settings)


def _prepared(scope: Scope, settings: SourceSettings) -> AwsScope:
    """A scope that somebody built by hand, with what it lacks."""
    clients = AwsClients(settings)
    if clients.has_credentials():
        return AwsScope(scope.cloud, scope.region, scope.wanted, Account(clients))
    return AwsScope(scope.cloud, scope.region, scope.wanted, None, "bulk")


def _region(scope: AwsScope, account: Account, region: str, settings: SourceSettings) -> Iterator[Fetched]:
    """One region. The three services share the deadline in turn: one that drags fails alone."""
    as_of = settings.clock()
    whole = Patience(settings)
    patience = whole.up_to(1 / 2)
    off = WireFault(FailureReason.REGION_OFF, f"region {region} is not enabled for this account")
    no_facts: WireFault | None = off if scope.status == "off" else None
    catalogue, offered = GpuCatalogue(), list[str]()
    try:
        catalogue = account.catalogue(patience)
        offered = catalogue.gpu_types()
        if scope.status != "off":
            offered = _offered(account.clients, catalogue, region, patience)
    except WireFault as fault:
        no_facts = no_facts or fault
    yield from (machine for machine in catalogue.new_machines() if machine.instance_type in offered)
    if Market.ON_DEMAND in scope.wanted.markets:
        patience = whole.up_to(3 / 4)
        try:
            rows, rejected = _on_demand(account.clients, catalogue, offered, region, settings, patience)
            yield PriceSet(NAME, region, Market.ON_DEMAND, PRICING, as_of, tuple(rows), tuple(rejected))
        except WireFault as fault:
            yield fault.failure(NAME, region, Market.ON_DEMAND, PRICING)
    if Market.SPOT in scope.wanted.markets:
        patience = whole
        try:
            if no_facts is not None:
                raise no_facts
            rows, rejected = _spot(account.clients, catalogue, offered, region, settings, patience)
            yield PriceSet(NAME, region, Market.SPOT, SPOT, as_of, tuple(rows), tuple(rejected))
        except WireFault as fault:
            yield _told_apart(fault, account, patience).failure(NAME, region, Market.SPOT, SPOT)


def _told_apart(fault: WireFault, account: Account, patience: Patience) -> WireFault:
    """EC2 says AuthFailure both of a region that is off and of bad keys: STS knows which."""
    if fault.reason is not FailureReason.REGION_OFF or "AuthFailure" not in fault.detail:
        return fault
    return account.accepts_credentials(patience) or fault


def _offered(clients: AwsClients, catalogue: GpuCatalogue, region: str, patience: Patience) -> list[str]:
    """The GPU types that a region offers; types that the catalogue lacks are described there."""

    def page(token: str | None) -> tuple[list[Any], str | None]:
        more = {"NextToken": token} if token else {}
        reply = clients.ask(
            patience,
            "ec2",
            region,
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="region",
            MaxResults=1000,
            **more,
        )
        return reply["InstanceTypeOfferings"], reply.get("NextToken")

    rows = read_all(page, max_pages=clients.settings.max_pages)
    names = sorted({row["InstanceType"] for row in rows if isinstance(row.get("InstanceType"), str)})
    unknown = [name for name in names if not catalogue.knows(name)]
    for at in range(0, len(unknown), _NAMES_A_CALL):
        asked = unknown[at : at + _NAMES_A_CALL]
        reply = clients.ask(patience, "ec2", region, "DescribeInstanceTypes", "InstanceTypes", InstanceTypes=asked)
        catalogue.add(reply["InstanceTypes"])
    return [name for name in names if catalogue.knows(name) and catalogue.gpu_of(name) is not None]


def _on_demand(
    clients: AwsClients,
    catalogue: GpuCatalogue,
    offered: Sequence[str],
    region: str,
    settings: SourceSettings,
    patience: Patience,
) -> tuple[list[Observation], list[Rejection]]:
    """Asks for the offered GPU types alone, and for everything where that is refused or finds nothing."""
    as_of = settings.clock()
    plain = [
        {"Type": "TERM_MATCH", "Field": name, "Value": value}
        for name, value in {**aws_price_list.PLAIN_LINUX, "regionCode": region}.items()
    ]

    def ask(narrowed: list[dict[str, str]]) -> list[object]:
        def page(token: str | None) -> tuple[list[object], str | None]:
            reply = clients.ask(
                patience,
                "pricing",
                PRICING_REGION,
                "GetProducts",
                "PriceList",
                ServiceCode="AmazonEC2",
                FormatVersion="aws_v1",
                MaxResults=100,
                Filters=plain + narrowed,
                **({"NextToken": token} if token else {}),
            )
            return reply["PriceList"], reply.get("NextToken")

        return read_all(page, max_pages=settings.max_pages)

    items: list[object] = []
    try:
        for names in _joined(offered):
            items += ask([{"Type": "ANY_OF", "Field": "instanceType", "Value": names}])
    except WireFault as fault:
        if "InvalidParameter" not in fault.detail and "Validation" not in fault.detail:
            raise
        items = []
    if not items:
        items = ask([{"Type": "TERM_MATCH", "Field": "instanceFamily", "Value": GPU_FAMILY}]) or ask([])
    return aws_price_list.on_demand(items, region, as_of, catalogue.gpu_of)


def _joined(names: Sequence[str]) -> Iterator[str]:
    """Names joined by commas, in pieces no longer than a filter value may be."""
    piece = ""
    for name in names:
        if piece and len(piece) + 1 + len(name) > _FILTER_LENGTH:
            yield piece
            piece = ""
        piece = f"{piece},{name}" if piece else name
    if piece:
        yield piece


def _spot(
    clients: AwsClients,
    catalogue: GpuCatalogue,
    offered: Sequence[str],
    region: str,
    settings: SourceSettings,
    patience: Patience,
) -> tuple[list[Observation], list[Rejection]]:
    """The history from now on, which holds the last change before now of each type, zone and product."""
    as_of = settings.clock()
    if not offered:
        return [], []

    def page(token: str | None) -> tuple[list[object], str | None]:
        reply = clients.ask(
            patience,
            "ec2",
            region,
            "DescribeSpotPriceHistory",
            "SpotPriceHistory",
            InstanceTypes=list(offered),
            ProductDescriptions=list(aws_spot.LINUX),
            StartTime=as_of,
            MaxResults=1000,
            **({"NextToken": token} if token else {}),
        )
        return reply["SpotPriceHistory"], reply.get("NextToken")

    records = read_all(page, max_pages=settings.max_pages)
    return aws_spot.latest(records, region, as_of, catalogue.gpu_of)


def _without_credentials(
    region: str, wanted: Wanted, settings: SourceSettings, patience: Patience
) -> Iterator[Fetched]:
    as_of = settings.clock()
    base = (settings.aws_bulk_url or BULK_URL).rstrip("/")
    if Market.ON_DEMAND in wanted.markets:
        url = f"{base}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
        catalogue = GpuCatalogue()
        with http_client(settings, base) as client:

            def ask() -> tuple[list[Observation], list[Rejection]]:
                lines = get_lines(
                    client, url, settings=settings, deadline=patience.deadline, max_bytes=_MOST_BULK_BYTES
                )
                return aws_bulk.on_demand(lines, region, as_of, catalogue.gpu_of)

            try:
                rows, rejected = patience.call(HostGate(), ask)
                yield PriceSet(NAME, region, Market.ON_DEMAND, BULK, as_of, tuple(rows), tuple(rejected))
            except WireFault as fault:
                yield fault.failure(NAME, region, Market.ON_DEMAND, BULK)
    if Market.SPOT in wanted.markets:
        yield Failure(NAME, region, Market.SPOT, FailureReason.NOT_CONFIGURED, NO_CREDENTIALS, SPOT)


def _advisor(scope: AwsScope, settings: SourceSettings, patience: Patience) -> Iterator[Fetched]:
    """The buckets of GPU machines: those of the shipped table and those that EC2 has described."""
    url = settings.aws_spot_advisor_url or ADVISOR_URL
    machines = {name for cloud, name in instance_types() if cloud == NAME}
    if scope.account is not None:
        with suppress(WireFault):
            machines.update(scope.account.catalogue(patience).gpu_types())
    with http_client(settings, url) as client:

        def ask() -> list[Fetched]:
            body = get(client, url, settings=settings, deadline=patience.deadline)
            facts = aws_spot_advisor.interruptions(body, settings.clock())
            return [fact for fact in facts if fact.instance_type in machines and scope.wanted.wants(fact.region)]

        try:
            yield from patience.call(HostGate(), ask)
        except WireFault as fault:
            yield replace(fault.failure(NAME, None, None, aws_spot_advisor.SOURCE), prices=False)
