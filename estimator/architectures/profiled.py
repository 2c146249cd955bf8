"""How much work is a sample, judged by how fast the model was measured to train?

Of some models (SSD, GNMT, Tacotron 2, DLRM, ...) only throughputs on some GPUs are known. What their samples cost is
inferred from all their measurements together, through the same step-time model that predicts: five factors a model
(`AXES`), drawn to a prior so that one odd row bends nothing. Models whose definition was counted have a tight prior,
models of which only the size is known a wide one.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.errors import WorkloadError
from estimator.architectures.inventories import find
from estimator.architectures.vision import of_inventory
from estimator.terms import Method
from estimator.work import Work

if TYPE_CHECKING:
    from benchmarks_db.models import ModelFacts

Array = NDArray[np.float64]

FILE = Path(__file__).parent / "profiles.csv"

AXES = ("flops", "values_per_flop", "kernels", "half", "wire")
"""What the factors of a model multiply: matrix work, traffic per matrix work, kernel launches, device time at 16 bit
(autocast leaves a part in fp32), gradient bytes exchanged (sparse embeddings, 16-bit exchange)."""

SIGMA = {
    "counted": (0.12, 0.20, 0.30, 0.15, 0.40),
    "drawn": (0.30, 0.50, 0.60, 0.25, 0.80),
    "shape": (0.12, 0.20, 0.30, 0.15, 0.40),
    "gmacs": (0.25, 0.40, 0.40, 0.20, 0.50),
    "size": (2.00, 0.70, 2.00, 0.25, 0.80),
}
"""Standard deviation of the log factors by what the base work rests on: counted operators, counted operators of a
network of the published shape (whose programs differ in heads, losses and lengths of samples), a closed form of the
shape, tabled multiply-adds, or nothing but a number of parameters."""

HALF = 1.2
"""Device time at 16 bit over the counts of a network written down from its published shape.

Losses, casts and norms that autocast leaves in fp32 (median of the factors of 22 such networks 1.15, mean 1.2)."""

SENTENCE = 27.0
"""Tokens a side of a sentence pair (WMT, as for GNMT in units.csv), where samples are sentences and batches tokens.

A stated length is where longer sentences are cut off, 50 to 80."""

HOST_BOUND = 12.0
"""Kernels over the guess from which the search for a model's work starts a second time: a step that the host paces
shows nothing of its device work, and nothing leads there from a step that the device paces."""

REUSE = 250.0
"""Positions that meet a parameter in a sample, where nobody says (ResNet-50: 160, SSD300: 2,000, GNMT: 25)."""

FLOPS_A_VALUE = 110.0
"""Forward FLOPs per value moved outside the matrices (counted: ResNet-50 46, VGG16 155, ViT-B 177, BERT 200)."""

KERNELS = 150.0
"""Kernels of a forward pass, where nobody counted."""

PARAMS = 30e6
"""Parameters, where nobody says (median of the profiled models that say)."""

NOISE = 0.15
"""Log spread of one group's measurements around its model (other laboratory, other release)."""

KEPT = 0.5
"""Stored values over moved values of a forward pass (each value written is kept and was read once)."""

ROBUST = 0.25
"""Log residual from which a row counts less than its square (soft-L1)."""


def rough(facts: ModelFacts, *, seq_len: float | None = None, image_size: float | None = None) -> Work:
    """The work of a sample before any measurement was looked at, from the number of parameters alone.

    A model that was counted has its counts. Else each parameter meets each token once where a length is stated, or is
    met `REUSE` times a sample (in proportion to the pixels where the facts know at which size). `tokens` is what a
    sample counts in the unit of its measurements (frames, audio samples, tokens of a sentence pair).
    """
    counted = facts.unit not in ("", "samples/s", "s/step", "ms/step")
    units = (seq_len or facts.units_per_sample or 1.0) if counted else 1.0
    if inventory := find(facts.name, image_size, seq_len):
        pair = min(seq_len, SENTENCE) if seq_len and counted and facts.units_per_sample == 1.0 else 1.0
        counts = of_inventory(inventory, image_size=image_size, length=seq_len, times=pair)
        units = pair if pair > 1.0 else units
        return replace(counts, tokens=units, half_factor=HALF)
    params = facts.params_m * 1e6 if facts.params_m else PARAMS
    pixels = (image_size / facts.image_size) ** 2 if image_size and facts.image_size else 1.0
    sentence = facts.units_per_sample if facts.unit == "tokens/s" else None
    flops = 2.0 * params * (seq_len or sentence or REUSE * pixels)
    values = flops / FLOPS_A_VALUE
    return Work(
        params=params,
        active_params=params,
        trainable_params=params,
        tokens=units,
        matmul_flops=flops,
        elementwise_values=values,
        kernels=KERNELS,
        stored_values=KEPT * values,
        stored_values_selective=KEPT * values,
        stored_values_full=0.1 * KEPT * values,
        layer_values=0.1 * KEPT * values,
    )


def work(facts: ModelFacts, *, seq_len: float | None = None, image_size: float | None = None) -> Work:
    """Work of one sample as inferred from measurements; WorkloadError when nobody measured the model."""
    factors = shipped().get(key(facts))
    if factors is None and not find(facts.name):
        raise WorkloadError("neither its definition nor a measurement tells its work", field="model", value=facts.name)
    found = rough(facts, seq_len=seq_len, image_size=image_size)
    if factors is not None:
        found = apply(found, np.array(factors))
    if find(facts.name):
        return found
    # No throughput shows what is kept for the backward pass: half of what is moved, as in models that were counted.
    kept = KEPT * found.elementwise_values
    return replace(
        found,
        stored_values=kept,
        stored_values_selective=kept,
        stored_values_full=0.1 * kept,
        layer_values=0.1 * kept,
    )


