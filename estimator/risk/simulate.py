"""How long can an interrupted run take? Two answers to the same question: event by event, and by quantiles.

`event_by_event` plays every interruption of every path; it is the truth that the rest is tested against. `by_quantile`
draws the time lost as a whole from a distribution with the same mean, variance and chance of no interruption at all;
it evaluates many ways to run a job on the same few hundred quasi-random paths, so that two ways differ by what they
are and not by luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from estimator.risk.renewal import SMALL, segments_of

Floats = NDArray[np.float64]
Figure = float | Floats

AT_ONCE = 50_000  # paths x ways played together: what a processor's cache holds is faster
HOPELESS = 60.0  # interruptions expected in one segment beyond which a run practically never ends (e^60 attempts)
Z80 = 1.2815515655446004  # standard normal quantile of 0.9: an 80% interval reaches this far on both sides


@dataclass(frozen=True, slots=True)
class Paths:
    """Standard normal draws of n paths, and uniform ones for the time lost; shape (n, 1) each."""

    speed: Floats
    hazard: Floats
    wait: Floats
    lost: Floats  # uniform in (0, 1)
    price: Floats


@cache
def halton_paths(count: int = 256) -> Paths:
    """`count` points of the Halton sequence in five dimensions (bases 2, 3, 5, 7, 11), first ones skipped.

    Quasi-random points cover the space evenly: 256 of them give quantiles that plain random draws need some thousands
    for (Halton 1960). In each dimension they are moved to the middles of `count` equal strata, in their order, so that
    every marginal is exact: it is the rare, heavy hazards that an expectation hangs on. No seed, no state.
    """
    columns = [(_van_der_corput(base, count).argsort().argsort() + 0.5) / count for base in (2, 3, 5, 7, 11)]
    speed, hazard, wait, price = (normal_quantile(columns[n])[:, None] for n in (0, 1, 2, 4))
    return Paths(speed, hazard, wait, columns[3][:, None], price)


def _van_der_corput(base: int, count: int, skip: int = 20) -> Floats:
    index = np.arange(skip, skip + count)
    value, scale = np.zeros(count), 1.0 / base
    while index.any():
        value += scale * (index % base)
        index, scale = index // base, scale / base
    return value


def normal_quantile(p: Floats) -> Floats:
    """Standard normal quantile by Acklam's rational approximation (relative error below 1.2e-9 x 1e3), 0 < p < 1."""
    a = (-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02,
         1.383577518672690e02, -3.066479806614716e01, 2.506628277459239e00)  # fmt: skip
    b = (-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02,
         6.680131188771972e01, -1.328068155288572e01)  # fmt: skip
    c = (-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00,
         -2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00)  # fmt: skip
    d = (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00, 3.754408661907416e00)
    tail = np.minimum(p, 1.0 - p)
    q = np.sqrt(-2.0 * np.log(tail))
    far = np.polyval(c, q) / np.polyval((*d, 1.0), q)
    r = p - 0.5
    near = np.polyval(a, r * r) * r / np.polyval((*b, 1.0), r * r)
    return np.where(tail < 0.02425, np.where(p < 0.5, far, -far), near)


@cache
def _quantile_table() -> tuple[Floats, Floats]:
    """Normal quantiles on a grid that is dense in the tails, for interpolation over many draws."""
    half = np.concatenate([np.linspace(1e-6, 0.002, 400), np.linspace(0.0021, 0.5, 1000)])
    grid = np.concatenate([half, 1.0 - half[-2::-1]])
    return grid, normal_quantile(grid)


def normal_at(p: Floats) -> Floats:
    """Standard normal quantiles by interpolation, for many draws; those of the ends beyond them."""
    return np.asarray(np.interp(p, *_quantile_table()), float)


