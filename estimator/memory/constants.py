"""What the memory account cannot derive: a handful of constants, each with bounds and a reason.

Everything else (bytes a parameter, values a layer keeps, who holds which shard) is arithmetic. `DEFAULT` was fitted
from `PRIOR` within `BOUNDS` on the measured memories of `benchmarks_db` by `estimator.evaluation.memory.refit` (log
residuals, robust loss, each group of laboratory, model, GPU and adapters weighing the same).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

GIB = 2.0**30
Z80 = 1.2816
"""Standard deviations on either side of the middle that hold 80%."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConstants:
    """Constants of the account, with the unit of each; the values here are what documents and formulae suggest."""

    context_gib: float = 0.8
    """GiB of CUDA context with the kernels of cuBLAS and cuDNN (0.3 to 1 by generation, FIELD.md 49)."""
    workspace_gib: float = 0.3
    """GiB of cuBLAS, attention and convolution workspaces, and allocator blocks that any step needs."""
    nccl_gib: float = 0.8
    """GiB of NCCL channels and of the larger context once there is more than one GPU."""
    activation_factor: float = 1.0
    """Activations of a transformer over its closed form: norms and softmax statistics in fp32, dropout masks."""
    counted_factor: float = 1.0
    """Activations of other models over their counted values: in-place operators, masks, indices."""
    quantised_factor: float = 1.2
    """More of them over a 4-bit base: `prepare_model_for_kbit_training` keeps norms and their outputs in fp32."""
    selective_share: float = 0.6
    """Of the values left by recomputing what is cheap: selective recomputation also drops every other product."""
    fused_share: float = 0.6
    """Activations of a transformer of fused kernels (Transformer Engine) or compiled, over those of a plain one: norms
    keep their input, matrices theirs in 8 bits, the gated activation its own."""
    chunked_share: float = 0.2
    """Logits of a loss computed chunk by chunk with its projection (Liger, arXiv:2410.10989), over a plain one's."""
    score_share: float = 1.0
    """Of the values that eager attention keeps a score (softmax, dropout, mask), those that are really kept."""
    logits_bytes: float = 12.0
    """Bytes a logit at the peak: 16-bit output, fp32 copy, softmax, gradient."""
    fragmentation: float = 0.05
    """Share of what comes and goes that the caching allocator holds but cannot use."""
    gathered_layers: float = 2.0
    """Layers whose full weights ZeRO-3 holds at once: the current and the prefetched one."""
    sigma_states: float = 0.0625
    """Relative error, one standard deviation, of weights, gradients and optimizer states."""
    sigma_moving: float = 0.25
    """The same of activations, logits and buffers; both as seen on laboratories left out of the fit."""
    sigma_gib: float = 0.75
    """GiB of error that comes with any program."""
    margin: float = 0.8
    """Standard deviations below the capacity from which it "fits"; `evaluate --memory` prints how often that holds."""
    margin_over: float = 1.32
    """Standard deviations above the capacity from which it does not: few that fit are ruled out."""


PRIOR = MemoryConstants()

BOUNDS = {
    "context_gib": (0.3, 1.0),
    "workspace_gib": (0.05, 1.0),
    "nccl_gib": (0.1, 1.2),
    "activation_factor": (0.8, 1.5),
    "counted_factor": (0.8, 1.3),
    "quantised_factor": (1.0, 1.8),
    "selective_share": (0.4, 1.0),
    "fused_share": (0.3, 1.0),
    "chunked_share": (0.05, 0.5),
    "logits_bytes": (4.0, 20.0),
    "fragmentation": (0.005, 0.2),
    "gathered_layers": (1.0, 4.0),
}
"""What is fitted, and what is physically possible."""

DEFAULT = replace(
    PRIOR,
    context_gib=1.0,
    workspace_gib=0.772,
    nccl_gib=1.2,
    activation_factor=1.13,
    counted_factor=0.903,
    quantised_factor=1.28,
    selective_share=0.4,
    fused_share=0.485,
    chunked_share=0.206,
    logits_bytes=11.3,
    fragmentation=0.096,
    gathered_layers=2.3,
)