def key(facts: ModelFacts, method: Method = Method.PRETRAIN) -> str:
    """Under which name a model's factors are kept: transformers by what they are trained for, too.

    Pretraining adds heads, masks and vocabulary projections that fine-tuning lacks, so one name is two workloads.
    """
    return f"{facts.name} {method}" if basis(facts) == "shape" else facts.name


def basis(facts: ModelFacts) -> str:
    """What the work of a model rests on before its measurements are looked at: a key of `SIGMA`."""
    if facts.kind not in ("vision", "profiled") and not facts.image_size:
        return "shape"
    if find(facts.name):
        return "drawn" if facts.kind == "profiled" else "counted"
    return "size" if facts.kind == "profiled" else "gmacs"


def apply(base: Work, factors: Array) -> Work:
    """`base` with its work multiplied by `factors` of shape (5,) or (n, 5), in the order of `AXES`."""
    flops, ratio, kernels, half, wire = np.moveaxis(np.asarray(factors, float), -1, 0)
    return replace(
        base,
        matmul_flops=base.matmul_flops * flops,
        expert_flops=base.expert_flops * flops,
        attention_flops=base.attention_flops * flops,
        grouped_flops=base.grouped_flops * flops,
        elementwise_values=base.elementwise_values * flops * ratio,
        score_values_moved=base.score_values_moved * flops * ratio,
        kernels=base.kernels * kernels,
        half_factor=base.half_factor * half,
        wire_ratio=base.wire_ratio * wire,
    )


def infer(
    base: Work,
    codes: NDArray[np.int64],
    seconds_of: Callable[[Work], Array],
    measured: Array,
    weights: Array,
    sigma: Array,
    *,
    start: Array | None = None,
    rounds: int = 20,
) -> Array:
    """Factors of shape (models, 5) that bring predicted step times of n rows to the measured ones.

    `base`: work of each row, arrays of shape (n,); `codes`: model of each row; `seconds_of`: step time of a work;
    `measured`: seconds, shape (n,); `weights`: shape (n,), 1 = one independent group; `sigma`: (models, 5), standard
    deviation of the log factors around 1. A model without rows keeps its factors at 1.

    Without `start` a second search begins where the host paces every step, and each model keeps the better end.

    Maximum a posteriori, all models at once: damped Gauss-Newton on sum w rho(log t - log measured) / NOISE^2 +
    sum (log factor / sigma)^2 with rho = soft-L1, derivatives by differences, steps refused per model.
    """
    models, axes = sigma.shape
    target = np.log(measured)

    def residuals(at: Array) -> Array:
        return np.asarray(np.log(seconds_of(apply(base, np.exp(at)[codes]))) - target, float)

    def loss(at: Array, r: Array) -> Array:
        robust = 2.0 * ROBUST**2 * (np.sqrt(1.0 + (r / ROBUST) ** 2) - 1.0)
        prior: Array = ((at / sigma) ** 2).sum(axis=1)
        return np.bincount(codes, weights * robust, models) / NOISE**2 + prior

    def search(logs: Array) -> tuple[Array, Array]:
        damping = np.full(models, 1e-3)
        r = residuals(logs)
        best = loss(logs, r)
        for _ in range(rounds):
            slopes = [(residuals(logs + 1e-4 * np.eye(axes)[axis]) - r) / 1e-4 for axis in range(axes)]
            w = weights / np.sqrt(1.0 + (r / ROBUST) ** 2) / NOISE**2
            hessian = np.empty((models, axes, axes))
            gradient = np.empty((models, axes))
            for a in range(axes):
                gradient[:, a] = np.bincount(codes, w * slopes[a] * r, models) + logs[:, a] / sigma[:, a] ** 2
                for b in range(axes):
                    hessian[:, a, b] = np.bincount(codes, w * slopes[a] * slopes[b], models)
            diagonal = np.arange(axes)
            hessian[:, diagonal, diagonal] += (1.0 + damping[:, None]) / sigma**2 + damping[:, None]
            step = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
            trial = logs + np.clip(step, -1.0, 1.0)
            trial_r = residuals(trial)
            value = loss(trial, trial_r)
            better = value <= best
            logs = np.where(better[:, None], trial, logs)
            best = np.where(better, value, best)
            r = np.where(better[codes], trial_r, r)
            damping = np.clip(np.where(better, damping / 3.0, damping * 10.0), 1e-6, 1e6)
        return logs, best

    if start is not None:
        return np.exp(search(np.log(start))[0])
    logs, best = search(np.zeros((models, axes)))
    paced = np.zeros((models, axes))
    paced[:, AXES.index("kernels")] = np.log(HOST_BOUND)
    other, reached = search(paced)
    logs = np.where((reached < best)[:, None], other, logs)
    return np.exp(logs)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a model's factors rest on."""

    factors: tuple[float, ...]
    basis: str  # what the factors multiply: a key of `SIGMA`
    rows: int
    gpus: int
    labs: int


def write(evidence: Mapping[str, Evidence], path: Path = FILE) -> None:
    """Keep inferred factors as a readable file, ordered by name."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", *AXES, "basis", "rows", "gpus", "labs"])
        for name in sorted(evidence):
            one = evidence[name]
            writer.writerow([name, *(f"{f:.4g}" for f in one.factors), one.basis, one.rows, one.gpus, one.labs])


@cache
def shipped(path: Path = FILE) -> Mapping[str, tuple[float, ...]]:
    """Factors by model name as the last fit left them; empty before the first fit.

    Factors on a guessed size say nothing once a model is counted: they are left out until the next fit.
    """
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["basis"] != "size" or not find(row["model"])]
    return {row["model"]: tuple(float(row[axis]) for axis in AXES) for row in rows}
