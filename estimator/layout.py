"""How is a job divided over GPUs: parallel degrees, micro-batches, sharding and recomputation, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Degree = float | NDArray[np.float64]
Code = int | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layouts of n candidates; every field a scalar or an array of shape (n,).

    gpus = data x tensor x pipeline x context; `expert` divides the data-parallel group.
    global batch = micro_batch x grad_accum x data (samples; a micro-batch is what one model replica runs at once).
    """

    micro_batch: Degree = 1.0
    grad_accum: Degree = 1.0
    data: Degree = 1.0
    tensor: Degree = 1.0
    pipeline: Degree = 1.0
    context: Degree = 1.0
    expert: Degree = 1.0
    virtual_stages: Degree = 1.0
    sharding: Code = 0  # terms.Sharding
    recompute: Code = 0  # terms.Recompute
    offload: Code = 0  # 1: optimizer states (and their update) live in host memory; never chosen unless asked

    @property
    def gpus(self) -> Degree:
        """GPUs of the whole job."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def global_batch(self) -> Degree:
        """Samples per optimizer step."""
        return self.micro_batch * self.grad_accum * self.data
