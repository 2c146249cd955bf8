"""How often does Azure take spot machines back? Eviction bands by size and region from Azure Resource Graph; optional.

Needs a bearer token of anybody in a tenant (`ESTIMATOR_AZURE_TOKEN`, e.g. what `az account get-access-token` prints);
without one this is not asked at all. A band is percent of machines *per hour* over the trailing 28 days. It covers a
part of the sizes, and is empty for some tenants: an empty answer changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pricing.interruptions import InterruptionFact
from pricing.sources.azure_retail import known_size
from pricing.sources.base import Failure, FailureReason, Fetched, Scope, SourceSettings
from pricing.sources.paging import read_all
from pricing.sources.patience import HostGate, Patience, WireFault
from pricing.sources.plain_http import get, http_client, is_loopback
from pricing.sources.readings import NotJson, mapping, read_json

SOURCE = "azure:evictions"
GRAPH_URL = "https://management.azure.com/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01"
TOKEN = "ESTIMATOR_AZURE_TOKEN"
QUERY = (
    "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
    "| project sku=tostring(sku.name), location=location, rate=tostring(properties.evictionRate)"
)
PAGE = 1000
BAND = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(?:-\s*(\d{1,3}(?:\.\d+)?)|\+)")


@dataclass(frozen=True, slots=True)
class EvictionScope(Scope):
    """The eviction bands of all regions."""

    @property
    def name(self) -> str:
        """For progress and messages."""
        return "azure evictions"


def configured(settings: SourceSettings) -> bool:
    """Whether there is somebody to ask and something to ask with."""
    url = settings.azure_graph_url
    return bool(settings.environ.get(TOKEN)) or bool(url and is_loopback(url))


def fetch(scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
    """A fact for each known GPU size and wanted region, or why there is none (no price grows stale by it)."""
    as_of = settings.clock()
    try:
        rows = _rows(settings)
    except WireFault as fault:
        yield Failure("azure", None, None, fault.reason, fault.detail, SOURCE, prices=False)
        return
    yield from (fact for fact in facts(rows, as_of) if scope.wanted.wants(fact.region))


def facts(rows: Iterable[object], as_of: datetime) -> Iterator[InterruptionFact]:
    """What the rows say of GPU sizes that the table knows; anything else is left out."""
    for row in rows:
        size, region, band = (str(mapping(row).get(key) or "").strip() for key in ("sku", "location", "rate"))
        machine, found = known_size(size), BAND.fullmatch(band)
        if machine is None or found is None or not (region.isalnum() and region.isascii() and len(region) < 40):
            continue
        low, high = float(found[1]), float(found[2]) if found[2] else None
        if low > 100 or (high is not None and not low < high <= 100):
            continue
        yield InterruptionFact("azure", region.casefold(), machine.instance_type, low, high, None, as_of, SOURCE)


def _rows(settings: SourceSettings) -> list[object]:
    url = settings.azure_graph_url or GRAPH_URL
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token := settings.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token.strip()}"
    patience, gate = Patience(settings), HostGate()

    def page(token: str | None) -> tuple[list[object], str | None]:
        options: dict[str, object] = {"resultFormat": "objectArray", "$top": PAGE}
        if token:
            options["$skipToken"] = token
        asked = json.dumps({"query": QUERY, "options": options}).encode()
        return patience.call(gate, lambda: _read(get(client, url, settings=settings, deadline=patience.deadline,
                                                     headers=headers, content=asked)))  # fmt: skip

    with http_client(settings, url) as client:
        return read_all(page, max_pages=settings.max_pages)


def _read(body: bytes) -> tuple[list[object], str | None]:
    try:
        reply = mapping(read_json(body))
    except NotJson as error:
        raise WireFault(FailureReason.MALFORMED, str(error), tries=WireFault.MANY) from None
    data, token = reply.get("data"), reply.get("$skipToken")
    if not isinstance(data, list):
        raise WireFault(FailureReason.NOT_THE_API, "the reply lacks data: not the API's", tries=2)
    if token is not None and not isinstance(token, str):
        raise WireFault(FailureReason.MALFORMED, "the skip token is not a text")
    return data, token or None
