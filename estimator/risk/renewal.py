"""How long does work take that is interrupted at random and starts again from its last checkpoint? Exact formulae.

Interruptions arrive as a Poisson process of rate `hazard` while the job runs. Work is cut into segments of `interval`
hours, each followed by a checkpoint of `write` hours; an interruption throws the running segment away and costs `down`
hours (wait for capacity, provisioning, reload) before it starts again. With s = interval + write:

    interruptions in a segment   = e^(hazard s) - 1                      (geometric number of failed attempts)
    hours of a segment           = (e^(hazard s) - 1) (1 / hazard + down)
    best interval                = (1 + W(-e^(-hazard write - 1))) / hazard      (W: Lambert's function)

The interval is where the derivative of hours per hour of work vanishes; for hazard x write -> 0 it is Young's
sqrt(2 write / hazard) (Young 1974), which Daly (2006) refined by a series. All arguments broadcast; hours throughout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Figure = float | Floats

SMALL = 1e-12


def young_interval(hazard: Figure, write: Figure) -> Floats:
    """Young's first-order checkpoint interval, sqrt(2 write / hazard), hours; infinite without interruptions.

    >>> float(young_interval(0.02, 0.01))
    1.0
    """
    rate = np.asarray(hazard, float)
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(2.0 * np.asarray(write, float) / rate), float)


def best_interval(hazard: Figure, write: Figure) -> Floats:
    """The checkpoint interval that minimises the expected hours, exactly; infinite without interruptions.

    Solves x = 1 - e^(-x - h) for x = hazard x interval with h = hazard x write by Newton's method, from the side on
    which it converges monotonically.
    """
    rate, cost = np.broadcast_arrays(np.asarray(hazard, float), np.asarray(write, float))
    h = rate * cost
    x = np.sqrt(2.0 * h) + SMALL
    before = last = x
    for left in reversed(range(40)):
        decay = np.exp(-x - h)
        x, last, before = np.maximum(x - (x - 1.0 + decay) / np.maximum(1.0 - decay, SMALL), SMALL), x, last
        if left % 2 == 0 and np.array_equal(x, before):  # settled, or to and fro in the last digit
            break
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, np.where(h > 0, x / np.where(rate > 0, rate, 1.0), SMALL), np.inf)


def expected_interruptions(work: Figure, hazard: Figure, interval: Figure, write: Figure) -> Floats:
    """Interruptions until `work` hours of useful work are done."""
    segments, length = segments_of(work, interval, write)
    return np.asarray(segments * np.expm1(np.asarray(hazard, float) * length), float)


def expected_hours(work: Figure, hazard: Figure, interval: Figure, write: Figure, down: Figure) -> Floats:
    """Expected hours on the clock for `work` hours of useful work.

    >>> float(expected_hours(10.0, 0.0, np.inf, 0.1, 0.5))
    10.0
    """
    rate = np.asarray(hazard, float)
    segments, length = segments_of(work, interval, write)
    risk = np.minimum(rate * length, 600.0)  # beyond it the answer overflows; a run that never ends either way
    # (e^r - 1) / hazard = length x (e^r - 1) / r, which has a limit where the hazard is 0
    stretch = np.where(risk > SMALL, np.expm1(risk) / np.where(risk > SMALL, risk, 1.0), 1.0)
    return np.asarray(segments * (length * stretch + np.expm1(risk) * np.asarray(down, float)), float)


def segments_of(work: Figure, interval: Figure, write: Figure) -> tuple[Floats, Floats]:
    """Number of equal segments (whole) and the length of one with its checkpoint; a single segment writes none."""
    useful = np.asarray(work, float)
    each = np.minimum(np.asarray(interval, float), useful)
    count = np.where(each > 0, np.maximum(np.round(useful / np.where(each > 0, each, 1.0)), 1.0), 1.0)
    return count, useful / count + np.where(count > 1, np.asarray(write, float), 0.0)
