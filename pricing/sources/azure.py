"""Azure: on-demand and spot from the public Retail Prices API, no credentials; one scope a region, no zones.

Eviction bands of spot machines come from another API (`azure_evictions`) where a token for it is set.

The API has no list of regions: those of `azure_regions.csv` are asked, and those in which a few widespread GPU sizes
turn up besides.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from pricing.offers import Market
from pricing.sources import azure_evictions, azure_retail
from pricing.sources.azure_retail import Meter, Spoiled
from pricing.sources.base import FailureReason, Fetched, PriceSet, Scope, SourceSettings, Wanted
from pricing.sources.paging import read_all
from pricing.sources.patience import HostGate, Patience, WireFault
from pricing.sources.plain_http import get, http_client, same_host
from pricing.sources.readings import NotJson, listing, mapping, read_json

if TYPE_CHECKING:
    import httpx

NAME = "azure"
SOURCE = "azure:retail"
RETAIL_URL = "https://prices.azure.com/api/retail/prices"
API_VERSION = "2023-01-01-preview"

_log = logging.getLogger(__name__)
_WIDESPREAD = (
    "Standard_NC4as_T4_v3",
    "Standard_NV36ads_A10_v5",
    "Standard_NC24ads_A100_v4",
    "Standard_ND96isr_H100_v5",
)
_NARROW = " and contains(armSkuName, 'Standard_N')"


class Shared:
    """What the scopes of one refresh share: the host's state, and whether the API understands `contains`."""

    def __init__(self) -> None:
        self.gate = HostGate()
        self.narrows: bool | None = None  # None: not known yet; False: such questions are refused


@dataclass(frozen=True, slots=True)
class AzureScope(Scope):
    """One region, with what all regions of a refresh share."""

    shared: Shared = field(default_factory=Shared, repr=False, compare=False)


@cache
def _listed_regions() -> tuple[str, ...]:
    text = resources.files("pricing").joinpath("sources/azure_regions.csv").read_text(encoding="utf-8")
    return tuple(row["region"] for row in csv.DictReader(text.splitlines()))


def scopes(wanted: Wanted, settings: SourceSettings) -> list[Scope]:
    """One scope for each region known or found."""
    if not wanted.markets:
        return []
    shared = Shared()
    regions = {*_listed_regions(), *_discovered(shared, settings)}
    found: list[Scope] = [
        AzureScope(NAME, region, wanted, shared) for region in sorted(regions) if wanted.wants(region)
    ]
    if wanted.interruptions and Market.SPOT in wanted.markets and azure_evictions.configured(settings):
        found.append(azure_evictions.EvictionScope(NAME, None, wanted))
    return found


def _discovered(shared: Shared, settings: SourceSettings) -> set[str]:
    """Regions that sell one of a few widespread sizes; a failure here costs nothing but unknown regions."""
    patience = Patience(settings)
    base = settings.azure_retail_url or RETAIL_URL

    def regions_of(client: httpx.Client, size: str) -> set[str]:
        first = _question(base, f"armSkuName eq '{size}'")
        found: set[str] = set()

        def page(link: str | None) -> tuple[list[str], str | None]:
            items, following = _page(client, link or first, base, shared, settings, patience)
            return [str(mapping(item).get("armRegionName", "")).casefold() for item in items], following

        try:
            found.update(read_all(page, max_pages=settings.max_pages))
        except WireFault as fault:
            _log.info("azure: regions selling %s not found: %s", size, fault)
        return {name for name in found if name.isalnum() and name.isascii() and len(name) < 40}

    with http_client(settings, base) as client, ThreadPoolExecutor(len(_WIDESPREAD)) as pool:
        return set().union(*pool.map(lambda size: regions_of(client, size), _WIDESPREAD))


