"""What does the training program do that the request does not say: loss copies, buckets, offloaded checkpoints?

A plan uses `ORDINARY`. A measured row names its framework, and the frameworks differ in a few habits that move
gigabytes; those habits are rows of `stacks.csv`, each with where it is documented.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Trait = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Habits of a training program; every field a scalar or an array of shape (n,)."""

    logits_share: Trait = (
        1.0  # of the loss working set an unfused cross-entropy needs; chunked or fused losses need less
    )
    sequence_parallel: Trait = 1.0  # 1: tensor parallelism also divides what lies between the matrix products
    bucket_copy: Trait = 1.0  # 1: plain DDP copies gradients into buckets; 0: gradients live in the buckets
    host_checkpoints: Trait = 0.0  # 1: layer inputs kept for recomputation go to host memory (unsloth)
    step_in_backward: Trait = 0.0  # 1: the optimizer steps inside the backward pass and frees each gradient (torchtune)
    master_share: Trait = 1.0  # 0: no fp32 master copy although the request says mixed precision
    counted_gib: Trait = 1.0  # share of context and workspace that the program's own meter counts (evaluation only)


ORDINARY = Stack()
