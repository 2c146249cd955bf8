"""Can a user's own measured throughputs be believed? Rows that stand beside ours as evidence, checked one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks_db.errors import WorkloadError
from estimator.quantities import parse_count
from estimator.row_cells import READS
from estimator.rows import SAMPLE_UNITS, TIME_UNITS, prepare

COLUMNS = (*READS, "throughput")
NEEDED = ("model", "gpu", "throughput", "unit")
UNITS = (*SAMPLE_UNITS, "tokens/s", "frames/s", "audio-samples/s", *TIME_UNITS)
MAX_UTILISATION = 1.0
"""Above the dense peak a figure is a mistake: usually sparse FLOP/s, a total read as one GPU, or padding counted."""

Measured = Mapping[str, str]


def checked(rows: Sequence[Measured], *, source: str) -> list[dict[str, str]]:
    """The rows with the columns of `COLUMNS`; WorkloadError names the row, the column and what is wrong with it."""
    if not rows:
        raise WorkloadError(f"{source} holds no measurements", field="measured", value=source)
    plain = [{name: str(row.get(name) or "").strip() for name in COLUMNS} for row in rows]
    for number, row in enumerate(plain, start=1):
        _check_cells(row, f"{source} row {number}")
    prepared = prepare(plain)
    for number, error in enumerate(prepared.errors, start=1):
        if error:
            raise WorkloadError(f"{source} row {number}: {error}", field="measured", value=source)
    for number, share in zip(prepared.index, utilisation(plain), strict=True):
        if share > MAX_UTILISATION:
            raise WorkloadError(
                f"{source} row {number + 1}: {plain[number]['throughput']} {plain[number]['unit']} would be "
                f"{share:.0%} of what {plain[number]['gpu']} can do; check gpus, scope, batch and unit",
                field="measured",
                value=plain[number]["throughput"],
            )
    return plain


def utilisation(rows: Sequence[Measured]) -> list[float]:
    """Model FLOPs of each usable row over the dense peak of its GPUs (the MFU that its throughput implies)."""
    prepared = prepare(rows)
    rate = np.array([float(rows[i]["throughput"]) for i in prepared.index])
    seconds = np.where(prepared.is_time, rate * prepared.scale, prepared.amount / rate)
    work, layout, hardware = prepared.work, prepared.layout, prepared.hardware
    forward = np.asarray(work.matmul_flops) + work.expert_flops + work.attention_flops + work.grouped_flops
    flops = forward * (1.0 + np.asarray(work.backward_ratio)) * layout.global_batch
    peak = np.asarray(hardware.matmul_tflops) * 1e12 * np.asarray(hardware.gpus)
    return [float(share) for share in np.atleast_1d(flops / seconds / peak)]


def _check_cells(row: Measured, where: str) -> None:
    for name in NEEDED:
        if not row[name]:
            raise WorkloadError(f"{where}: {name} is needed", field="measured", value=where)
    try:
        throughput = parse_count(row["throughput"])
    except WorkloadError as error:
        raise WorkloadError(f"{where}: throughput {error.message}", field="measured", value=row["throughput"]) from None
    if throughput <= 0:
        raise WorkloadError(f"{where}: throughput must be above 0", field="measured", value=row["throughput"])
    if row["unit"] not in UNITS:
        near = ("tokens/s", "samples/s", "s/step")
        raise WorkloadError(f"{where}: unknown unit {row['unit']!r}", field="measured", value=row["unit"], nearest=near)
    if row["scope"] not in ("", "total", "per_gpu"):
        raise WorkloadError(
            f"{where}: scope {row['scope']!r} is not one of total, per_gpu",
            field="measured",
            value=row["scope"],
            nearest=("total", "per_gpu"),
        )
