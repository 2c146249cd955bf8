"""What comes out of a run when chance is counted: hours, dollars and probabilities of n ways on the same few paths.

Each path draws how fast the software really is, how often the job is interrupted, how long it waits for capacity and
how unlucky it is; every way to run the job lives through the same paths. Quantiles over the paths are the 80% interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from estimator.cost import billed_hours
from estimator.request.run import Run, SpotPolicy
from estimator.risk.hazard import Hazards
from estimator.risk.price_path import PricePaths
from estimator.risk.renewal import SMALL, best_interval, segments_of
from estimator.risk.simulate import (
    Z80,
    Moments,
    Paths,
    both,
    by_quantile,
    checkpoint_hours,
    gamma_over_mean,
    halton_paths,
    log_normal,
    lost_hours,
    normal_quantile,
    told_in_time,
)
from estimator.risk.spot_spread import mean_factor, widened
from estimator.runtime import Range

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PATHS = 255  # odd: one stratum of each figure has its median in the middle, so that what varies alone keeps its median
WORTH = 32  # paths and ways from which on it is worth a look which ways share their draws
AT_ONCE = 50_000  # figures of paths x ways worked on together: what a processor's cache holds is faster


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
    interval: Floats  # hours between checkpoints; inf: none but the last
    hazards: Hazards
    saves: Mask  # the job saves on notice of an interruption, and the notice is enough for it
    usd_per_hour: Floats  # whole job
    price: PricePaths  # factors on that price over the run
    term: Floats  # hours of a prepaid block, all of which is paid; NaN where what is used is paid
    fallback_usd_per_hour: Floats  # the same machines on demand; NaN where nobody offers them
    policy: SpotPolicy
    fallback_after: int
    own: Mask
    attempts: float
    extra_usd: Floats  # egress and fees of the run
    extra_usd_per_hour: Floats  # storage and disks, for the typical hours
    tax: float  # factor on everything paid

    @property
    def typical_hours(self) -> Floats:
        """Hours of a run that nothing interrupts, checkpoints aside."""
        return self.start_up[1] + self.staging.typical + self.training * (1.0 + self.evaluation.typical)

    def select(self, keep: NDArray[np.int64] | Mask) -> Plain:
        """Some of the ways."""
        low, typical, high = self.start_up
        return replace(
            self,
            start_up=(low[keep], typical[keep], high[keep]),
            hazards=self.hazards.select(keep),
            price=self.price.select(keep),
            **{name: getattr(self, name)[keep] for name in ARRAYS},
        )


ARRAYS = (
    "training", "slow", "fast", "write", "interval", "saves", "usd_per_hour", "term", "fallback_usd_per_hour", "own",
    "extra_usd", "extra_usd_per_hour",
)  # fmt: skip


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
    lost: Floats  # hours, expected: work done again, waiting, restarts
    undisturbed_late: Floats  # hours of a run that is late in everything and interrupted by nothing
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
    ways = len(plain.training)
    chunk = max(1, AT_ONCE // paths)
    if ways <= chunk:
        return _outcome(plain, deadline, budget, paths)
    parts = [
        _outcome(plain.select(np.arange(at, min(at + chunk, ways))), deadline, budget, paths)
        for at in range(0, ways, chunk)
    ]
    return Outcome(
        **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Outcome)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lived:
    """What the paths of n ways went through, waiting for spot machines; shapes (paths, n) or what broadcasts to it."""

    hazard: Floats
    start: Floats  # hours until the first step, with staging
    busy: Floats  # hours of work and of writing checkpoints
    lost: Floats
    count: Floats  # interruptions
    billed_down: Floats  # hours an interruption costs that are paid
    waiting: Floats  # ... and that are not
    idle: Floats  # hours of waiting in all
    calm: Floats  # hours without what interruptions cost
    hours: Floats


def _live(plain: Plain, draw: Paths) -> _Lived:
    """Live through the paths of `draw`."""
    hazards, share = plain.hazards, plain.hazards.spot_share
    speed, start = pace(plain, draw.speed), before(plain, draw.wait)
    staged = spread(plain.staging.low, plain.staging.typical, plain.staging.high, draw.wait)
    evaluated = spread(plain.evaluation.low, plain.evaluation.typical, plain.evaluation.high, draw.speed)
    work = plain.training * speed * (1.0 + evaluated)
    # No source saw more than `high`: drawn beyond it, a few paths that never end would make every expectation
    hazard = np.clip(log_normal(hazards.low, hazards.typical, hazards.high, draw.hazard), hazards.low, hazards.high)
    wait = log_normal(hazards.wait.low, hazards.wait.typical, hazards.wait.high, draw.wait)
    repair = log_normal(hazards.repair.low, hazards.repair.typical, hazards.repair.high, draw.wait)

    cut = segments_of(work, plain.interval, plain.write)
    saving = np.where(cut[0] > 1, cut[0] * plain.write, 0.0)
    billed_down = share * start + (1.0 - share) * repair
    waiting = share * wait
    moments = lost_hours(work, hazard, plain.interval, plain.write, billed_down + waiting, cut=cut)
    if plain.saves.any():
        moments = _told(plain, moments, work, hazard, start + wait, repair)
    lost = by_quantile(moments, draw.lost)
    idle = np.where(moments.hours > SMALL, lost * moments.count * waiting / np.maximum(moments.hours, SMALL), 0.0)
    calm = start + staged + work + saving
    return _Lived(
        hazard=hazard,
        start=start + staged,
        busy=work + saving,
        lost=lost,
        count=moments.count,
        billed_down=billed_down,
        waiting=waiting,
        idle=idle,
        calm=calm,
        hours=calm + lost,
    )


def pace(plain: Plain, z: Floats) -> Floats:
    """Factor on the hours of training by how fast the software really is."""

    def drawn(slow: Floats, fast: Floats) -> Floats:
        return log_normal(1.0 / fast, np.ones_like(fast), 1.0 / slow, z)

    return _once(drawn, z, plain.slow, plain.fast)


def before(plain: Plain, z: Floats) -> Floats:
    """Hours from asking for machines to the first step, the data aside."""
    return _once(lambda low, typical, high: spread(low, typical, high, z), z, *plain.start_up)


def _once(drawn: Callable[..., Floats], z: Floats, *figures: Floats) -> Floats:
    """Draws of n ways, each distinct set of their figures once: many ways share a cloud, or an interval of speeds."""
    if min(np.size(z), len(figures[0])) < WORTH:
        return drawn(*figures)
    place = np.zeros(len(figures[0]), dtype=np.int64)
    for figure in figures:
        names, code = np.unique(figure, return_inverse=True)
        place = place * len(names) + code
    _, first, of = np.unique(place, return_index=True, return_inverse=True)
    return np.take(
        drawn(*(figure[first] for figure in figures)), of, axis=-1
    )  # rows stay together, unlike with [:, of]


def hours_on(plain: Plain, draw: Paths) -> Floats:
    """Hours of n ways that wait for capacity on the paths of `draw`, shape (paths, n)."""
    return _live(plain, draw).hours


def under_policies(
    plain: Plain, policies: Sequence[tuple[SpotPolicy, int]], *, deadline: float | None, budget: float | None
) -> list[Outcome]:
    """What n ways come to under each policy (with the interruptions before a fall-back), on the same paths."""
    draw = halton_paths(PATHS)
    lived = _live(plain, draw)
    return [
        _figures_of(replace(plain, policy=policy, fallback_after=after), lived, draw, deadline, budget)
        for policy, after in policies
    ]


def _outcome(plain: Plain, deadline: float | None, budget: float | None, paths: int) -> Outcome:
    draw = halton_paths(paths)
    return _figures_of(plain, _live(plain, draw), draw, deadline, budget)


def _figures_of(plain: Plain, lived: _Lived, draw: Paths, deadline: float | None, budget: float | None) -> Outcome:
    """What the paths of n ways come to under their policy."""
    hours, interruptions = lived.hours, lived.count.mean(axis=0)
    price = plain.usd_per_hour * plain.price.drawn(draw.price)
    dollars = paid_hours(plain, hours, lived.idle) * price
    if plain.policy is SpotPolicy.FALLBACK:
        hours, dollars, interruptions = _fall_back(plain, lived, draw, dollars, price)
    cost = whole_bill(plain, dollars)
    hours_q, cost_q = _quantiles(hours), _quantiles(cost)
    mean, cost_mean = hours.mean(axis=0), cost.mean(axis=0)
    if plain.price.unseen.any():
        cost_q, cost_mean = _unseen_price(plain, cost_q, cost_mean)
        cost = cost if budget is None else whole_bill(plain, dollars * plain.price.drawn_unseen(draw.price))
    typical_work = plain.training * (1.0 + plain.evaluation.typical)
    return Outcome(
        hours_p10=hours_q[0],
        hours_p50=hours_q[1],
        hours_p90=hours_q[2],
        hours_mean=mean,
        cost_p10=cost_q[0],
        cost_p50=cost_q[1],
        cost_p90=cost_q[2],
        cost_mean=cost_mean,
        interruptions=interruptions,
        lost=np.maximum(mean - lived.calm.mean(axis=0), 0.0),
        undisturbed_late=undisturbed_late(plain),
        interval=plain.interval,
        checkpoints=checkpoint_hours(typical_work, plain.interval, plain.write),
        evaluation=plain.training * plain.evaluation.typical,
        start_up=plain.start_up[1] + plain.staging.typical,
        meets_deadline=_share_within(hours, deadline),
        meets_budget=_share_within(cost, budget),
    )


def _unseen_price(plain: Plain, cost: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Quantiles and mean of the dollars where the price of the machines may have moved unseen; see `spot_spread`."""
    still, below, above = whole_bill(plain, np.zeros_like(mean)), plain.price.below, plain.price.above
    machines = np.maximum(cost - still, 0.0)
    moved = still + widened(machines, below, above), still + (mean - still) * mean_factor(below, above)
    unseen = plain.price.unseen  # the others stay as they are to the last digit, whatever they are worked out with
    return np.where(unseen, moved[0], cost), np.where(unseen, moved[1], mean)


