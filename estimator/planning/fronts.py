"""Which ways does nothing beat in time and cost at once?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pareto_front(hours: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of n points no other point beats: none is at least as fast and as cheap, and better in one.

    >>> pareto_front(np.array([1.0, 2.0, 3.0, 2.0]), np.array([9.0, 5.0, 6.0, 5.0])).tolist()
    [True, True, False, True]
    """
    order = np.lexsort((cost, hours))
    fast, cheap = hours[order], cost[order]
    new = np.concatenate([[True], np.diff(fast) != 0])  # equally fast points form a group; the first is its cheapest
    group = np.cumsum(new) - 1
    cheapest = cheap[new]
    before = np.concatenate([[np.inf], np.minimum.accumulate(cheapest)[:-1]])
    front = np.zeros(len(hours), dtype=bool)
    front[order] = (cheap == cheapest[group]) & (cheap < before[group])
    return front
