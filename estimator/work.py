"""What does one training sample cost, before anything is divided over GPUs?

`Work` is the waist between model families and everything that follows: an architecture room turns a model, a
sequence length or image size and a method into these counts, and memory, layouts and performance read nothing else
of a model. Every field is a scalar or an array of shape (n,); functions that take a `Work` broadcast it against
arrays of hardware and layouts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Count = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One sample through one forward pass of the whole model; counts, never millions.

    A multiply-add is 2 FLOPs. Backward work is `2 x forward` for trained weights and `1 x forward` where the
    weights are frozen (LoRA), which `backward_ratio` states. "Values" are numbers, so bytes = values x bytes a value.
    """

    # What is trained
    params: Count  # all parameters, experts and embeddings included
    active_params: Count  # parameters one token meets (= params when dense)
    expert_params: Count = 0.0  # the part of `params` inside routed experts
    embedding_params: Count = 0.0  # input embedding table(s)
    output_params: Count = 0.0  # output projection onto the vocabulary where it is a matrix of its own; 0 when tied
    trainable_params: Count = 0.0  # what the optimizer updates (adapters only for LoRA)
    wire_ratio: Count = 1.0  # gradient bytes exchanged over those of all trainable parameters (sparse tables: less)

    # Shape, for communication, launch counts and the memory account; 0 where it has no meaning
    layers: Count = 0.0
    hidden: Count = 0.0
    heads: Count = 0.0
    kv_heads: Count = 0.0
    vocab: Count = 0.0
    experts: Count = 0.0
    experts_per_token: Count = 0.0
    expert_hidden: Count = 0.0  # width in which tokens travel to their experts
    tokens: Count = 1.0  # positions a sample occupies (sequence length, image patches; 1 for convolutional nets)

    # Compute, forward, per sample
    matmul_flops: Count = 0.0  # dense matrix work and ordinary convolutions, logits included, routed experts excluded
    expert_flops: Count = 0.0  # routed experts
    attention_flops: Count = 0.0  # scores and values; causal models count half the square
    grouped_flops: Count = 0.0  # grouped and depthwise convolutions, which do not fill the matrix units
    backward_ratio: Count = 2.0  # backward matrix work over forward matrix work
    half_factor: Count = 1.0  # device time at 16 bit over what the counts say (autocast leaves a part in fp32)

    # Memory traffic outside the matrix work, forward, per sample
    elementwise_values: Count = 0.0
    score_values_moved: Count = 0.0  # beside them: passes over the attention scores, which fused attention spares
    adapter_values: Count = 0.0  # inputs and outputs of the matrices that have adapters (LoRA)

    # Traffic between GPUs that grows with the samples
    exchanged_values: Count = 0.0  # looked up in tables that the GPUs share out: sent on, their gradients sent back

    # Host
    kernels: Count = 0.0  # kernel launches of one forward pass, whatever the batch

    # Input pipeline
    input_bytes: Count = 0.0  # stored bytes of a sample that the loader reads
    decode_ms: Count = 0.0  # one CPU core's milliseconds to decode and augment a sample

    # Activations kept for the backward pass, in values per sample over the whole model
    stored_values: Count = 0.0  # no recomputation, attention that never stores its scores (flash)
    stored_values_selective: Count = 0.0  # attention block recomputed
    stored_values_full: Count = 0.0  # only layer inputs kept
    single_share: Count = 0.0  # values that plain layers keep twice or in fp32, over the stored ones
    score_values: Count = 0.0  # attention scores kept when attention is eager
    layer_values: Count = 0.0  # live values of the largest single layer (working set during recomputation)
    logits_values: Count = 0.0  # output logits

    @property
    def gathered_units(self) -> Count:
        """What sharded weights are gathered by: layers, or where there are none one unit for about eight kernels."""
        return np.where(np.asarray(self.layers) > 0, self.layers, np.asarray(self.kernels) / 8.0)


def broadcast(work: Work, size: int) -> dict[str, NDArray[np.float64]]:
    """Every field of `work` as an array of shape (size,)."""
    return {f.name: np.broadcast_to(np.asarray(getattr(work, f.name), float), (size,)) for f in fields(work)}


def stack(works: list[Work]) -> Work:
    """Many scalar works as one `Work` of arrays, in order; shape (len(works),)."""
    return Work(**{f.name: np.array([getattr(w, f.name) for w in works], float) for f in fields(Work)})
