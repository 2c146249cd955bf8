"""Smaller clouds (Lambda, RunPod, Nebius, ...) through the catalogues that the library `gpuhunt` publishes and reads.

Optional: the extra `gpuhunt`, and only for clouds asked for by name (`prices refresh --cloud runpod`). The library
(MPL-2.0) downloads one dated table for each provider; `GPUHUNT_CATALOG_URL` points it elsewhere, `GPUHUNT_CATALOG_DIR`
names a folder of tables. Its prices have no currency and no time of their own: they are USD an hour by its
documentation, and are dated by the catalogue's version. A location may be a region or a zone; it is taken as it stands.

The library downloads without a time limit, so it runs on a thread that is given up at the deadline. A provider
without offers is a failure, never "sells nothing": the library answers so for a table that it could not load.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import gpus, resolve_gpu
from pricing.instances import InstanceType
from pricing.offers import Market
from pricing.regions import NEOCLOUDS
from pricing.sources.base import (
    Failure,
    FailureReason,
    Fetched,
    Observation,
    PriceSet,
    Rejection,
    Scope,
    SourceSettings,
    SourceUnavailable,
    Wanted,
)

if TYPE_CHECKING:
    from gpuhunt import CatalogItem

NAME = "gpuhunt"
SOURCE = "gpuhunt"
# What tells boards of one card apart where a name says it; nvidia-smi calls the H100 SXM5 "H100 80GB HBM3".
FORMS = {"sxm": "sxm", "pcie": "pcie", "nvl": "nvl", "hbm3": "sxm"}
MEMORY_TOLERANCE = 0.15  # providers state a card's memory a little below its label


class Shared:
    """The library's catalogue, loaded once for all providers of a refresh."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalog: Any = None
        self._failure: tuple[FailureReason, str] | None = None

    def catalog(self, settings: SourceSettings) -> Any:
        """The loaded catalogue, or why there is none as (reason, detail)."""
        with self._lock:
            if self._catalog is None and self._failure is None:
                self._load(settings)
            return self._failure or self._catalog

    def _load(self, settings: SourceSettings) -> None:
        try:
            from gpuhunt import Catalog
        except ImportError:
            missing = "gpuhunt is not installed: pip install 'gpu-cost-estimator[gpuhunt]'"
            raise SourceUnavailable(NAME, missing) from None
        catalog = Catalog(balance_resources=False, auto_reload=False)
        if settings.environ.get("GPUHUNT_CATALOG_DIR"):
            self._catalog = catalog
            return
        problem: list[BaseException] = []

        def load() -> None:
            try:
                catalog.load()
            except Exception as error:  # the library's own, and whatever a download or a table may raise
                problem.append(error.__cause__ or error)

        worker = threading.Thread(target=load, daemon=True, name="gpuhunt")
        worker.start()
        worker.join(settings.deadline_s)
        if worker.is_alive():
            self._failure = FailureReason.TIMEOUT, f"no catalogue within {settings.deadline_s:g} s"
        elif problem:
            detail = f"{type(problem[0]).__name__}: {problem[0]}"[:300]
            self._failure = FailureReason.UNREACHABLE, f"no catalogue could be loaded: {detail}"
        else:
            self._catalog = catalog


@dataclass(frozen=True, slots=True)
class ProviderScope(Scope):
    """One provider, with the catalogue that all of a refresh share."""

    shared: Shared = field(default_factory=Shared, repr=False, compare=False)


def scopes(wanted: Wanted, settings: SourceSettings) -> list[Scope]:
    """One scope for each provider."""
    shared = Shared()
    return [ProviderScope(provider, None, wanted, shared) for provider in NEOCLOUDS]


def fetch(scope: Scope, settings: SourceSettings) -> Iterator[Fetched]:
    """A price set for each location and market of a provider, its machines, or why there is nothing.

    Raises SourceUnavailable without the extra.
    """
    shared = scope.shared if isinstance(scope, ProviderScope) else Shared()
    catalog = shared.catalog(settings)
    if isinstance(catalog, tuple):
        reason, detail = catalog
        yield Failure(scope.cloud, None, None, reason, detail, SOURCE)
        return
    try:
        items = catalog.query(provider=scope.cloud, min_gpu_count=1, allowed_flags=())
    except (OSError, ValueError, UnicodeError) as error:  # a folder of tables without this one, or not a table
        yield Failure(
            scope.cloud, None, None, FailureReason.MALFORMED, f"{type(error).__name__}: {error}"[:300], SOURCE
        )
        return
    if not items:
        yield Failure(scope.cloud, None, None, FailureReason.PARTIAL, "the catalogue has no offers of it", SOURCE)
        return
    loaded = catalog.catalog.get(scope.cloud)
    yield from read(scope.cloud, items, scope.wanted, _dated(loaded.version if loaded else "", settings.clock()))


