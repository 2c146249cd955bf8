"""What has the user measured, can it be true, and does it agree with itself? Texts and rows beside a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks_db.errors import WorkloadError
from estimator.request.measured_text import cells_of, is_text
from estimator.rows.arrays import Described, Prepared, prepare
from estimator.rows.cells import Row
from estimator.terms import Method, Precision, ShardingKind, Software

if TYPE_CHECKING:
    from estimator.job import Job

MAX_UTILISATION = 1.0
"""Above the dense peak a figure is a mistake: usually sparse FLOP/s, a total read as one GPU, or padding counted."""
MAX_WINOGRAD = 2.25
"""The same for convolutions in fp32, whose Winograd kernels multiply 2.25 times less often than is counted."""
UNUSUAL_UTILISATION = 0.7
"""Published training runs stay below."""
SAME_SPREAD = 1.15
"""Factor beyond which two rates of one configuration disagree; replicates of one laboratory stay within 1.05."""
NEAR_SPREAD = 1.6
"""The same for other batches or layouts of a model on a GPU, over what physics makes of the difference."""

Measured = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Share:
    """What a row's rate comes to: `flops` model FLOPs a second on all GPUs beside the dense `peak` of all GPUs."""

    flops: float  # FLOP/s; forward x (1 + backward / forward), recomputation not counted
    peak: float  # FLOP/s
    format: str
    convolutional: bool

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation, 1 = the dense peak."""
        return self.flops / self.peak

    @property
    def impossible(self) -> bool:
        """No GPU of this peak can do that."""
        winograd = self.convolutional and self.format in ("fp32", "tf32")
        return self.mfu > (MAX_WINOGRAD if winograd else MAX_UTILISATION)


def shares(rows: Sequence[Measured]) -> list[Share | None]:
    """What each row comes to; None where it cannot be computed."""
    prepared = prepare(rows)
    rate = np.array([float(rows[i]["throughput"]) for i in prepared.index])
    seconds = prepared.seconds(rate)
    work, layout, hardware = prepared.work, prepared.layout, prepared.hardware
    forward = np.asarray(work.matmul_flops) + work.expert_flops + work.attention_flops + work.grouped_flops
    step = np.atleast_1d(forward * (1.0 + np.asarray(work.backward_ratio)) * layout.global_batch)
    peak = np.atleast_1d(np.asarray(hardware.matmul_tflops) * 1e12 * np.asarray(hardware.gpus))
    found: list[Share | None] = [None] * len(rows)
    for k, i in enumerate(prepared.index):
        flops = float(step[k] / seconds[k])
        if np.isfinite(flops / peak[k]) and flops > 0:
            row = prepared.rows[k]
            found[int(i)] = Share(
                flops,
                float(peak[k]),
                row.format,
                prepared.families[k] == "classic" and not row.language,
            )
    return found


def utilisation(rows: Sequence[Measured]) -> list[float | None]:
    """Model FLOPs of each row over the dense peak of its GPUs (the MFU of its throughput); None where unknown."""
    return [share.mfu if share else None for share in shares(rows)]


def believed(rows: Sequence[Measured], *, source: str) -> list[float | None]:
    """The utilisation of each row; WorkloadError, with the arithmetic, for the first that no GPU could reach."""
    found = shares(rows)
    for number, (row, share) in enumerate(zip(rows, found, strict=True), start=1):
        if share is not None and share.impossible:
            raise WorkloadError(
                f"{source} row {number}: {arithmetic(row, share)}", field="throughput", value=row["throughput"]
            )
    return [share.mfu if share else None for share in found]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def arithmetic(row: Measured, share: Share) -> str:
    """Why a rate is impossible, with the numbers.

    `90000 tokens/s x 48.3 GFLOP = 4347 TFLOP/s, 61 times the 71 TFLOP/s that 1 x RTX-3090 can do in bf16`
    """
    rate, unit = float(row["throughput"]), row["unit"]
    per_gpu = row.get("scope") == "per_gpu"
    if unit in ("s/step", "ms/step"):
        work = f"{share.flops * rate * (1e-3 if unit == 'ms/step' else 1.0) / 1e12:,.4g} TFLOP a step / {rate:g} "
        work += unit.partition("/")[0]
    else:
        gpus = float(row.get("gpus") or 1.0) if per_gpu else 1.0
        work = f"{rate:,.6g} {unit}{f' x {gpus:g} GPUs' if per_gpu else ''} x "
        work += f"{_figure(share.flops / rate / gpus / 1e9)} GFLOP (forward and backward) "
    return (
        f"{row['throughput']} {unit} would be {share.mfu:.0%} of what {row.get('gpus') or 1} x {row['gpu']} can do: "
        f"{work.strip()} = {_figure(share.flops / 1e12)} TFLOP/s, and the dense peak in {share.format} is "
        f"{_figure(share.peak / 1e12)} TFLOP/s; check gpus, scope, batch and unit"
    )


# --- beside a request ----------------------------------------------------------------------------------------------


def with_stated(job: Job, measured: Sequence[Measured]) -> tuple[list[Measured], list[str]]:
    """`measured` and the texts of the request's own `measured` as rows, and a warning for each pair that disagrees.

    Raises WorkloadError for a text that does not read or that no GPU could reach.
    """
    texts = [text for text in job.workload.measured if is_text(text)]
    stated = [row_of(job, text) for text in texts]
    for text, row, share in zip(texts, stated, shares(stated), strict=True):
        if share is None:
            reason = "; ".join(filter(None, prepare([row]).errors)) or "nothing can be computed from it"
            raise WorkloadError(f"{text!r}: {reason}", field="measured", value=text)
        if share.impossible:
            raise WorkloadError(f"{text!r}: {arithmetic(row, share)}", field="measured", value=text)
    rows = [*measured, *stated]
    return rows, disagreements(rows)


def row_of(job: Job, text: str) -> dict[str, str]:
    """The row that a text means beside the request of `job`: what it leaves open is as the request has it."""
    cells = cells_of(text)
    asked, training = job.workload, job.training
    method = Method(cells.pop("method", asked.method.value))
    row = {
        "source": "own",
        "task": f"llm-{'pretrain' if method is Method.PRETRAIN else 'finetune'}" if job.language else "training",
        "peft": method.value if method in (Method.LORA, Method.QLORA) else "none",
        "precision": "" if asked.precision is Precision.AUTO else asked.precision.value,
        "seq_len": f"{training.seq_len or ''}",
        "image_size": f"{training.image_size or ''}",
        "optimizer": asked.optimizer.value,
        "compiled": "yes" if asked.compiled else "",
        "attention": "" if asked.attention.value == "auto" else asked.attention.value,
        "memory_format": asked.memory_format.value if asked.memory_format else "",
        "data_kind": asked.data_kind.value if asked.data_kind else "",
        "objective": asked.objective or "",
        "stack": "tuned" if asked.software is Software.TUNED else "plain",
        **cells,
    }
    row |= _layout(job, row)
    if "model" in cells or asked.model is not None:
        return {"model": cells.get("model", job.facts.name), **row}
    return _described(job, row, text)


def _layout(job: Job, row: Mapping[str, str]) -> dict[str, str]:
    """Degrees, sharding, recomputation and batches: as measured, else as the request states them, else as this very
    request is planned on the hardware of the measurement (so that a plan on it is compared with its like)."""
    asked = job.workload
    stated: dict[str, object] = {
        key: row[column] for column, key in _COLUMNS.items() if row.get(column) and column != "sharding"
    }
    if sharding := row.get("sharding"):
        stated["sharding"] = ShardingKind.ZERO3 if sharding == "fsdp" else sharding
    micro = row.get("micro_batch") or (asked.micro_batch if asked.micro_batch != "auto" else "")
    if micro:
        cut = [float(row.get(name) or 1) for name in ("tp", "pp", "cp")]
        replicas = max(1.0, float(row["gpus"]) / (cut[0] * cut[1] * cut[2]))
        alone = float(micro) * replicas * float(row.get("grad_accum") or asked.grad_accum or 1)
        request = asked.global_batch if "grad_accum" not in row else None
        total = row.get("global_batch") or (request if request and request % alone == 0 else alone)
        stated |= {"micro_batch": micro, "global_batch": total, "grad_accum": None}
    found = _planned(job, stated, f"{row['gpu']}:{row['gpus']}")
    cells = {column: found.get(key, stated.get(key)) for column, key in _COLUMNS.items()}
    return {
        column: f"{value:g}" if isinstance(value, int | float) else str(value)
        for column, value in cells.items()
        if value not in (None, "auto", "")
    }


_COLUMNS = {
    "micro_batch": "micro_batch",
    "global_batch": "global_batch",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "sharding": "sharding",
    "act_ckpt": "activation_checkpointing",
}
"""Columns of a measurement that say how the job is laid out -> keys of the request."""


def _planned(job: Job, stated: Mapping[str, object], gpus: str) -> dict[str, object]:
    """The layout, by keys of the request, that this request with what is `stated` gets on `gpus`; empty where it gets
    none (it does not fit by our account, or contradicts itself)."""
    from estimator.planning.estimates import (
        estimate,  # the planner stands above this file; it is asked without measurements
    )

    body = {key: value for key, value in stated.items() if value is not None}
    free = {"measured", "own", "constraints", "options", "grad_accum" if "grad_accum" in stated else ""}
    kept = job.workload.model_dump(exclude_unset=True, exclude=free - {""})
    try:
        changed = type(job.workload).model_validate(kept | body | {"constraints": {"accelerators": "any"}})
        entries = estimate(changed, gpus=(gpus,)).estimates
    except WorkloadError:
        return {}
    if not entries:
        return {}
    layout = entries[0].layout
    return {
        "micro_batch": layout.micro_batch,
        "global_batch": layout.micro_batch * layout.grad_accum * layout.data,
        "tensor_parallel": layout.tensor,
        "pipeline_parallel": layout.pipeline,
        "context_parallel": layout.context,
        "expert_parallel": layout.expert,
        "sharding": layout.sharding,
        "activation_checkpointing": layout.activation_checkpointing,
    }


def _described(job: Job, row: dict[str, str], text: str) -> Described:
    """A row of a model that no table names: the request's own counts, at the length they were counted at."""
    for name, own in (("seq_len", job.training.seq_len), ("image_size", job.training.image_size)):
        if row[name] and float(row[name]) != float(own or 0):
            raise WorkloadError(
                f"{text!r}: the model is described at {name} {own}", field="measured", value=text, nearest=(f"{own}",)
            )
    if row["unit"] == "tokens/s" and job.training.seq_len and job.workload.custom is not None:
        samples = float(row["throughput"]) / job.training.seq_len  # a custom model's work is that of a sample
        row = row | {"throughput": f"{samples:.12g}", "unit": "samples/s"}
    method = Method(row["peft"]) if row["peft"] != "none" else Method.FULL
    row = row | {"objective": ""}  # in the work already
    language = {"task": "llm-pretrain" if job.workload.method is Method.PRETRAIN else "llm-finetune"}
    if (method in (Method.LORA, Method.QLORA)) != (job.workload.method in (Method.LORA, Method.QLORA)):
        raise WorkloadError(f"{text!r}: measured with another method", field="measured", value=text)
    return Described({"model": job.facts.name, **row, **language}, job.facts, job.work, job.family)