def paid_hours(plain: Plain, hours: Floats, idle: Floats | float) -> Floats:
    """Hours that a bill counts of a run of `hours`, `idle` of them waiting: whole blocks where they are prepaid."""
    blocks = np.ceil(hours / plain.term) * plain.term
    return np.where(np.isfinite(plain.term), blocks, billed_hours(hours - idle, plain.own))


def whole_bill(plain: Plain, dollars: Floats) -> Floats:
    """All dollars of a run whose machines cost `dollars`: with failed attempts, storage and fees, tax."""
    extra = plain.extra_usd + plain.typical_hours * plain.extra_usd_per_hour
    return (dollars * plain.attempts + extra) * plain.tax


def _told(plain: Plain, usual: Moments, work: Floats, hazard: Floats, down: Floats, repair: Floats) -> Moments:
    """`usual`, but where the job saves on notice an interruption loses no work; failures still come without one."""
    share = plain.hazards.spot_share
    failing = lost_hours(work, hazard * (1.0 - share), plain.interval, plain.write, repair)
    noticed = both(failing, told_in_time(work, hazard * share, down + plain.write))
    return Moments(
        **{
            field.name: np.where(plain.saves, getattr(noticed, field.name), getattr(usual, field.name))
            for field in fields(Moments)
        }
    )