def fetch(scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
    """A price set (or failure) for each wanted market of one region, and sizes that no table knows."""
    if isinstance(scope, azure_evictions.EvictionScope):
        yield from azure_evictions.fetch(scope, settings)
        return
    region, as_of = scope.region or "", settings.clock()
    shared = scope.shared if isinstance(scope, AzureScope) else Shared()
    base = settings.azure_retail_url or RETAIL_URL
    patience = Patience(settings)
    try:
        with http_client(settings, base) as client:
            rows = _rows(client, region, base, shared, settings, patience)
    except WireFault as fault:
        for market in sorted(scope.wanted.markets):
            yield fault.failure(NAME, region, market, SOURCE)
        return
    by_market = azure_retail.observations(rows, region)
    new = {one.instance_type for found, _ in by_market.values() for one in found} - {
        one.instance_type
        for found, _ in by_market.values()
        for one in found
        if azure_retail.known_size(one.instance_type)
    }
    yield from (azure_retail.new_machine(size) for size in sorted(new))
    for market, (found, rejected) in by_market.items():
        if market in scope.wanted.markets:
            yield PriceSet(NAME, region, market, SOURCE, as_of, tuple(found), tuple(rejected))


def _rows(
    client: httpx.Client, region: str, base: str, shared: Shared, settings: SourceSettings, patience: Patience
) -> list[Meter | Spoiled]:
    """The rows of one region that matter.

    Only the GPU sizes are asked for (1 page instead of 16). Where that is refused, or finds nothing before it has
    ever found something, everything is asked for: an empty answer must mean that there is nothing.
    """

    def ask(narrow: str) -> tuple[list[Meter | Spoiled], int]:
        asked = f"armRegionName eq '{region}' and priceType eq 'Consumption'{narrow}"
        seen = 0

        def page(link: str | None) -> tuple[list[Meter | Spoiled], str | None]:
            nonlocal seen
            items, following = _page(client, link or _question(base, asked), base, shared, settings, patience)
            seen += len(items)
            read = (azure_retail.read_row(item, region, as_of) for item in items)
            return [row for row in read if row is not None], following

        return read_all(page, max_pages=settings.max_pages), seen

    as_of = settings.clock()
    if shared.narrows is not False:
        try:
            rows, seen = ask(_NARROW)
        except WireFault as fault:
            if fault.reason is not FailureReason.NOT_THE_API or "HTTP 400" not in fault.detail:
                raise
            shared.narrows = False
        else:
            if seen:
                shared.narrows = True
            if seen or shared.narrows:
                return rows
    return ask("")[0]


def _question(base: str, asked: str) -> str:
    filters = f"serviceName eq '{azure_retail.SERVICE}' and {asked}"
    query = {"api-version": API_VERSION, "currencyCode": "'USD'", "$filter": filters}
    return f"{base}{'&' if '?' in base else '?'}{urlencode(query, safe='$', quote_via=quote)}"


def _page(
    client: httpx.Client, link: str, base: str, shared: Shared, settings: SourceSettings, patience: Patience
) -> tuple[list[object], str | None]:
    """The items of one page and the link to the next, which must lead to the configured host."""

    def once() -> tuple[list[object], str | None]:
        body = get(client, link, settings=settings, deadline=patience.deadline)
        try:
            page = read_json(body)
        except NotJson as error:
            raise WireFault(FailureReason.MALFORMED, str(error), tries=WireFault.MANY) from None
        items, following = mapping(page).get("Items"), mapping(page).get("NextPageLink")
        if not isinstance(items, list):
            raise WireFault(FailureReason.NOT_THE_API, "the reply lacks Items: not the API's", tries=2)
        if following is not None and not isinstance(following, str):
            raise WireFault(FailureReason.MALFORMED, "the next-page link is not a text")
        return listing(items), following or None

    items, following = patience.call(shared.gate, once)
    if following and not same_host(following, base):
        raise WireFault(FailureReason.PAGING, f"the next-page link leads to another host: {following[:120]}")
    return items, following
