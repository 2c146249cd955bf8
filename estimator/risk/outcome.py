"""What comes out of a run when chance is counted: hours, dollars and probabilities of n ways on the same few paths.

Each path draws how fast the software really is, how often the job is interrupted, how long it waits for capacity and
how unlucky it is; every way to run the job lives through the same paths. Quantiles over the paths are the 80% interval.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from estimator.cost import billed_hours
from estimator.request.run import SpotPolicy
from estimator.risk.hazard import Hazards
from estimator.risk.renewal import SMALL, best_interval
from estimator.risk.simulate import (
    Z80,
    by_quantile,
    checkpoint_hours,
    gamma_over_mean,
    halton_paths,
    log_normal,
    lost_hours,
    normal_quantile,
)
from estimator.runtime import Range

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PATHS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A run before chance comes in; arrays of shape (n,) or ranges that hold for all n."""

    training: Floats  # hours of optimizer steps at the typical speed
    slow: Floats  # throughput factors of the 80% interval: slow <= 1 <= fast
    fast: Floats
    start_up: tuple[Floats, Floats, Floats]  # low, typical, high, hours
    staging: Range  # hours
    evaluation: Range  # hours per training hour
    write: Floats  # hours that one checkpoint holds the job up
    interval: float | None  # hours between checkpoints; None: the best one
    checkpoints: bool
    hazards: Hazards
    usd_per_hour: Floats  # whole job
    fallback_usd_per_hour: Floats  # the same machines on demand; NaN where nobody offers them
    policy: SpotPolicy
    fallback_after: int
    own: Mask
    attempts: float
    extra_usd: Floats  # storage, egress and fees of the run
    tax: float  # factor on everything paid

    def select(self, keep: NDArray[np.int64] | Mask) -> Plain:
        """Some of the ways."""
        arrays = ("training", "slow", "fast", "write", "usd_per_hour", "fallback_usd_per_hour", "own", "extra_usd")
        low, typical, high = self.start_up
        return replace(
            self,
            start_up=(low[keep], typical[keep], high[keep]),
            hazards=self.hazards.select(keep),
            **{name: getattr(self, name)[keep] for name in arrays},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures of n ways, shape (n,) each; hours and dollars as 10%, 50% and 90% quantiles and as expectation."""

    hours_p10: Floats
    hours_p50: Floats
    hours_p90: Floats
    hours_mean: Floats
    cost_p10: Floats
    cost_p50: Floats
    cost_p90: Floats
    cost_mean: Floats
    interruptions: Floats  # expected
    interval: Floats  # hours between checkpoints; inf: none but the last
    checkpoints: Floats  # hours, typical
    evaluation: Floats  # hours, typical
    start_up: Floats  # hours, typical, with staging
    meets_deadline: Floats  # probability; NaN without a deadline
    meets_budget: Floats

    def select(self, keep: NDArray[np.int64] | Mask) -> Outcome:
        """Some of the ways."""
        return Outcome(**{field.name: getattr(self, field.name)[keep] for field in fields(self)})


def outcome_of(plain: Plain, *, deadline: float | None, budget: float | None, paths: int = PATHS) -> Outcome:
    """Live through the paths; see the module docstring. Deterministic."""
    draw = halton_paths(paths)
    hazards = plain.hazards
    speed = log_normal(1.0 / plain.fast, np.ones_like(plain.fast), 1.0 / plain.slow, draw.speed)
    start = _spread(*plain.start_up, draw.wait)
    staged = _spread(plain.staging.low, plain.staging.typical, plain.staging.high, draw.wait)
    share = _spread(plain.evaluation.low, plain.evaluation.typical, plain.evaluation.high, draw.speed)
    work = plain.training * speed * (1.0 + share)
    # No source saw more than `high`: drawn beyond it, a few paths that never end would make every expectation
    hazard = np.clip(log_normal(hazards.low, hazards.typical, hazards.high, draw.hazard), hazards.low, hazards.high)
    wait = log_normal(hazards.wait.low, hazards.wait.typical, hazards.wait.high, draw.wait)
    repair = log_normal(hazards.repair.low, hazards.repair.typical, hazards.repair.high, draw.wait)

    typical_work = plain.training * (1.0 + plain.evaluation.typical)
    interval = _interval(plain, typical_work)
    saving = checkpoint_hours(work, interval, plain.write)
    billed_down = hazards.spot_share * start + (1.0 - hazards.spot_share) * repair
    waiting = hazards.spot_share * wait
    moments = lost_hours(work, hazard, interval, plain.write, billed_down + waiting)
    lost = by_quantile(moments, draw.lost)
    idle = np.where(moments.hours > SMALL, lost * moments.count * waiting / np.maximum(moments.hours, SMALL), 0.0)

    hours = start + staged + work + saving + lost
    paid = billed_hours(hours - idle, plain.own)
    dollars = paid * plain.usd_per_hour
    interruptions = moments.count.mean(axis=0)
    if plain.policy is SpotPolicy.FALLBACK:
        hours, dollars, interruptions = _fall_back(
            plain,
            draw.lost,
            hazard,
            start + staged,
            work + saving,
            lost,
            moments.count,
            billed_down,
            waiting,
            hours,
            dollars,
        )
    cost = (dollars * plain.attempts + plain.extra_usd) * plain.tax
    hours_q, cost_q = _quantiles(hours), _quantiles(cost)
    return Outcome(
        hours_p10=hours_q[0],
        hours_p50=hours_q[1],
        hours_p90=hours_q[2],
        hours_mean=hours.mean(axis=0),
        cost_p10=cost_q[0],
        cost_p50=cost_q[1],
        cost_p90=cost_q[2],
        cost_mean=cost.mean(axis=0),
        interruptions=interruptions,
        interval=interval,
        checkpoints=checkpoint_hours(typical_work, interval, plain.write),
        evaluation=plain.training * plain.evaluation.typical,
        start_up=plain.start_up[1] + plain.staging.typical,
        meets_deadline=_share_within(hours, deadline),
        meets_budget=_share_within(cost, budget),
    )


def _interval(plain: Plain, work: Floats) -> Floats:
    if not plain.checkpoints:
        return np.full_like(work, np.inf)
    if plain.interval is not None:
        return np.full_like(work, plain.interval)
    best: Floats = np.maximum(best_interval(plain.hazards.typical, plain.write), SMALL)
    return np.minimum(best, work) if best.shape == work.shape else best


def _fall_back(
    plain: Plain,
    uniform: Floats,
    hazard: Floats,
    start: Floats,
    busy: Floats,
    lost: Floats,
    count: Floats,
    billed_down: Floats,
    waiting: Floats,
    hours: Floats,
    dollars: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Hours, dollars and interruptions when the job moves to on-demand machines after `fallback_after` interruptions.

    The k-th interruption comes after a gamma time of shape k and rate `hazard` of running; what is not done by then is
    done on demand. Only spot ways whose machines are also offered on demand have the choice.
    """
    k = float(plain.fallback_after)
    may = (plain.hazards.spot_share > 0) & np.isfinite(plain.fallback_usd_per_hour)
    standing = billed_down + waiting
    running = busy + np.maximum(lost - count * standing, 0.0)
    z = normal_quantile(1.0 - uniform)  # unlucky paths lose their machines early
    reached = k * gamma_over_mean(k, z) if k else 0.0
    until = np.where(hazard > 0, reached / np.where(hazard > 0, hazard, 1.0), np.inf)
    moves = may & (until < running)
    done = np.where(running > 0, until / np.where(running > 0, running, 1.0), 1.0)
    rest = (1.0 - np.clip(done, 0.0, 1.0)) * busy
    spot_time = np.minimum(until, running)
    mixed_hours = start + spot_time + k * standing + rest
    mixed = (start + spot_time + k * billed_down) * plain.usd_per_hour + rest * np.nan_to_num(
        plain.fallback_usd_per_hour
    )
    seen = np.where(moves, np.minimum(k, count), count)
    return np.where(moves, mixed_hours, hours), np.where(moves, mixed, dollars), seen.mean(axis=0)


def _spread(low: float | Floats, typical: float | Floats, high: float | Floats, z: Floats) -> Floats:
    """Draws around `typical` whose 10% and 90% quantiles are `low` and `high`, linear on each side, never below 0."""
    up, down = np.asarray(high, float) - typical, np.asarray(typical, float) - low
    return np.asarray(np.maximum(typical + np.where(z >= 0, up, down) * z / Z80, 0.0), float)


def _quantiles(values: Floats) -> Floats:
    """10%, 50% and 90% quantiles over the paths (rows); NaN columns stay NaN. Shape (3, n)."""
    ordered = np.sort(values, axis=0)
    place = np.array([0.1, 0.5, 0.9]) * (len(values) - 1)
    below = np.floor(place).astype(np.int64)
    part = (place - below)[:, None]
    return np.asarray(ordered[below] * (1.0 - part) + ordered[np.minimum(below + 1, len(values) - 1)] * part, float)


def _share_within(values: Floats, limit: float | None) -> Floats:
    if limit is None:
        return np.full(values.shape[1], np.nan)
    return np.asarray((values <= limit).mean(axis=0), float)
