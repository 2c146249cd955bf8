"""What will an hour on spot cost on average over a run that begins now? Read off how the price moved before.

For a run of L hours, every moment of the history is taken as a beginning: the mean price over the L hours that followed
over the price at that moment is one factor. Their 10%, 50% and 90% quantiles and their mean, times the present price,
are what the run is expected to pay an hour. Where the history is shorter than the run, its whole length is one window.
Without a history the median is that of the present price, and `spot_spread` says how far it may be off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from estimator.risk.simulate import log_normal
from pricing.spot_history import Place, SpotHistory, Steps

Floats = NDArray[np.float64]

BEGINNINGS = 64  # moments of the history that a run is taken to begin at
LENGTHS = (1.0, 6.0, 24.0, 96.0, 384.0, 1536.0)  # hours; factors in between are interpolated in log hours
LOG_LENGTHS, SECONDS = np.log(LENGTHS), np.array(LENGTHS) * 3600.0
SHARES = np.linspace(0.0, 1.0, BEGINNINGS)
SHORTEST_HOURS = 1.0  # a price watched for less says nothing
FIGURES = ("low", "middle", "high", "mean")


@dataclass(frozen=True, slots=True)
class PricePaths:
    """Factors on the present price of n ways over their runs, and how much was seen; shape (n,) each."""

    low: Floats  # 10% quantile
    middle: Floats
    high: Floats  # 90% quantile
    mean: Floats
    observations: NDArray[np.int64]  # price levels seen; 0: no history
    days: Floats  # for how long the price was watched
    # Where nothing was seen: the 80% interval of what the price may have become (see `spot_spread`), of median 1.
    below: Floats
    above: Floats

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Ways whose price may have moved without anybody having watched it."""
        return np.asarray((self.above > 1.0) | (self.below < 1.0), dtype=bool)

    def drawn(self, z: Floats) -> Floats | float:
        """Factors at standard normal draws, by the history."""
        return log_normal(self.low, self.middle, self.high, z) if self.observations.any() else 1.0

    def drawn_unseen(self, z: Floats) -> Floats | float:
        """Factors at standard normal draws, where nobody watched."""
        return log_normal(self.below, np.ones_like(self.below), self.above, z) if self.unseen.any() else 1.0

    def around(self, below: Floats, above: Floats) -> PricePaths:
        """The same, with what the price may have become where nothing was seen."""
        seen = self.observations > 0
        return replace(self, below=np.where(seen, 1.0, below), above=np.where(seen, 1.0, above))

    def select(self, keep: NDArray[np.int64] | NDArray[np.bool_]) -> PricePaths:
        """Some of the ways."""
        return PricePaths(**{field.name: getattr(self, field.name)[keep] for field in fields(self)})


def constant(count: int) -> PricePaths:
    """Prices that hold, for want of a history."""
    one = np.ones(count)
    return PricePaths(one, one, one, one, np.zeros(count, dtype=np.int64), np.zeros(count), one, one)


def price_paths(history: SpotHistory, places: Sequence[Place | None], hours: Floats) -> PricePaths:
    """The factors for ways in `places` (None: no spot price) that take `hours` each."""
    if not history or all(place not in history for place in places if place is not None):
        return constant(len(places))
    log_hours = np.log(np.clip(hours, LENGTHS[0], LENGTHS[-1]))
    figures = np.ones((len(FIGURES), len(places)))
    seen, days = np.zeros(len(places), dtype=np.int64), np.zeros(len(places))
    rows: dict[Place, list[int]] = {}
    for row, place in enumerate(places):
        if place is not None and place in history and history[place].hours >= SHORTEST_HOURS:
            rows.setdefault(place, []).append(row)
    moved = [place for place in rows if len(history[place].since) > 1]
    tables = dict(zip(moved, _summary([_ratios(history[place]) for place in moved]), strict=True))
    for place, mine in rows.items():
        seen[mine] = len(history[place].since)
        days[mine] = history[place].hours / 24.0
        if place in tables:
            for figure, row in enumerate(tables[place]):
                figures[figure, mine] = np.interp(log_hours[mine], LOG_LENGTHS, row)
    low, middle, high, mean = figures
    return PricePaths(low, middle, high, mean, seen, days, np.ones(len(places)), np.ones(len(places)))


def factors(steps: Steps) -> Floats:
    """Quantiles and mean of the factors by run length; shape (4, len(LENGTHS)), rows as `FIGURES`.

    >>> float(factors(Steps(np.array([0.0, 86400.0]), np.array([1.0, 1.0]), 172800.0)).max())
    1.0
    """
    return np.asarray(_summary([_ratios(steps)])[0])


def _ratios(steps: Steps) -> Floats:
    """The factor of each beginning, NaN where it was not offered; shape (len(LENGTHS), BEGINNINGS)."""
    edges = np.append(steps.since, steps.until)
    offered = np.isfinite(steps.usd_per_hour)
    paid, held = np.zeros(len(edges)), np.zeros(len(edges))
    np.cumsum(np.where(offered, steps.usd_per_hour, 0.0) * np.diff(edges), out=paid[1:])
    np.cumsum(offered * np.diff(edges), out=held[1:])
    length = np.minimum(SECONDS, edges[-1] - edges[0])[:, None]
    begin = edges[0] + (edges[-1] - length - edges[0]) * SHARES
    first = steps.usd_per_hour[np.searchsorted(steps.since, begin, side="right") - 1]
    end = begin + length
    spent = np.interp(end, edges, paid) - np.interp(begin, edges, paid)
    time = np.interp(end, edges, held) - np.interp(begin, edges, held)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = spent / time / first
    return np.where(np.isfinite(ratio) & (ratio > 0), ratio, np.nan)


def _summary(ratios: Sequence[Floats]) -> Floats:
    """Quantiles and mean of the ratios of k places, 1 where there are none; shape (k, 4, len(LENGTHS))."""
    if not ratios:
        return np.ones((0, len(FIGURES), len(LENGTHS)))
    ordered = np.sort(np.stack(ratios), axis=2)  # NaN last
    count = np.isfinite(ordered).sum(axis=2)
    last = np.maximum(count - 1, 0)
    found = []
    for share in (0.1, 0.5, 0.9):
        at = share * last
        below = np.floor(at).astype(np.int64)
        low, high = (
            np.take_along_axis(ordered, place[:, :, None], axis=2)[:, :, 0]
            for place in (below, np.minimum(below + 1, last))
        )
        found.append(low + (high - low) * (at - below))
    found.append(np.nansum(ordered, axis=2) / np.maximum(count, 1))
    return np.where(count[:, None, :] > 0, np.stack(found, axis=1), 1.0)


def observed(paths: PricePaths, row: int, usd_per_hour: float) -> Mapping[str, float] | None:
    """USD an hour over the run by figure for one way, None without a history."""
    if not paths.observations[row]:
        return None
    return {name: float(getattr(paths, name)[row]) * usd_per_hour for name in FIGURES}
