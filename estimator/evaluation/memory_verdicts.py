"""Is a `yes`, a `tight` or a `no` of the memory account right as often as it should be?

Every measured memory is a fact about every card: it fits on those that hold more. So each measured row that was left
out is asked of all cards of the catalogue that hold between half and twice of what it took (the others are easy), and
what the account says is held against what is true. Groups weigh the same, as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.gpus import gpus
from estimator.memory import NO, TIGHT, VERDICTS, YES, verdict
from estimator.terms import Verdict

Array = NDArray[np.float64]
NEAR = 2.0
"""Cards that hold within this factor of what a row took are asked."""


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """How often one verdict is said of a card near the limit, and how often the row fits there; fractions."""

    split: str
    verdict: Verdict
    said: float
    fits: float


def cards() -> Array:
    """GiB that software can allocate on the GPUs of the catalogue, each size once."""
    sizes = {card.usable_gib for card in gpus().values() if card.kind == "gpu" and card.usable_gib}
    return np.array(sorted(sizes), float)


def verdict_lines(
    split: str, used: Array, sigma: Array, true: Array, group: NDArray[np.str_], capacity: Sequence[float] | Array
) -> list[VerdictLine]:
    """What is said of rows whose memory is known, GiB, on cards of `capacity`; rows with a NaN have no say."""
    known = np.isfinite(used) & np.isfinite(sigma)
    used, sigma, true, group = used[known], sigma[known], true[known], group[known]
    _, code = np.unique(group, return_inverse=True)
    size = np.asarray(capacity, float)[None, :]
    near = (size < NEAR * true[:, None]) & (size > true[:, None] / NEAR)
    weight = near / np.bincount(code)[code][:, None]
    codes = verdict(used[:, None], size, sigma[:, None])
    fits = true[:, None] <= size
    return [
        VerdictLine(
            split=split,
            verdict=VERDICTS[said],
            said=float(weight[codes == said].sum() / weight.sum()),
            fits=float(weight[(codes == said) & fits].sum() / max(weight[codes == said].sum(), 1e-300)),
        )
        for said in (YES, TIGHT, NO)
    ]
