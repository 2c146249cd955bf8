"""Does it fit, and what is the largest micro-batch that does?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from estimator.layout import Layout
from estimator.memory.account import Parts, bytes_of, is_eager, stages
from estimator.memory.constants import DEFAULT, GIB, MemoryConstants
from estimator.memory.stack import ORDINARY, Stack
from estimator.terms import Method, Optimizer, Precision, Verdict
from estimator.work import Work

Array = NDArray[np.float64]
VERDICTS = (Verdict.YES, Verdict.TIGHT, Verdict.NO, Verdict.UNKNOWN)  # by code
YES, TIGHT, NO, UNKNOWN = range(4)


def verdict(used: Array | float, capacity: Array | float, sigma: Array | float) -> NDArray[np.int64]:
    """Codes of `VERDICTS`: yes or no where the capacity lies outside the uncertainty, tight inside, unknown for NaN.

    `used`, `capacity` and `sigma` in GiB, broadcast; the uncertainty is `DEFAULT.margin` standard deviations for a yes
    and `DEFAULT.margin_over` for a no, which rules a machine out.

    >>> [VERDICTS[code].value for code in verdict(np.array([10.0, 23.5, 30.0, np.nan]), 24.0, 1.0)]
    ['yes', 'tight', 'no', 'unknown']
    """
    used, capacity, sigma = (np.asarray(x, float) for x in (used, capacity, sigma))
    known = np.isfinite(used) & np.isfinite(capacity) & np.isfinite(sigma)
    with np.errstate(invalid="ignore"):
        fits = used + DEFAULT.margin * sigma <= capacity
        exceeds = used - DEFAULT.margin_over * sigma > capacity
    return np.select([~known, fits, exceeds], [UNKNOWN, YES, NO], TIGHT).astype(np.int64)


def largest_micro_batch(
    work: Work,
    layout: Layout,
    capacity: Array | float,
    *,
    method: Method | Sequence[Method] = Method.FULL,
    precision: Precision | Sequence[Precision] = Precision.BF16,
    optimizer: Optimizer | Sequence[Optimizer] = Optimizer.ADAMW,
    attention: str | Sequence[str] = "flash",
    double_quant: bool = True,
    stack: Stack = ORDINARY,
    constants: MemoryConstants = DEFAULT,
    surely: bool | None = True,
) -> Array:
    """Largest whole micro-batch whose verdict is `yes` (`surely`) or not `no` at a capacity in GiB; 0 where none is.

    `surely=None` is between the two: what is expected to be used does not exceed the capacity.

    Closed form: at a fixed layout every component is a straight line in the micro-batch. `layout.micro_batch` is
    ignored; `layout.grad_accum` bounds the micro-batches in flight of a pipeline (the largest it can be is safe).
    """
    bytes_ = bytes_of(method, precision, optimizer, double_quant, stack)
    parts = stages(work, layout, bytes_, is_eager(attention), stack, constants)
    sign = 0.0 if surely is None else constants.margin if surely else -constants.margin_over
    room = [_room(part, np.asarray(capacity, float) * GIB, sign, constants) for part in parts]
    largest: Array = np.minimum(room[0], room[1])
    return np.where(np.isfinite(largest), np.maximum(np.floor(largest * (1 + 1e-12)), 0.0), 0.0)


def _room(parts: Parts, capacity: Array, sign: float, constants: MemoryConstants) -> Array:
    """Micro-batch at which one stage reaches the capacity (bytes), `sign` standard deviations included."""
    moving = 1 + constants.fragmentation + sign * constants.sigma_moving
    states = parts.weights + parts.gradients + parts.optimizer
    fixed = states * (1 + sign * constants.sigma_states) + parts.buffers * moving + parts.framework
    slope = (parts.activations_per_sample + parts.logits_per_sample) * moving
    with np.errstate(divide="ignore", invalid="ignore"):
        room: Array = (capacity - fixed - sign * constants.sigma_gib * GIB) / slope
    return room
