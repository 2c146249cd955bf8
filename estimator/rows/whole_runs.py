"""How long does each whole run of a table take, and what does it cost? `estimator predict RUNS.csv --runs`.

Only what a planner knows beforehand is read (`READS`): never the row's own hours, dollars or utilisation. A run is its
training steps (data over predicted throughput) times a factor for what stands between them, by kind of run; factor and
interval come from published runs (`data/run_kinds.csv`, written by `estimator benchmarks fit --runs`).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.architectures.vision import DECODE_MS
from estimator.rows.arrays import prepare
from estimator.rows.cells import figure, gpus_of, model_of, refuse_unreadable
from estimator.rows.headers import as_asked
from estimator.rows.predict import predicted

READS = (
    "source", "date", "model", "params_m", "active_params_m", "task", "dataset", "tokens_b", "samples_m", "epochs",
    "gpu", "gpus", "nodes", "cloud_instance", "interconnect", "precision", "seq_len", "global_batch", "framework",
    "target", "price_basis",
)  # fmt: skip
"""Columns that a prediction may read."""

ADDED = (
    "predicted_hours_p10", "predicted_hours_p50", "predicted_hours_p90", "predicted_gpu_hours_p50",
    "predicted_cost_usd_p10", "predicted_cost_usd_p50", "predicted_cost_usd_p90", "error",
)  # fmt: skip

PRETRAINING_TOKENS_B = 10.0
GPUS_WHERE_UNSTATED = 8.0
"""Of a run that gives no number of GPUs: its GPU-hours are predicted as on one full node, its hours left blank."""

AMOUNTS = ("active_params_m", "tokens_b", "samples_m", "epochs")
_STEP_COLUMNS = (
    "source", "date", "model", "params_m", "task", "gpu", "gpus", "nodes", "interconnect", "precision", "seq_len",
    "global_batch", "framework",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overhead:
    """Hours of a run over data / predicted throughput, and the log half-width of an 80% interval around that."""

    factor: float
    half_width: float


def predict_runs(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Predict each run; a row that cannot be predicted gets an `error`, the others go on."""
    out = [{**{str(k): str(v or "") for k, v in row.items()}, **dict.fromkeys(ADDED, "")} for row in rows]
    asked = [{name: cell.strip() for name, cell in row.items()} for row in as_asked(rows, READS)]
    amounts: list[tuple[float, str]] = []
    steps: list[dict[str, str]] = []
    for row, answer in zip(asked, out, strict=True):
        try:
            refuse_unreadable(row, AMOUNTS)
            amount, unit = amount_of(row)
            row["gpus"] = _number(gpus_of(row))
        except EstimatorError as untold:
            answer["error"] = str(untold)
            amount, unit = math.nan, "samples/s"
        amounts.append((amount, unit))
        steps.append(_step_row(row, unit))
    prepared = prepare(steps)
    for answer, error in zip(out, prepared.errors, strict=True):
        answer["error"] = answer["error"] or error
    if not len(prepared.index):
        return out
    rate, *_ = predicted(prepared)
    for value, i in zip(rate, prepared.index, strict=True):
        row, answer, (amount, _unit) = asked[i], out[i], amounts[i]
        if answer["error"]:
            continue
        if not (np.isfinite(value) and value > 0):
            answer["error"] = "the prediction is not a finite number: check batch, sequence length and GPU count"
            continue
        over = overhead(kind_of(row))
        seconds = amount / min(float(value), _loader_rate(row))
        answer |= _answer(row, seconds / 3600.0 * over.factor, math.exp(over.half_width))
    return out


def amount_of(row: Mapping[str, str]) -> tuple[float, str]:
    """What is trained on in all, and the unit to ask throughput in; WorkloadError where the row does not tell."""
    tokens, samples, epochs = (figure(row, name) for name in ("tokens_b", "samples_m", "epochs"))
    size = _size_of(row["dataset"])
    if tokens > 0:
        return tokens * 1e9, "tokens/s"
    if samples > 0:
        # Some sources state the data set and some what was trained on in all: the size of the data set decides
        is_size = size is not None and abs(samples * 1e6 / size - 1.0) < 0.06
        return samples * 1e6 * (epochs if is_size and epochs > 0 else 1.0) * _views(row), "samples/s"
    if epochs > 0 and size:
        return epochs * size * _views(row), "samples/s"
    raise WorkloadError("neither tokens_b nor samples_m, nor epochs of a data set of known size", field="tokens_b")


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.15g}"


