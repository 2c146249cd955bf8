"""Which constants explain the measurements best, without straying from what is known of them?

`scipy.optimize.least_squares` on log(measured / predicted) with a soft-L1 loss, each (lab, model, GPU, method) group
weighing the same whatever its row count, and a Gaussian prior in log units on every free constant. No offsets by GPU,
lab or model: they would steal from the constants and hurt where nothing was measured. scipy is imported here only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layouts import Layout
from estimator.performance.constants import Constants, Free
from estimator.performance.roofline import Execution
from estimator.performance.step import step_time
from estimator.records import pick
from estimator.work import Work

Floats = NDArray[np.float64]

SOFT = 0.15
"""Log residual from which a row counts linearly, not squared: about the spread between laboratories."""

FREE: dict[str, tuple[Free, ...]] = {
    "language": (
        Free("matmul", 0.10, 0.4, 1.0),
        Free("expert", 0.20, 0.2, 1.0),
        Free("expert_width", 0.5, 10.0, 3000.0),
        Free("attention", 0.3, 0.1, 0.9),
        Free("width", 0.7, 1.0, 2000.0),
        Free("fill", 0.5, 1.0, 1000.0),
        Free("traffic", 0.3, 0.2, 4.0),
        Free("vendor", 0.15, 1.0, 1.5),
        Free("launch_us", 0.4, 4.0, 300.0),
        Free("plain", 0.3, 1.0, 6.0),
        Free("hooks_us", 0.7, 10.0, 6000.0),
        Free("tensor", 0.3, 0.1, 1.5),
        Free("exchange", 0.5, 0.05, 2.0),
    ),
    "classic": (
        Free("matmul", 0.2, 0.3, 1.0),
        Free("single", 0.3, 0.5, 2.5),
        Free("tf32", 0.3, 0.5, 2.0),
        Free("grouped", 0.5, 0.01, 1.0),
        Free("cache", 0.7, 0.01, 0.8),
        Free("traffic", 0.3, 0.3, 3.0),
        Free("fused", 0.3, 0.2, 1.2),
        Free("launch_us", 0.5, 0.5, 60.0),
        Free("step_ms", 0.7, 0.2, 40.0),
        Free("link", 0.4, 0.05, 1.0),
        Free("pcie", 0.3, 0.05, 1.0),
        Free("staged", 0.4, 0.02, 1.0),
        Free("nic", 0.3, 0.05, 1.0),
        Free("tuned", 0.1, 1.0, 2.5),
    ),
}
"""What the fit of each family may move."""


PRIORS: dict[str, Constants] = {
    "language": Constants(),
    "classic": Constants(
        matmul=0.62, single=1.4, tf32=1.15, grouped=0.06, traffic=1.0, fused=0.7, vendor=1.0, launch_us=4.0,
        step_ms=1.0, plain=1.0, link=0.5, pcie=0.35, staged=0.17, nic=0.7, overlap=1.9, tuned=1.45, width=0.0, fill=0.0,
        split=0.0, sync=0.025, cache=0.2, feed=0.15, power=0.5, contend=1.0,
        graphs=0.4, wire=0.5,
    ),
}  # fmt: skip
"""Where the fit of each family starts and what it is drawn to."""


@dataclass(frozen=True)
class Sample:
    """n measured steps of one family: the model's inputs and what was measured."""

    work: Work
    hardware: Hardware
    layout: Layout
    execution: Execution
    seconds: Floats  # measured, a step
    weights: Floats  # adding up to the number of groups

    def __len__(self) -> int:
        return len(self.seconds)

    def pick(self, index: NDArray[Any]) -> Sample:
        """The rows `index` (positions or a mask)."""
        return Sample(**{f.name: pick(getattr(self, f.name), index) for f in fields(self)})


def group_weights(groups: Sequence[Hashable]) -> Floats:
    """1 / rows of its group, for each row: every group weighs the same."""
    counts: dict[Hashable, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    return np.array([1.0 / counts[group] for group in groups])


def residuals(sample: Sample, constants: Constants) -> Floats:
    """log(measured / predicted) seconds of a step, shape (n,): positive where reality is slower."""
    predicted = step_time(
        sample.work, sample.hardware, sample.layout, execution=sample.execution, constants=constants
    ).total
    return np.asarray(np.log(sample.seconds / predicted))


def fit(
    sample: Sample, free: Sequence[Free], prior: Constants = Constants(), *, start: Constants | None = None
) -> Constants:
    """The constants that minimise the robust, group-weighted residuals plus their distance from the priors.

    `start` (the fit of a larger sample) saves most of the search.

    Deterministic: same rows in the same order, same result bit for bit.
    """
    from scipy.optimize import least_squares

    centre = np.log([float(getattr(prior, one.name)) for one in free])
    first = np.log([float(getattr(start or prior, one.name)) for one in free])
    low, high = np.log([one.low for one in free]), np.log([one.high for one in free])
    spread = np.array([one.sigma for one in free])
    root = np.sqrt(sample.weights)

    def constants(point: Floats) -> Constants:
        return replace(prior, **{one.name: float(np.exp(v)) for one, v in zip(free, point, strict=True)})

    def misfit(point: Floats) -> Floats:
        z = residuals(sample, constants(point)) / SOFT
        robust = np.sign(z) * np.sqrt(2.0 * (np.sqrt(1.0 + z * z) - 1.0))  # soft-L1 of the data, not of the prior
        return np.concatenate([root * robust, (point - centre) / spread])

    first = np.clip(first, low + 1e-6, high - 1e-6)
    found = least_squares(misfit, first, bounds=(low, high), max_nfev=8 if start else 40, ftol=1e-6, xtol=1e-6)
    return constants(found.x)