def undisturbed_late(plain: Plain) -> Floats:
    """Hours of a run whose parts all take as long as one in ten does."""
    return plain.start_up[2] + plain.staging.high + plain.training / plain.slow * (1.0 + plain.evaluation.high)


def checkpoint_interval(run: Run, work: Floats, write: Floats, hazards: Hazards, saves: Mask) -> Floats:
    """Hours between checkpoints: stated, or the best for the typical hazard; inf: none but the last. Shape (n,)."""
    if not run.checkpoints:
        return np.full_like(work, np.inf)
    if run.checkpoint_interval != "auto":
        return np.full_like(work, run.checkpoint_interval)
    hazard = hazards.typical * np.where(saves, 1.0 - hazards.spot_share, 1.0)
    return np.minimum(np.maximum(best_interval(hazard, write), SMALL), work)


def _fall_back(
    plain: Plain, lived: _Lived, draw: Paths, dollars: Floats, price: Floats
) -> tuple[Floats, Floats, Floats]:
    """Hours, dollars and interruptions when the job moves to on-demand machines after `fallback_after` interruptions;
    `dollars` and `price` are those of waiting.

    The k-th interruption comes after a gamma time of shape k and rate `hazard` of running; what is not done by then is
    done on demand. Only spot ways whose machines are also offered on demand have the choice.
    """
    k = float(plain.fallback_after)
    may = (plain.hazards.spot_share > 0) & np.isfinite(plain.fallback_usd_per_hour)
    standing = lived.billed_down + lived.waiting
    running = lived.busy + np.maximum(lived.lost - lived.count * standing, 0.0)
    z = normal_quantile(1.0 - draw.lost)  # unlucky paths lose their machines early
    reached = k * gamma_over_mean(k, z) if k else 0.0
    until = np.where(lived.hazard > 0, reached / np.where(lived.hazard > 0, lived.hazard, 1.0), np.inf)
    moves = may & (until < running)
    done = np.where(running > 0, until / np.where(running > 0, running, 1.0), 1.0)
    rest = (1.0 - np.clip(done, 0.0, 1.0)) * lived.busy
    spot_time = np.minimum(until, running)
    hours = lived.start + spot_time + k * standing + rest
    sure = np.nan_to_num(plain.fallback_usd_per_hour)
    fallen = (lived.start + spot_time + k * lived.billed_down) * price + rest * sure
    seen = np.where(moves, np.minimum(k, lived.count), lived.count)
    return np.where(moves, hours, lived.hours), np.where(moves, fallen, dollars), seen.mean(axis=0)


def spread(low: float | Floats, typical: float | Floats, high: float | Floats, z: Floats) -> Floats:
    """Draws around `typical` whose 10% and 90% quantiles are `low` and `high`, linear on each side, never below 0."""
    up, down = np.asarray(high, float) - typical, np.asarray(typical, float) - low
    return np.asarray(np.maximum(typical + np.where(z >= 0, up, down) * z / Z80, 0.0), float)


def _quantiles(values: Floats) -> Floats:
    """10%, 50% and 90% quantiles over the paths (rows); NaN columns stay NaN. Shape (3, n)."""
    place = np.array([0.1, 0.5, 0.9]) * (len(values) - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, len(values) - 1)
    ordered = np.sort(values, axis=0)  # all of it: vectorised, and faster than a partition at five places
    part = (place - below)[:, None]
    return np.asarray(ordered[below] * (1.0 - part) + ordered[above] * part, float)


def _share_within(values: Floats, limit: float | None) -> Floats:
    if limit is None:
        return np.full(values.shape[1], np.nan)
    return np.asarray((values <= limit).mean(axis=0), float)
