"""Which cloud and which region did a person mean? Canonical names, places, globs and areas.

A region is asked for by its name (`us-east-1`, `eastus`), its place ("Frankfurt", "East US"), its country, a glob
(`us-*`, `europe-west?`) or a glob on its area: every region also answers to `AREA-NAME`, where the area is one of
us, ca, mx, sa, eu, me, af, ap. So `us-*` takes Azure's `eastus` along with `us-east-1`, and `eu-*` Google's
`europe-west4`. A region that no table knows (a new one, seen live) answers to its own name and to globs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from benchmarks_db.errors import UnknownName

DATA = Path(__file__).parent / "data"
CLOUDS = ("aws", "gcp", "azure")
NEOCLOUDS = ("cloudrift", "lambdalabs", "nebius", "oci", "runpod", "verda")  # read by the extra `gpuhunt`
CLOUD_ALIASES = MappingProxyType(
    {
        "amazon": "aws",
        "amazonwebservices": "aws",
        "ec2": "aws",
        "google": "gcp",
        "googlecloud": "gcp",
        "googlecloudplatform": "gcp",
        "gce": "gcp",
        "microsoft": "azure",
        "microsoftazure": "azure",
        "msazure": "azure",
        "az": "azure",
        "lambda": "lambdalabs",
        "oracle": "oci",
        "oraclecloud": "oci",
        "datacrunch": "verda",
    }
)
CLOUD_TITLES = MappingProxyType(
    {
        "aws": "AWS",
        "gcp": "Google Cloud",
        "azure": "Azure",
        "own": "own machines",
        "cloudrift": "CloudRift",
        "lambdalabs": "Lambda",
        "nebius": "Nebius",
        "oci": "Oracle Cloud",
        "runpod": "RunPod",
        "verda": "Verda",
    }
)


@dataclass(frozen=True, slots=True)
class Region:
    """A cloud's region and where it is."""

    cloud: str
    region: str
    place: str
    country: str
    continent: str
    area: str
    aliases: tuple[str, ...]
    source: str


def _plain(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def resolve_cloud(text: str, *, field: str = "cloud") -> str:
    """The canonical cloud: aws, gcp, azure, own, or a smaller one of `NEOCLOUDS`.

    >>> resolve_cloud("Google Cloud")
    'gcp'
    """
    plain = _plain(text)
    name = CLOUD_ALIASES.get(plain, plain)
    if name not in CLOUD_TITLES:
        error = UnknownName("cloud", text, [*CLOUD_TITLES, *CLOUD_ALIASES], field=field)
        error.nearest = error.nearest or CLOUDS
        raise error
    return name


@lru_cache(maxsize=1)
def regions() -> Mapping[tuple[str, str], Region]:
    """Every region the tables know, by (cloud, region)."""
    import csv

    found = {}
    with (DATA / "regions.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            aliases = tuple(filter(None, row.pop("aliases").split(";")))
            found[row["cloud"], row["region"]] = Region(**row, aliases=aliases)
    return MappingProxyType(found)


@lru_cache(maxsize=1)
def _spoken() -> Mapping[str, frozenset[tuple[str, str]]]:
    """Every way to say a region, folded, with the regions that it may mean."""
    found: dict[str, set[tuple[str, str]]] = {}
    for key, region in regions().items():
        for name in (region.region, region.place, region.country, region.continent, *region.aliases):
            found.setdefault(_plain(name), set()).add(key)
    return {name: frozenset(keys) for name, keys in found.items()}


def resolve_region(text: str, *, cloud: str | None = None, field: str = "region") -> tuple[Region, ...]:
    """The regions that a person's text names, in all clouds or one; UnknownName with near names otherwise.

    >>> [r.region for r in resolve_region("Frankfurt", cloud="aws")]
    ['eu-central-1']
    """
    keys = _spoken().get(_plain(text), frozenset())
    found = tuple(regions()[key] for key in sorted(keys) if cloud in (None, key[0]))
    if not found:
        names = {r.region for r in regions().values() if cloud in (None, r.cloud)}
        places = {r.place for r in regions().values() if cloud in (None, r.cloud)}
        raise UnknownName("region", text, [*sorted(names), *sorted(places)], field=field)
    return found


def is_glob(text: str) -> bool:
    """Whether a pattern has wildcards.

    >>> is_glob("us-*")
    True
    """
    return any(c in text for c in "*?[")


def region_filter(
    patterns: Sequence[str], *, seen: Iterable[tuple[str, str]] = (), field: str = "regions"
) -> Callable[[str, str], bool]:
    """A test of (cloud, region) for a list of names and globs; an empty list lets everything through.

    `seen` are further (cloud, region) pairs that exist (from a store). A pattern that no region answers to raises
    UnknownName. Own machines have no region and are not the business of this filter.

    >>> test = region_filter(["us-*", "Frankfurt"])
    >>> test("azure", "eastus"), test("aws", "eu-central-1"), test("gcp", "asia-east1")
    (True, True, False)
    """
    known = {*regions(), *seen}
    globs = [p.casefold() for p in patterns if is_glob(p)]
    keys: set[tuple[str, str]] = set()
    for pattern in patterns:
        if is_glob(pattern):
            if not any(_answers(key, pattern.casefold()) for key in known):
                raise UnknownName("region", pattern, sorted({name for _, name in known}), field=field)
            continue
        exact = {key for key in known if key[1].casefold() == pattern.casefold()}
        keys |= exact or {(r.cloud, r.region) for r in resolve_region(pattern, field=field)}

    def test(cloud: str, region: str) -> bool:
        key = (cloud, region)
        return not patterns or key in keys or any(_answers(key, glob) for glob in globs)

    return test


def _answers(key: tuple[str, str], glob: str) -> bool:
    name = key[1].casefold()
    if fnmatchcase(name, glob):
        return True
    region = regions().get(key)
    return region is not None and fnmatchcase(f"{region.area}-{name}", glob)
