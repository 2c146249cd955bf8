"""What the memory account cannot derive: a handful of constants, each with bounds and a reason.

Everything else (bytes a parameter, values a layer keeps, who holds which shard) is arithmetic. The values were
fitted on the measured `mem_gib_per_gpu` rows of `benchmarks_db` by `estimator.memory_evaluation.fit` (log residuals,
robust loss, each laboratory-model-GPU group weighing the same); the bounds are what is physically possible.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConstants:
    """Fitted constants of the account, with the unit of each."""

    context_gib: float = (
        1.1  # CUDA context and kernels of cuBLAS and cuDNN, [0.3, 1.2] GiB (nvidia-smi of trainers: 1.1)
    )
    workspace_gib: float = 0.45  # cuBLAS, attention and convolution workspaces, [0, 1] GiB
    nccl_gib: float = 1.4  # NCCL channels and the extra context pages once there is more than one GPU, [0, 2] GiB
    activation_factor: float = 1.15  # stored activations over the counted values, [0.8, 1.5]
    adapter_factor: float = 1.4  # more stored values with adapters and no recomputation (dropped-out inputs), [1, 2]
    quantised_factor: float = 1.18  # more activations over a 4-bit base (norms and inputs in fp32), [1, 1.8]
    selective_share: float = 0.5  # of the cheap-to-keep values, what selective recomputation really keeps, [0.4, 1]
    score_values: float = 2.0  # 16-bit values kept a score by eager attention (softmax, dropout and mask), [1, 4]
    logits_bytes: float = 10.2  # bytes a logit at the peak: 16-bit and fp32 copies, softmax, gradient, [4, 20]
    fragmentation: float = 0.04  # share that the caching allocator holds but cannot use, of what moves, [0, 0.2]
    gathered_layers: float = 2.0  # layers whose full weights ZeRO-3 holds at once (current and prefetched), [1, 4]
    sigma_states: float = 0.05  # relative error (one standard deviation) of weights, gradients and optimizer states
    sigma_moving: float = 0.2  # relative error of activations, logits and buffers
    sigma_gib: float = 0.6  # error of what no model explains, GiB
    margin: float = 1.3  # standard deviations between "fits" and "tight"


DEFAULT = MemoryConstants()

BOUNDS = {
    "context_gib": (0.3, 1.2),
    "workspace_gib": (0.05, 1.0),
    "nccl_gib": (0.1, 2.0),
    "activation_factor": (0.8, 1.5),
    "adapter_factor": (1.0, 2.0),
    "quantised_factor": (1.0, 1.8),
    "selective_share": (0.4, 1.0),
    "score_values": (1.0, 4.0),
    "logits_bytes": (4.0, 20.0),
    "fragmentation": (0.005, 0.2),
    "gathered_layers": (1.0, 4.0),
}
"""What is fitted, and what is physically possible."""
