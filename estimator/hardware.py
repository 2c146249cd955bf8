"""What does the job run on, as numbers that broadcast: GPUs, the links inside a node and the network between nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Figure = float | NDArray[np.float64]
Code = int | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Hardware of n candidates; every field a scalar or an array of shape (n,).

    Rates are datasheet figures (dense, fp32 accumulation); sustained fractions belong to `performance`.
    `gpu` holds canonical names and is used for evidence, never for arithmetic.
    """

    gpu: str | NDArray[np.str_]
    matmul_tflops: Figure  # peak of the matrix work at the workload's precision on this GPU
    half_tflops: Figure  # peak at 16 bit (attention and everything fp8 leaves in 16 bit)
    vector_tflops: Figure  # fp32 outside the matrix units
    memory_gbps: Figure  # device memory, GB/s
    capacity_gib: Figure  # what software can allocate per GPU, GiB
    tdp_w: Figure  # board power limit, W; NaN where unknown
    gpus_per_node: Figure  # fractions allowed for shared cards
    nodes: Figure
    link_gbps: Figure  # inside a node, per GPU and direction, GB/s
    link_kind: Code  # terms.LinkKind
    nic_gbps: Figure  # between nodes, per GPU and direction, GB/s; 0 when there is one node
    nic_kind: Code  # terms.NicKind
    vcpus_per_gpu: Figure  # NaN where unknown

    @property
    def gpus(self) -> Figure:
        """GPUs of the whole job."""
        return self.gpus_per_node * self.nodes
