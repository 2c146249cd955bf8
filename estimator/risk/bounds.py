"""Does a way keep a limit on most of the paths, and what does it take at least? Proven, without living through them.

Most ways to run a job are beaten by far; these bounds tell which, so that only the others are lived through. At least a
run takes what it takes without interruptions. At most, with w the work, i the interval, c the writing of a checkpoint,
h the hazard, D what an interruption costs beside lost work, G how unlucky the path is:

    segments                       n <= max(1, w / i + 1/2)
    length of one                  L <= i r / (r - 1/2) + c  where  r = w / i >= 3/2,  and  min(w, 3/2 i) + c  at most
    chance of an interruption        <= h L n
    hours lost, where any are        <= (e^(h L) - 1) (1 / (h L) + n) (L / 2 + D) G

The first two follow from the rounding to whole segments, the third from e^-x >= 1 - x. An attempt that fails has used
up less than half of its segment on average, so that n (e^(h L) - 1) (L / 2 + D) / (1 - e^(-h L n)) bounds the mean of
the hours lost given any, and x / (1 - e^-x) <= 1 + x. A gamma distribution in the form of Wilson and Hilferty has its
quantile at z at most G = (1 + max(z, 0)^2 / 4)^3 times its mean, whatever its shape (`gamma_over_mean` is greatest at
1 / (3 sqrt k) = z / 2), and z is at most the normal quantile of how unlucky the path is (`by_quantile`).

All of it is for ways that wait for capacity and do not save on notice; `hold` tells.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from estimator.request.run import SpotPolicy
from estimator.risk.outcome import (
    AT_ONCE,
    PATHS,
    Plain,
    before,
    hours_on,
    pace,
    paid_hours,
    spread,
    whole_bill,
)
from estimator.risk.renewal import SMALL
from estimator.risk.simulate import HOPELESS, Paths, halton_paths, log_normal, normal_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Ranks = tuple[int, int]

ROUNDING = 1e-9  # relative: far beyond what floating point adds up to
CORNERS = 6  # pairs of speed and wait that a lower bound is the best of
WORST = 64  # paths of the highest hazards, which a run that keeps no limit fails first


def hold(plain: Plain) -> bool:
    """Whether the bounds hold for such ways."""
    priced = bool(np.isfinite(plain.usd_per_hour).all())
    return plain.policy is SpotPolicy.WAIT and not plain.saves.any() and priced


def ranks_of(quantile: float) -> Ranks:
    """The paths, counted from the least, that a quantile of the outcome lies between."""
    place = quantile * (PATHS - 1)
    return floor(place), ceil(place)


def ranks_of_share(share: float) -> Ranks:
    """Paths (low, high): less than `share` of all keep a limit that `low` does not, at least so many if `high` does."""
    return max(floor(share * PATHS) - 1, 0), min(ceil(share * PATHS), PATHS - 1)


def least(plain: Plain, rank: int, *, unseen: bool = False) -> tuple[Floats, Floats]:
    """Hours and dollars that all but `rank` of the paths take at least, `unseen`: at moved prices. Shape (n,)."""
    start, work = _calm(plain, *_floors(rank))
    hours = (start + work).max(axis=0) * (1.0 - ROUNDING)
    return hours, _dollars(plain, hours, halton_paths(PATHS).price.min(), unseen) * (1.0 - ROUNDING)


class Upper:
    """Upper bounds of n ways, for several limits; those of each path are worked out for the ways that need them."""

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self._known = np.zeros(len(plain.training), dtype=bool)
        self._most = np.empty((PATHS, 0))
        self._place = np.zeros(len(plain.training), dtype=np.int64)  # column of `_most`

    def keep(
        self, limit: Floats | float, ranks: Ranks, *, dollars: bool = False, unseen: bool = False
    ) -> tuple[Mask, Mask]:
        """(surely, surely not): whether the path of a rank stays within `limit` hours (or dollars); shape (n,) each.

        The median of the dollars is that of prices as they were seen, a chance to keep a budget counts what moved
        `unseen`. Surely where upper bounds show that the path of the second rank does: one for all paths but the worst,
        then one for each path. Surely not where a lower bound shows that the path of the first does not, or where too
        many of the `WORST` paths, lived through, do not.
        """
        plain = self._plain
        limit = np.broadcast_to(np.asarray(limit, float), plain.training.shape)
        surely_not = least(plain, ranks[0], unseen=unseen)[int(dollars)] > limit
        surely = np.zeros(len(limit), dtype=bool)

        def within(rows: Ints, most: Floats, price: Floats) -> NDArray[np.int64]:
            figures = _dollars(plain.select(rows), most, price, unseen) if dollars else most
            return np.asarray((figures * (1.0 + ROUNDING) <= limit[rows]).sum(axis=0))

        rows, worst = np.flatnonzero(~surely_not), _ceilings(ranks[1])
        if len(rows):
            surely[rows] = within(rows, _most(plain.select(rows), worst), worst.price) >= 1
        rows = np.flatnonzero(~surely & ~surely_not)
        for some in np.array_split(rows, len(rows) * PATHS // AT_ONCE + 1):
            surely[some] = within(some, self._on_paths(some), halton_paths(PATHS).price) > ranks[1]
        rows = np.flatnonzero(~surely & ~surely_not)
        if len(rows) and not dollars and PATHS - ranks[0] < WORST:
            beyond = hours_on(plain.select(rows), _worst()) > limit[rows] * (1.0 + ROUNDING)
            surely_not[rows] = beyond.sum(axis=0) >= PATHS - ranks[0]
        return surely, surely_not

    def _on_paths(self, rows: Ints) -> Floats:
        """Hours that these ways take at most on each path; shape (PATHS, rows)."""
        new = rows[~self._known[rows]]
        if len(new):
            self._place[new] = self._most.shape[1] + np.arange(len(new))
            self._most = np.concatenate([self._most, _most(self._plain.select(new), halton_paths(PATHS))], axis=1)
            self._known[new] = True
        return np.take(self._most, self._place[rows], axis=1)


@lru_cache(maxsize=64)
def _floors(rank: int) -> tuple[Floats, Floats]:
    """Pairs of speed and wait that all paths but `rank` at most are at least as great as in both; shape (k, 1) each."""
    draw = halton_paths(PATHS)
    speed, wait, enough = draw.speed[:, 0], draw.wait[:, 0], PATHS - rank
    pairs: list[tuple[float, float]] = []
    for at in np.linspace(0, rank, CORNERS).astype(int):
        slowest = np.sort(wait)[at]
        mine = np.sort(speed[wait >= slowest])
        pairs.append((float(mine[len(mine) - enough]), float(slowest)))
    pace, before = np.array(pairs).T
    return pace[:, None], before[:, None]


@lru_cache(maxsize=64)
def _ceilings(rank: int) -> Paths:
    """A path that `rank` + 1 paths at least are nowhere worse than: each figure leaves out some of the others."""
    draw = halton_paths(PATHS)
    last = PATHS - 1 - (PATHS - 1 - rank) // 4  # all hazards stay, since so many of them are as high as can be
    speed, wait, lost, price = (
        np.sort(column, axis=0)[last : last + 1] for column in (draw.speed, draw.wait, draw.lost, draw.price)
    )
    return Paths(speed, np.sort(draw.hazard, axis=0)[-1:], wait, lost, price)


@lru_cache(maxsize=1)
def _worst() -> Paths:
    """The paths of the highest hazards."""
    draw = halton_paths(PATHS)
    rows = np.argsort(draw.hazard[:, 0])[-WORST:]
    return Paths(draw.speed[rows], draw.hazard[rows], draw.wait[rows], draw.lost[rows], draw.price[rows])


def _calm(plain: Plain, speed: Floats, wait: Floats) -> tuple[Floats, Floats]:
    """Hours before the first step, and of work, at draws of speed and wait."""
    start = before(plain, wait)
    staged = spread(plain.staging.low, plain.staging.typical, plain.staging.high, wait)
    evaluated = spread(plain.evaluation.low, plain.evaluation.typical, plain.evaluation.high, speed)
    return start + staged, plain.training * pace(plain, speed) * (1.0 + evaluated)


def _dollars(plain: Plain, hours: Floats, price: Floats | float, unseen: bool) -> Floats:
    """Dollars of so many hours without waiting, at draws of the price."""
    factor = plain.price.drawn(np.asarray(price))
    if unseen:
        factor = factor * plain.price.drawn_unseen(np.asarray(price))
    return whole_bill(plain, paid_hours(plain, hours, 0.0) * plain.usd_per_hour * factor)


def _most(plain: Plain, draw: Paths) -> Floats:
    """Hours that each way takes at most on each path of `draw`; shape (paths, n)."""
    hazards, share = plain.hazards, plain.hazards.spot_share
    start, work = _calm(plain, draw.speed, draw.wait)
    _, shortest = _calm(plain, halton_paths(PATHS).speed.min(), halton_paths(PATHS).wait.min())
    wait = log_normal(hazards.wait.low, hazards.wait.typical, hazards.wait.high, draw.wait)
    repair = log_normal(hazards.repair.low, hazards.repair.typical, hazards.repair.high, draw.wait)
    down = np.maximum(start + wait if (share > 0.0).all() else np.where(share > 0.0, start + wait, 0.0), repair)
    interval = np.maximum(plain.interval, SMALL)
    several = np.maximum(shortest / interval, 1.5)
    length = np.where(shortest >= 1.5 * interval, interval * several / (several - 0.5), 1.5 * interval) + plain.write
    length = np.minimum(length, work.max(axis=0) + plain.write)
    segments = work / interval
    segments += 0.5
    np.maximum(segments, 1.0, out=segments)
    low, high = hazards.low * length, hazards.high * length
    risk = np.clip(  # as `lost_hours` counts it
        log_normal(low, hazards.typical * length, high, draw.hazard),
        np.maximum(low, SMALL),
        np.clip(high, SMALL, HOPELESS),
    )
    z = np.maximum(normal_at(draw.lost), 0.0)
    unlucky = (1.0 + z * z / 4.0) ** 3
    lost = np.expm1(risk)
    lost *= 1.0 / risk + segments
    lost *= length / 2.0 + down
    lost *= unlucky
    risk *= segments
    lost *= risk > (1.0 - draw.lost) * (1.0 - ROUNDING)  # nothing is lost on paths lucky enough
    segments *= plain.write
    return np.asarray(start + work + segments + lost, float)
