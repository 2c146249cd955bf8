"""How far does a refresh reach? To these clouds, regions and markets: a narrow one stands in for no wide one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pricing.market import Market
from pricing.sources.base import Wanted

LIVE_SOURCES = ("gcp", "aws", "azure")  # the longest single scope first; all that is asked when no cloud is named


@dataclass(frozen=True, slots=True)
class Reach:
    """What a refresh asks for, in the canonical names of clouds and regions."""

    clouds: frozenset[str] = frozenset(LIVE_SOURCES)
    wanted: Wanted = field(default_factory=Wanted)

    @classmethod
    def of(cls, clouds: Sequence[str] = (), wanted: Wanted = Wanted()) -> Reach:
        """Of the clouds that were named; of all live ones where none was."""
        return cls(frozenset(clouds or LIVE_SOURCES), wanted)

    def covers(self, other: Reach) -> bool:
        """Whether whoever did this has done the other too.

        >>> Reach.of().covers(Reach.of(["aws"])), Reach.of(["aws"]).covers(Reach.of())
        (True, False)
        """
        ours, theirs = self.wanted, other.wanted
        regions = not ours.regions or (bool(theirs.regions) and all(ours.wants(region) for region in theirs.regions))
        return other.clouds <= self.clouds and theirs.markets <= ours.markets and regions

    def words(self) -> str:
        """What it is narrowed to, for people; empty for all there is."""
        said = [] if self.clouds >= set(LIVE_SOURCES) else [", ".join(sorted(self.clouds))]
        said += [f"{len(self.wanted.regions)} regions"] if self.wanted.regions else []
        said += [] if self.wanted.markets >= Wanted().markets else [", ".join(sorted(self.wanted.markets))]
        return "; ".join(said)

    def document(self) -> dict[str, list[str]]:
        """JSON types only; no regions: all."""
        return {
            "clouds": sorted(self.clouds),
            "regions": sorted(self.wanted.regions),
            "markets": sorted(market.value for market in self.wanted.markets),
        }


def reach_of(summary: Mapping[str, Any]) -> Reach:
    """What the refresh of a stored summary asked for. One that does not say (of an older version) asked for all."""
    said = summary.get("asked")
    if not isinstance(said, Mapping):
        return Reach()
    known = {market.value for market in Market}
    markets = frozenset(Market(name) for name in said.get("markets", ()) if name in known)
    return Reach(frozenset(said.get("clouds", ())), Wanted(tuple(said.get("regions", ())), markets))