def _dated(version: str, now: datetime) -> datetime:
    """The day of a catalogue (`20260811`, `20260811-2`), never ahead of the clock; without one, now.

    >>> _dated("20260811-2", datetime(2026, 9, 1, tzinfo=UTC)).isoformat()
    '2026-08-11T00:00:00+00:00'
    """
    try:
        return min(datetime.strptime(version[:8], "%Y%m%d").replace(tzinfo=UTC), now)
    except ValueError:
        return now


def read(cloud: str, items: Iterable[CatalogItem], wanted: Wanted, seen_at: datetime) -> Iterator[Fetched]:
    """Catalogue rows as machines and as one price set for each location and market that has any."""
    found: dict[tuple[str, Market], list[Observation]] = defaultdict(list)
    rejected: dict[tuple[str, Market], list[Rejection]] = defaultdict(list)
    machines: dict[str, InstanceType] = {}
    for item in items:
        market = Market.SPOT if item.spot else Market.ON_DEMAND
        region = str(item.location).strip()
        vendor = str(getattr(item.gpu_vendor, "value", item.gpu_vendor))
        if market not in wanted.markets or not wanted.wants(region) or vendor not in ("nvidia", "amd"):
            continue
        if not region or not region.isprintable() or len(region) > 100:
            rejected[region[:100], market].append(Rejection(cloud, region[:100], market, "location unreadable"))
            continue
        card = canonical(str(item.gpu_name or ""), item.gpu_memory, item.instance_name)
        count = float(item.gpu_count)
        found[region, market].append(
            Observation(
                cloud=cloud,
                region=region,
                instance_type=item.instance_name,
                market=market,
                price_usd_per_hour=Decimal(repr(item.price)),
                gpu=card,
                gpus_per_node=count,
            )
        )
        machines.setdefault(item.instance_name, _machine(cloud, item, card, count))
    yield from machines.values()
    for region, market in sorted({*found, *rejected}):
        rows, bad = found[region, market], rejected[region, market]
        yield PriceSet(cloud, region, market, SOURCE, seen_at, tuple(rows), tuple(bad))


def _machine(cloud: str, item: CatalogItem, card: str | None, count: float) -> InstanceType:
    word = f"{item.gpu_name} {item.gpu_memory or 0:g} GB"
    return InstanceType(
        cloud=cloud,
        instance_type=item.instance_name,
        gpu=card,
        gpus=count,
        gpu_mem_gib=item.gpu_memory,
        vcpus=item.cpu or None,
        mem_gib=item.memory or None,
        local_ssd_gb=item.disk_size or None,
        notes="" if card else f"unknown GPU: {word}",
        source=SOURCE,
    )


def canonical(name: str, memory_gb: float | None, instance: str = "") -> str | None:
    """The card that the library's word means: its memory and the instance's name decide between boards, else None.

    >>> canonical("H100", 80, "gpu_8x_h100_sxm5"), canonical("H100", 80, "8H100.80S"), canonical("L40S", 48)
    ('H100-SXM5-80GB', None, 'L40S')
    """
    try:
        match = resolve_gpu(name)
    except WorkloadError:
        return None
    cards = (match.gpu.name, *(other for other in match.alternatives if other != match.gpu.name))
    if memory_gb:
        limit = MEMORY_TOLERANCE * memory_gb
        cards = tuple(c for c in cards if abs((gpus()[c].memory_gib or math.inf) - memory_gb) <= limit)
    forms = {form for word, form in FORMS.items() if word in f"{name} {instance}".casefold()}
    if len(cards) > 1 and len(forms) == 1:
        cards = tuple(c for c in cards if max(forms) in c.casefold())
    return cards[0] if len(cards) == 1 else None