VIEWS = 2.0
"""Augmented views of each image that self-supervised training passes through the model (SimCLR, BYOL, Barlow Twins)."""

LOADER_CORES = 8.0
"""Host cores a GPU where nobody states them: 8 (AWS P4, P5: 12 and 24 threads; desktop: 8 to 16)."""


def _views(row: Mapping[str, str]) -> float:
    """Samples of the model that one image makes; masked models (MAE, SparK, BEiT) see it once."""
    masked = row["model"].casefold().startswith(("mae", "spark", "beit", "simmim"))
    return VIEWS if "self-supervised" in row["task"].casefold() and not masked else 1.0


def _loader_rate(row: Mapping[str, str]) -> float:
    """Views a second that the host's cores augment for self-supervised training; infinite for any other."""
    if _views(row) == 1.0:
        return math.inf
    gpus = figure(row, "gpus")
    return (gpus if gpus > 0 else GPUS_WHERE_UNSTATED) * LOADER_CORES / (DECODE_MS * 1e-3)


def kind_of(row: Mapping[str, str]) -> str:
    """What kind of run this is: the stated time means different things, and more or less stands between the steps."""
    source, target, task = (row[name].casefold() for name in ("source", "target", "task"))
    if "mlcommons/" in source or target.startswith("mlperf"):
        return "mlperf"
    if "dawn-bench" in source:
        return "dawnbench"
    if "nvidia/deeplearningexamples" in source:
        return "recipe"
    if "rlhf" in task:
        return "rlhf"
    if "self-supervised" in task or "contrastive" in task:
        return "self-supervised"
    if figure(row, "tokens_b") >= PRETRAINING_TOKENS_B:
        return "pretraining"
    return "fine-tuning" if task.startswith(("llm", "text", "question", "multimodal")) else "other"


def dollars_an_hour(row: Mapping[str, str], gpus: float) -> float | None:
    """Of the whole job: stated in `price_basis`, else on-demand of `cloud_instance` in the shipped snapshot."""
    basis = row["price_basis"]
    per_gpu = re.search(r"\$\s*(\d[\d,]*\.?\d*)\s*(?:per|/|an?)\s*gpu[\s-]*(?:h\b|hour|hr)", basis, re.IGNORECASE)
    if per_gpu:
        return float(per_gpu[1].replace(",", "")) * gpus
    hourly = re.search(r"\$\s*(\d[\d,]*\.?\d*)\s*(?:per|/|an)\s*(?:h\b|hour|hr)", basis, re.IGNORECASE)
    if hourly:
        return float(hourly[1].replace(",", ""))
    return _instance_price(row["cloud_instance"], gpus) if row["cloud_instance"] else None


def _answer(row: Mapping[str, str], middle: float, spread: float) -> dict[str, str]:
    stated = figure(row, "gpus")
    gpus = stated if stated > 0 else GPUS_WHERE_UNSTATED
    answer = {"predicted_gpu_hours_p50": f"{middle * gpus:.6g}"}
    if stated > 0:
        hours = {"p10": middle / spread, "p50": middle, "p90": middle * spread}
        answer |= {f"predicted_hours_{name}": f"{value:.6g}" for name, value in hours.items()}
    rate = dollars_an_hour(row, gpus)
    if rate is not None:
        cost = {"p10": middle / spread * rate, "p50": middle * rate, "p90": middle * spread * rate}
        answer |= {f"predicted_cost_usd_{name}": f"{value:.6g}" for name, value in cost.items()}
    return answer


