"""Can a user's own measured throughputs be true? The share of the GPU's peak that each of them implies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks_db.errors import WorkloadError
from estimator.rows import prepare

MAX_UTILISATION = 1.0
"""Above the dense peak a figure is a mistake: usually sparse FLOP/s, a total read as one GPU, or padding counted."""
UNUSUAL_UTILISATION = 0.7
"""Published training runs stay below."""

Measured = Mapping[str, str]


def utilisation(rows: Sequence[Measured]) -> list[float | None]:
    """Model FLOPs of each row over the dense peak of its GPUs (the MFU of its throughput); None where not computable.

    Model FLOPs = forward x (1 + backward / forward) x samples of a step; recomputation is not counted.
    """
    prepared = prepare(rows)
    rate = np.array([float(rows[i]["throughput"]) for i in prepared.index])
    seconds = np.where(prepared.is_time, rate * prepared.scale, prepared.amount / rate)
    work, layout, hardware = prepared.work, prepared.layout, prepared.hardware
    forward = np.asarray(work.matmul_flops) + work.expert_flops + work.attention_flops + work.grouped_flops
    flops = forward * (1.0 + np.asarray(work.backward_ratio)) * layout.global_batch
    peak = np.asarray(hardware.matmul_tflops) * 1e12 * np.asarray(hardware.gpus)
    shares: list[float | None] = [None] * len(rows)
    for i, share in zip(prepared.index, np.atleast_1d(flops / seconds / peak), strict=True):
        shares[int(i)] = float(share) if np.isfinite(share) and share > 0 else None
    return shares


def believed(rows: Sequence[Measured], *, source: str) -> list[float | None]:
    """The utilisation of each row; WorkloadError for the first that no GPU could reach."""
    shares = utilisation(rows)
    for number, (row, share) in enumerate(zip(rows, shares, strict=True), start=1):
        if share is not None and share > MAX_UTILISATION:
            raise WorkloadError(
                f"{source} row {number}: {row['throughput']} {row['unit']} would be {share:.0%} of what "
                f"{row.get('gpus') or 1} x {row['gpu']} can do; check gpus, scope, batch and unit",
                field="throughput",
                value=row["throughput"],
            )
    return shares