# --- do they agree? ------------------------------------------------------------------------------------------------


def disagreements(rows: Sequence[Measured]) -> list[str]:
    """A warning for each measurement that contradicts an earlier one of the same model on the same GPU; both count."""
    from estimator.performance.constants import per_row
    from estimator.performance.step import step_time

    if len(rows) < 2:
        return []
    prepared = prepare(rows)
    rates = np.array([float(rows[i].get("throughput") or "nan") for i in prepared.index])
    step = step_time(
        prepared.work,
        prepared.hardware,
        prepared.layout,
        execution=prepared.execution,
        constants=per_row(prepared.families),
    )
    slowness = np.log(prepared.seconds(rates) / step.total)
    warnings = []
    for k, row in enumerate(prepared.rows):
        for j in range(k):
            if _likeness(prepared.rows[j]) != _likeness(row):
                continue
            same = _configuration(prepared, j) == _configuration(prepared, k)
            factor = float(np.exp(abs(slowness[k] - slowness[j])))
            if factor > (SAME_SPREAD if same else NEAR_SPREAD):
                first, second = rows[int(prepared.index[j])], rows[int(prepared.index[k])]
                warnings.append(
                    f"your measurements disagree by a factor {factor:.2f}"
                    f"{'' if same else ' beyond what their settings explain'}: {_said(first)} and {_said(second)}; "
                    "both count"
                )
                break
    return warnings


def _likeness(row: Row) -> tuple[object, ...]:
    return (row.model.name, row.gpu.name, row.method, row.format, row.tuned, row.compiled, row.channels_last)


def _configuration(prepared: Prepared, k: int) -> Row:
    """What makes a rate comparable with another of the same model: everything but how the rate is written."""
    row = prepared.rows[k]
    return replace(row, unit="", per_gpu=False, date="", lab="", framework="", model_loose=False, task="")


def _said(row: Measured) -> str:
    batch = row.get("micro_batch") or row.get("global_batch")
    per_gpu = " per GPU" if row.get("scope") == "per_gpu" else ""
    where = f"{row['throughput']} {row['unit']}{per_gpu} of {row['model']} on {row.get('gpus') or 1} x {row['gpu']}"
    return where + (f" (batch {batch})" if batch else "")