def _step_row(row: Mapping[str, str], unit: str) -> dict[str, str]:
    step = {name: row[name] for name in _STEP_COLUMNS} | {"unit": unit, "scope": "total"}
    step["image_size"] = _image_size(row["dataset"])
    step["micro_batch"] = _micro_batch(row)
    if not row["seq_len"] and re.search(r"\btraces?\b", row["dataset"], re.IGNORECASE):
        step["seq_len"] = REASONING_TOKENS
    if "lora" in row["source"].rsplit("/", 1)[-1].casefold():  # MLPerf's llama2_70b_lora
        step["peft"] = "lora"
    if not figure(row, "gpus") > 0:
        step["gpus"] = f"{GPUS_WHERE_UNSTATED:g}"
    return step


def _size_of(dataset: str) -> float | None:
    """Training samples of a data set: by its name, else as the text itself says it.

    >>> _size_of("imagenet-1k"), _size_of("imagenet100 (100 classes x 1300)"), _size_of("banking77 (10,003 samples)")
    (1281167.0, 130000.0, 10003.0)
    """
    name, _, said = dataset.partition("(")
    if known := dataset_sizes().get(_folded(dataset)) or dataset_sizes().get(_folded(name)):
        return known
    numbers = [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", said)]
    if "classes" in said and len(numbers) == 2:
        return numbers[0] * numbers[1]
    return numbers[0] if len(numbers) == 1 and numbers[0] >= 100 else None


def _micro_batch(row: Mapping[str, str]) -> str:
    """Of models that are trained data-parallel: the share of one GPU, as accumulation is rare there; else open."""
    gpus, batch = figure(row, "gpus"), figure(row, "global_batch")
    if not (gpus >= 1 and batch >= gpus):
        return ""
    try:
        kind = model_of(row)[0].kind
    except EstimatorError:
        return ""
    return "" if kind in ("decoder", "moe", "size-only") else f"{batch / gpus:g}"


CIFAR_AS = "128"
"""Size at which a network for 224 pixels does the work of its form for pictures of 32 pixels.

That form leaves out the fourfold down-sampling of the first layers (kuangliu/pytorch-cifar: ResNet-50 of 1.3 G
multiply-adds, as many as at 128 pixels)."""

REASONING_TOKENS = "4700"
"""Tokens of a reasoning trace where nobody states them: 23.5 M tokens for 5 epochs of the 1,000 traces of s1K."""


def _image_size(dataset: str) -> str:
    """Pixels on a side where the data set says so; else the model's own."""
    if stated := re.search(r"\bat (\d{2,4}) ?px", dataset):
        return stated[1]
    return CIFAR_AS if _folded(dataset).startswith("cifar") else ""


@cache
def dataset_sizes() -> dict[str, float]:
    """Training samples of public data sets by folded name."""
    with (files("estimator") / "data" / "datasets.csv").open(encoding="utf-8") as lines:
        return {_folded(row["dataset"]): float(row["samples"]) for row in csv.DictReader(lines)}


@cache
def _overheads() -> dict[str, Overhead]:
    with (files("estimator") / "data" / "run_kinds.csv").open(encoding="utf-8") as lines:
        return {row["kind"]: Overhead(float(row["factor"]), float(row["half_width"])) for row in csv.DictReader(lines)}


def overhead(kind: str) -> Overhead:
    """What stands between the steps of a kind of run."""
    return _overheads()[kind]


@cache
def _on_demand() -> dict[str, tuple[float, float]]:
    """Lowest on-demand price of one instance in the shipped snapshot, and its GPUs, by folded instance type."""
    from pricing.snapshot import snapshot_table

    table = snapshot_table()
    asked = table.where("market", lambda market: market == "on-demand") & ~np.isnan(table.usd_per_hour)
    found: dict[str, tuple[float, float]] = {}
    chosen = table.select(asked)
    for name, price, gpus in zip(chosen.instance_type, chosen.usd_per_hour, chosen.gpus_per_node, strict=True):
        key = _folded(name)
        if key not in found or price < found[key][0]:
            found[key] = (float(price), float(gpus))
    return found


def _instance_price(text: str, gpus: float) -> float | None:
    """Dollars an hour of enough instances for `gpus`; the text may say how many (`8 x p3.16xlarge`)."""
    for part in re.split(r"[\s(),;]+|\bx\b", text):
        found = _on_demand().get(_folded(part)) if part else None
        if found and found[1] > 0:
            return found[0] * max(1.0, math.ceil(gpus / found[1] - 1e-9))
    return None


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())