def log_normal(low: Figure, typical: Figure, high: Figure, z: Floats) -> Floats:
    """Draws around `typical` whose 10% and 90% quantiles are `low` and `high` (each side its own spread), > 0."""
    middle = np.asarray(typical, float)
    up = np.log(np.maximum(np.asarray(high, float), SMALL) / np.maximum(middle, SMALL)) / Z80
    down = np.log(np.maximum(middle, SMALL) / np.maximum(np.asarray(low, float), SMALL)) / Z80
    return np.where(middle > 0, middle * np.exp(np.where(z >= 0, up, down) * z), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What interruptions cost a run: the count, and mean and variance of the hours lost."""

    count: Floats
    none: Floats  # chance of no interruption at all
    hours: Floats
    variance: Floats


def lost_hours(
    work: Figure,
    hazard: Figure,
    interval: Figure,
    write: Figure,
    down: Figure,
    *,
    cut: tuple[Floats, Floats] | None = None,
) -> Moments:
    """Moments of the hours lost to interruptions over `work` hours, from the renewal structure of `risk.renewal`.

    Each of n segments of length s fails a geometric number of times (success e^(-hazard s)); an attempt that fails has
    used up a truncated exponential time, and `down` hours follow. `cut` is `segments_of` where it is known already.
    """
    rate = np.asarray(hazard, float)
    segments, length = cut or segments_of(work, interval, write)
    risk = np.clip(rate * length, SMALL, HOPELESS)
    odds = np.expm1(risk)  # failures of a segment, mean; variance odds (1 + odds)
    speed = np.maximum(rate, SMALL / np.maximum(length, SMALL))
    mean_lost = 1.0 / speed - length / odds
    second = 2.0 / speed**2 - (length**2 + 2.0 * length / speed) / odds
    variance_lost = np.maximum(second - mean_lost**2, 0.0)
    each_lost = mean_lost + np.asarray(down, float)
    idle = rate <= 0
    count = np.where(idle, 0.0, segments * odds)
    return Moments(
        count=count,
        none=np.where(idle, 1.0, np.exp(-risk * segments)),
        hours=np.where(idle, 0.0, count * each_lost),
        variance=np.where(idle, 0.0, count * variance_lost + segments * odds * (1.0 + odds) * each_lost**2),
    )


def told_in_time(work: Figure, hazard: Figure, down: Figure) -> Moments:
    """Moments of the hours lost where the job saves on notice: each interruption costs `down` hours and no work.

    A Poisson number of mean `hazard x work` interruptions.
    """
    count = np.asarray(hazard, float) * np.asarray(work, float)
    each = np.asarray(down, float)
    return Moments(count=count, none=np.exp(-count), hours=count * each, variance=count * each**2)


def both(one: Moments, other: Moments) -> Moments:
    """Moments of two independent kinds of interruption together."""
    return Moments(
        count=one.count + other.count,
        none=one.none * other.none,
        hours=one.hours + other.hours,
        variance=one.variance + other.variance,
    )


def checkpoint_hours(work: Figure, interval: Figure, write: Figure) -> Floats:
    """Hours spent writing checkpoints: one after each segment, none for a run of a single segment."""
    segments, _ = segments_of(work, interval, write)
    return np.where(segments > 1, segments * np.asarray(write, float), 0.0)


def by_quantile(moments: Moments, uniform: Floats) -> Floats:
    """Hours lost at the quantile `uniform`: none with the exact chance of none, else a gamma of the same moments."""
    some = np.maximum(1.0 - moments.none, SMALL)
    mean = moments.hours / some
    variance = np.maximum(moments.variance / some - mean**2 * moments.none, (0.05 * mean) ** 2 + SMALL)
    shape = np.maximum(mean**2 / variance, 1e-3)
    z = normal_at((uniform - moments.none) / some)
    return np.where(uniform <= moments.none, 0.0, mean * gamma_over_mean(shape, z))


def gamma_over_mean(shape: Figure, z: Floats) -> Floats:
    """Quantile of a gamma distribution over its mean, at the standard normal quantile `z`.

    Wilson and Hilferty (1931): (1 - 1/(9k) + z / (3 sqrt k))^3 for shape k.
    """
    k = np.asarray(shape, float)
    return np.asarray(np.maximum(1.0 - 1.0 / (9.0 * k) + z / (3.0 * np.sqrt(k)), 0.0) ** 3, float)


def event_by_event(
    work: Figure,
    hazard: Figure,
    interval: Figure,
    write: Figure,
    down: Figure,
    *,
    paths: int,
    seed: int,
) -> tuple[Floats, NDArray[np.int64]]:
    """Hours on the clock and interruptions of each path and way, shapes (paths, ways): every interruption is played.

    Arguments are scalars or arrays of shape (ways,). Each round plays the time to the next interruption of all paths
    that are still running, so that its cost grows with the interruptions of all paths and not with those of the worst.
    """
    generator = np.random.default_rng(seed)
    useful, rate, each, save, lose = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(x, float)) for x in (work, hazard, interval, write, down))
    )
    ways = len(useful)
    segments, length = segments_of(useful, each, save)
    with np.errstate(divide="ignore"):
        mean_gap = 1.0 / rate
    clock, hits = np.empty(paths * ways), np.empty(paths * ways, dtype=np.int64)
    for begin in range(0, paths * ways, AT_ONCE):
        place = np.arange(begin, min(begin + AT_ONCE, paths * ways))
        way = place % ways
        left, spent, rounds = segments[way], np.zeros(len(place)), 0
        while len(place):
            each_length = length[way]
            gap = generator.standard_exponential(len(place)) * mean_gap[way]
            whole = np.minimum(np.floor(gap / each_length), left)  # segments that end before it
            left = left - whole
            running = left > 0
            done = ~running
            clock[place[done]] = (spent + whole * each_length)[done]
            hits[place[done]] = rounds
            spent, way, place, left = (spent + gap + lose[way])[running], way[running], place[running], left[running]
            rounds += 1
    return clock.reshape(paths, ways), hits.reshape(paths, ways)
