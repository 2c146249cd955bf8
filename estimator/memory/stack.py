"""What does the training program do that the request does not say: loss copies, buckets, offloaded checkpoints?

A plan uses `ORDINARY`. A measured row names its laboratory and framework, and frameworks differ in a few habits that
move gigabytes; those habits are rows of `stacks.csv`, each with where it is documented.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estimator.memory.recipe import Recipe

Trait = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Habits of a training program; every field a scalar or an array of shape (n,)."""

    fused: Trait = 0.0  # 1: layers are fused kernels of vendors or a compiler, which keep fewer activations
    chunked_loss: Trait = 0.0  # 1: the loss is computed chunk by chunk, so that not all logits exist at once
    sequence_parallel: Trait = 1.0  # 1: tensor parallelism also divides what lies between the matrix products
    bucket_copy: Trait = 1.0  # 1: plain DDP copies gradients into buckets; 0: gradients live in the buckets
    host_checkpoints: Trait = 0.0  # 1: layer inputs kept for recomputation go to host memory
    pure16: Trait = 0.0  # 1: full training at 16 bit keeps no fp32 master copy
    shards_optimizer: Trait = 0.0  # 1: replicas share optimizer states even where a row says no more than data parallel
    gradient_share: Trait = 1.0  # 0: the optimizer steps inside the backward pass, so no gradient outlives its layer
    gradient_fp16: Trait = 4.0  # bytes of a gradient in mixed fp16
    gradient_bf16: Trait = 4.0  # bytes of a gradient in mixed bf16
    frozen_fp32: Trait = 0.0  # 1: a frozen base is kept in fp32 and cast layer by layer, as trained weights are
    frozen_fp8: Trait = 0.0  # 1: with fp8, a frozen base is stored in fp8
    peak_tokens: Trait = float("nan")  # longest sample where a row states no length
    adapts_attention: Trait = 0.0  # 1: its adapters sit on queries and values alone
    lora_rank: Trait = float("nan")  # rank of its adapters where a row states none
    loads_whole: Trait = 0.0  # 1: every GPU reads all weights before FSDP takes its share of them
    counted: Trait = 1.0  # share of the CUDA context and of NCCL that the program's own meter counts


ORDINARY = Stack()
TUNED = "nemo"
"""Whose habits software has that is tuned as MLPerf's is, where it is not named."""
UNKNOWN_METER = 0.3
"""`counted` of a program that is not known: most print torch's own meter, some what nvidia-smi shows."""


def adjust(bytes_: Recipe, stack: Stack, half: NDArray[np.int64]) -> Recipe:
    """Bytes a parameter as this program keeps them; `half`: 0 not mixed, 1 mixed fp16, 2 mixed bf16, 3 mixed fp8."""
    full = np.asarray(bytes_.adapter) <= 0
    mixed = full & (half > 0)
    pure = mixed & (np.asarray(stack.pure16) > 0)
    gradient = np.where(half == 1, stack.gradient_fp16, stack.gradient_bf16)
    whole = (half > 0) & ~full & (np.asarray(stack.frozen_fp32) > 0) & (np.asarray(bytes_.dequantised) <= 0)
    slim = (half == 3) & ~full & (np.asarray(stack.frozen_fp8) > 0)
    return replace(
        bytes_,
        weight=np.select([whole, slim], [4.0, np.minimum(bytes_.weight, 1.0)], bytes_.weight),
        embedding=np.where(whole, 4.0, bytes_.embedding),
        master=np.where(pure, 0.0, bytes_.master),
        gradient=np.where(pure, 2.0, np.where(mixed, gradient, bytes_.gradient))
        * np.where(full, stack.gradient_share, 1),
        optimizer=np.where(pure, np.asarray(bytes_.optimizer) / 2.0, bytes_.optimizer),
    )


@dataclass(frozen=True, slots=True)
class _Habit:
    name: str
    lab: str
    framework: str
    traits: tuple[float, ...]


_TRAITS = tuple(field.name for field in fields(Stack))


@cache
def _habits() -> tuple[_Habit, ...]:
    with (Path(__file__).parent / "stacks.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            _Habit(row["stack"], row["lab"], row["framework"], tuple(float(row[name] or "nan") for name in _TRAITS))
            for row in csv.DictReader(file)
        )


@cache
def _habit(lab: str, framework: str, tuned: bool) -> _Habit | None:
    named = next((h for h in _habits() if h.lab in lab and h.framework in framework), None)
    return named or (next(h for h in _habits() if h.name == TUNED) if tuned else None)


def stack_name(lab: str, framework: str) -> str:
    """The program of `stacks.csv` that a laboratory and framework (lower case) mean; "" when none."""
    found = _habit(lab, framework, False)
    return found.name if found else ""


def stacks_of(labs: Sequence[str], frameworks: Sequence[str], tuned: Sequence[bool] = ()) -> Stack:
    """Habits of n rows, arrays of shape (n,); `ORDINARY` (and an unknown meter) where the program is not known."""
    unknown = replace(ORDINARY, counted=UNKNOWN_METER)
    ordinary = tuple(float(getattr(unknown, name)) for name in _TRAITS)
    table = np.array(
        [
            found.traits if (found := _habit(lab, framework, fast)) else ordinary
            for lab, framework, fast in zip(labs, frameworks, tuned or [False] * len(labs), strict=True)
        ],
        float,
    ).reshape(len(labs), len(_TRAITS))
    return Stack(**dict(zip(_TRAITS, table.T, strict=True)))
