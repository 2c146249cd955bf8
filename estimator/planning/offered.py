"""Which offers may a plan use? The request's limits applied to the market, with a count of what each one removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from operator import contains, eq

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.gpus import gpus as all_gpus
from benchmarks_db.gpus import resolve_gpu
from estimator.request.fields import Accelerators
from estimator.request.sections import Constraints, Quota, split_gpu
from pricing.offers import Market, OfferTable, PriceState
from pricing.regions import region_filter, resolve_cloud

Mask = NDArray[np.bool_]

NO_GPU = ("cpu", "cpus", "none")


@dataclass(frozen=True, slots=True)
class GpuFilter:
    """The GPUs asked for: canonical names, and the totals asked for of each (none: any number)."""

    counts: Mapping[str, frozenset[float]]
    warnings: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.counts)


def gpu_filter(asked: Sequence[str] | None, *, field: str = "constraints.gpus") -> GpuFilter:
    """Read `["H100:8", "A100-80GB"]`; a loose name means every card that it fits.

    Raises UnknownName, naming the `field`, for a GPU that no table knows.
    """
    counts: dict[str, frozenset[float]] = {}
    warnings = []
    for text in asked or ():
        name, count = split_gpu(text)
        if name.casefold() in NO_GPU:
            raise WorkloadError("training on CPUs is not planned", field=field, value=text, nearest=("T4", "L4"))
        match = resolve_gpu(name, field=field)
        fits = (match.gpu.name, *match.alternatives)
        if match.loose:
            warnings.append(f"{name!r} fits {', '.join(fits)}: all of them are looked at")
        for gpu in fits:
            before = counts.get(gpu)
            wanted = frozenset() if count is None else frozenset({count})
            any_number = count is None or (before is not None and not before)
            counts[gpu] = frozenset() if any_number else (before or frozenset()) | wanted
    return GpuFilter(counts, tuple(warnings))


@dataclass(frozen=True, slots=True)
class Offered:
    """The offers that pass every filter, and how many each filter removed, in the order they were applied."""

    table: OfferTable
    removed: Counter[str]
    last: str | None  # the filter that removed the last offer; None while some are left
    instead: str = ""  # what that filter could ask for while the others stay as they are


def offered(table: OfferTable, constraints: Constraints, gpus: GpuFilter) -> Offered:
    """Apply cloud, region, zone, instance type, market and GPU filters, then leave out what has no usable price."""
    tests: list[tuple[str, Mask]] = []
    own = table.where("market", lambda market: market == Market.OWN)
    if constraints.clouds is not None:
        clouds = {resolve_cloud(name, field="constraints.clouds") for name in constraints.clouds}
        tests.append(("cloud", own | table.where("cloud", lambda cloud: cloud in clouds)))
    if constraints.regions is not None:
        tests.append(("region", own | _in_regions(table, constraints.regions)))
    if constraints.zones is not None:
        tests.append(("zone", own | _matches(table, "zone", constraints.zones)))
    if constraints.exclude_regions is not None:
        tests.append(("region", own | ~_in_regions(table, constraints.exclude_regions, "constraints.exclude_regions")))
    if constraints.exclude_zones is not None:
        tests.append(("zone", own | ~_matches(table, "zone", constraints.exclude_zones, "constraints.exclude_zones")))
    if constraints.instance_types is not None:
        tests.append(("instance-type", _matches(table, "instance_type", constraints.instance_types)))
    if constraints.markets is not None:
        markets = {market.value for market in constraints.markets}
        tests.append(("market", table.where("market", lambda market: market in markets)))
    if constraints.accelerators is Accelerators.GPU:  # the user's own, or a market that was asked for with all of them
        known = all_gpus()
        tests.append(
            ("accelerators", table.where_type("gpu", lambda gpu: gpu not in known or known[gpu].kind == "gpu"))
        )
    if gpus:
        tests.append(("gpu", table.where_type("gpu", lambda gpu: gpu in gpus.counts)))
    if constraints.quotas:
        per_node = np.where(np.isfinite(table.gpus_per_node), table.gpus_per_node, 0.0)
        tests.append(("quota", quota_gpus(table, constraints.quotas) >= np.maximum(per_node, 1e-9)))
    if constraints.max_gpus is not None:  # one machine has more
        tests.append(("max-gpus", ~(table.gpus_per_node > constraints.max_gpus * (1 + 1e-9))))
    tests.append(("unpriced", ~table.where("state", lambda state: state == PriceState.UNPRICED)))
    tests.append(("old-price", table.ranked))

    removed: Counter[str] = Counter()
    keep = np.ones(len(table), dtype=bool)
    last = None
    for reason, passes in tests:
        before = int(keep.sum())
        keep &= passes
        gone = before - int(keep.sum())
        if gone:
            removed[reason] += gone
            if gone == before:
                last = reason
    return Offered(table.select(keep), removed, last, "" if last is None else _instead(table, tests, last, constraints))


ASKED = {
    "cloud": ("clouds", "cloud"), "region": ("regions", "region"), "zone": ("zones", "zone"),
    "instance-type": ("instance_types", "instance_type"), "market": ("markets", "market"), "gpu": ("gpus", "gpu"),
}  # fmt: skip
NAMED = 4  # values that a hint names


def _instead(table: OfferTable, tests: Sequence[tuple[str, Mask]], last: str, constraints: Constraints) -> str:
    """Which values of the filter `last` the other filters leave, those named alike first, then the cheapest."""
    if last == "max-gpus":
        return f"constraints.max_gpus: {float(np.nanmin(table.gpus_per_node)):g} is the least that a machine has"
    if last not in ASKED:
        return ""
    field, column = ASKED[last]
    rest = np.logical_and.reduce([passes for reason, passes in tests if reason != last])
    order = np.flatnonzero(rest)[np.argsort(table.usd_per_hour[rest], kind="stable")].astype(np.int32)
    left = table.select(order)
    names = [name for name in dict.fromkeys(getattr(left, column).tolist()) if name]
    asked = [text.partition(":")[0].casefold() for text in map(str, getattr(constraints, field) or ())]
    alike = [name for text in asked for name in get_close_matches(text, names, n=2, cutoff=0.6)]
    shown = list(dict.fromkeys([*alike, *names]))[:NAMED]
    if not shown:
        return ""
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"constraints.{field}: {', '.join(shown)}{more} are what the other limits leave"


def quota_gpus(table: OfferTable, quotas: Sequence[Quota]) -> NDArray[np.float64]:
    """The most GPUs that each offer may provide under the quotas, inf where none applies; shape (N,).

    Raises UnknownName for a cloud or GPU that does not exist.
    """
    most = np.full(len(table), np.inf)
    for number, quota in enumerate(quotas):
        field = f"constraints.quotas.{number}"
        applies = np.ones(len(table), dtype=bool)
        if quota.cloud is not None:
            cloud = resolve_cloud(quota.cloud, field=f"{field}.cloud")
            applies &= table.where("cloud", partial(eq, cloud))
        if quota.region is not None:
            applies &= _in_regions(table, (quota.region,), f"{field}.region")
        if quota.instance_type is not None:
            applies &= _matches(table, "instance_type", (quota.instance_type,), f"{field}.instance_type")
        if quota.market is not None:
            applies &= table.where("market", partial(eq, quota.market.value))
        if quota.gpu is not None:
            applies &= table.where_type("gpu", partial(contains, gpu_filter((quota.gpu,), field=f"{field}.gpu").counts))
        most = np.where(applies, np.minimum(most, quota.max_gpus), most)
    return most


def _in_regions(table: OfferTable, patterns: Sequence[str], field: str = "constraints.regions") -> Mask:
    """Rows in any of the regions, each (cloud, region) pair tested once."""
    places = len(table.names["region"])
    codes = table.codes["cloud"].astype(np.int64) * places + table.codes["region"]
    pairs, of_row = np.unique(codes, return_inverse=True)
    named = [(table.names["cloud"][pair // places], table.names["region"][pair % places]) for pair in pairs]
    test = region_filter(patterns, seen=[pair for pair in named if pair[1]], field=field)
    return np.array([bool(region) and test(cloud, region) for cloud, region in named], dtype=bool)[of_row]


def _matches(table: OfferTable, column: str, patterns: Sequence[str], field: str | None = None) -> Mask:
    """Rows whose zone (name or id) or instance type matches any pattern; a pattern that matches nothing is refused."""
    columns = ("zone", "zone_id") if column == "zone" else (column,)
    names = {name.casefold() for each in columns for name in table.names[each] if name}
    folded = tuple(pattern.strip().casefold() for pattern in patterns)
    for pattern, text in zip(patterns, folded, strict=True):
        if not any(fnmatchcase(name, text) for name in names):
            raise UnknownName(column.replace("_", " "), pattern, names, field=field or f"constraints.{column}s")

    def test(name: str) -> bool:
        return any(fnmatchcase(name.casefold(), text) for text in folded)

    hit: Mask = np.logical_or.reduce([table.where(each, test) for each in columns])
    return hit
