"""Which divisions of the job over GPUs are worth a look, on every kind of hardware at once?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layout import Layout
from estimator.memory import MemoryAccount
from estimator.terms import ActivationCheckpointing, Method, Optimizer, Precision, ShardingKind
from estimator.work import Work

__all__ = ["REFUSALS", "Candidates", "Layout", "Limits", "enumerate_layouts"]

REFUSALS = ("", "memory", "batch", "degrees")  # by code: why a row of hardware has no candidate; "" when it has


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the user fixed; None and AUTO leave the choice to the search."""

    micro_batch: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    context: int | None = None
    expert: int | None = None
    sharding: ShardingKind = ShardingKind.AUTO
    recompute: ActivationCheckpointing = ActivationCheckpointing.AUTO
    offload: bool = False
    per_hardware: int = 160  # at most so many layouts a row of hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Layouts worth evaluating on h rows of hardware; n candidates in all."""

    layout: Layout  # arrays of shape (n,)
    row: NDArray[np.int64]  # (n,) the row of the hardware table each belongs to
    memory: MemoryAccount  # (n,)
    verdict: NDArray[np.int64]  # (n,) codes of `memory.VERDICTS`; never "no"
    refused: NDArray[np.int64]  # (h,) codes of `REFUSALS`


def enumerate_layouts(
    work: Work,
    hardware: Hardware,
    *,
    global_batch: float,
    limits: Limits | None = None,
    method: Method = Method.FULL,
    precision: Precision | Sequence[Precision] = Precision.BF16,
    optimizer: Optimizer = Optimizer.ADAMW,
    attention: str = "flash",
) -> Candidates:
    """Candidate layouts of one workload on a table of hardware, those that cannot fit left out."""
    raise NotImplementedError
