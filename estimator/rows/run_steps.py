"""Which training step does the row of a whole run repeat, and how much data goes through it?

Blanks that a run leaves are filled by what was usual, each at its own line below: they are assumptions of a planner who
knows no more than the row says.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from benchmarks_db.errors import EstimatorError, WorkloadError
from benchmarks_db.models import ModelFacts
from estimator.rows.arrays import prepare
from estimator.rows.cells import Row, figure, model_of, objective_of
from estimator.rows.memory import row_memory
from estimator.terms import Method

READS = (
    "source", "date", "model", "params_m", "active_params_m", "task", "dataset", "tokens_b", "samples_m", "epochs",
    "gpu", "gpus", "nodes", "cloud_instance", "interconnect", "precision", "seq_len", "global_batch", "framework",
    "target", "price_basis", "micro_batch", "image_size", "memory_format", "act_ckpt", "peft", "compiled", "objective",
)  # fmt: skip
"""Columns that a prediction may read; those after `price_basis` are optional."""

GPUS_WHERE_UNSTATED = 8.0
"""Of a run that gives no number of GPUs: its GPU-hours are predicted as on one full node, its hours left blank."""

CIFAR_AS = "128"
"""Size at which a network for 224 pixels does the work of its form for pictures of 32 pixels.

That form leaves out the fourfold down-sampling of the first layers (kuangliu/pytorch-cifar: ResNet-50 of 1.3 G
multiply-adds, as many as at 128 pixels)."""

REASONING_TOKENS = "4700"
"""Tokens of a reasoning trace where nobody states them: 23.5 M tokens for 5 epochs of the 1,000 traces of s1K."""

PROGRESSIVE_EPOCHS, PROGRESSIVE_PIXELS = 45.0, "176"
"""Epochs of ImageNet below which ordinary software reaches a stated accuracy with pictures that grow, and their size.

At 224 pixels throughout it takes 60 and more (fewer in MLPerf's tuned large batches). The schedules that were printed
(96 to 128, then 224, then 288 pixels) have as many pixels as 138 to 208 throughout."""

PICTURES_A_GPU = 128.0
"""Micro-batch of pictures of a job on several nodes that states none: large ones hide the exchange of gradients."""

SMALL_PARAMS, LANGUAGE_TOKENS = 2e9, 32_768.0
"""Parameters below which a language model's micro-batch is chosen by memory, and its most tokens.

The usual 4,096 leave a modern GPU waiting for its host with a model of that size; larger ones are not held up."""

FILL = 0.9
"""Share of the memory that a micro-batch may fill."""

LOADER_CORES = 8.0
"""Host cores a GPU where nobody states them: 8 (AWS P4, P5: 12 and 24 threads; desktop: 8 to 16)."""

RECOMPUTED_BEFORE, RECOMPUTED_M = "2023", 6000.0
"""Models of as many million parameters kept layer inputs alone before that year.

Selective recomputation and FlashAttention (arXiv:2205.05198, 2205.14135, May 2022) made it needless soon after."""

_STEP_COLUMNS = (
    "source", "date", "model", "params_m", "task", "gpu", "gpus", "nodes", "interconnect", "seq_len", "global_batch",
    "framework", "memory_format", "peft", "compiled",
)  # fmt: skip


def amount_of(row: Mapping[str, str]) -> tuple[float, str]:
    """What is trained on in all, and the unit to ask throughput in; WorkloadError where the row does not tell."""
    tokens, samples, epochs = (figure(row, name) for name in ("tokens_b", "samples_m", "epochs"))
    size = _size_of(row["dataset"])
    if tokens > 0:
        return tokens * 1e9, "tokens/s"
    if samples > 0:
        # Some sources state the data set and some what was trained on in all: the size of the data set decides
        is_size = size is not None and abs(samples * 1e6 / size - 1.0) < 0.06
        return samples * 1e6 * (epochs if is_size and epochs > 0 else 1.0), "samples/s"
    if epochs > 0 and size:
        return epochs * size, "samples/s"
    raise WorkloadError("neither tokens_b nor samples_m, nor epochs of a data set of known size", field="tokens_b")


def step_row(row: Mapping[str, str], unit: str) -> dict[str, str]:
    """The row of one training step of the run, in `unit`, of the whole job."""
    step = {name: row[name] for name in _STEP_COLUMNS} | {"unit": unit, "scope": "total"}
    step["precision"] = row["precision"] or _usual_precision(row)
    step["image_size"] = row["image_size"] or _image_size(row)
    step["micro_batch"] = row["micro_batch"] or _micro_batch(row)
    step["act_ckpt"] = row["act_ckpt"] or _recomputation(row)
    step["objective"] = objective_for(row)
    if not row["seq_len"] and re.search(r"\btraces?\b", row["dataset"], re.IGNORECASE):
        step["seq_len"] = REASONING_TOKENS
    if not row["peft"] and "lora" in row["source"].rsplit("/", 1)[-1].casefold():  # MLPerf's llama2_70b_lora
        step["peft"] = "lora"
    if not figure(row, "gpus") > 0:
        step["gpus"] = f"{GPUS_WHERE_UNSTATED:g}"
    return step


def anonymous(step: Mapping[str, str]) -> dict[str, str]:
    """The same step by somebody whose measurements nobody has; how well its software is tuned stays known."""
    stack = step.get("stack") or ("tuned" if "mlcommons/" in step["source"].casefold() else "plain")
    return {**step, "source": "", "stack": stack}


def objective_for(row: Mapping[str, str]) -> str:
    """Stated, or in front of the model's name; of a self-supervised task the usual one, two views (SimCLR)."""
    try:
        objective, _ = objective_of(row)
    except EstimatorError:
        return row["objective"]  # refused where the step is read
    if objective:
        return objective.name
    return "simclr" if not row["objective"] and "self-supervised" in row["task"].casefold() else ""


def filled(steps: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The steps with a micro-batch where small language models state none: the largest power of two that fits.

    Up to `LANGUAGE_TOKENS` and to a GPU's share of the global batch; where none above the usual size of `predict` fits,
    that stays.
    """
    out = list(steps)
    open_ones = [i for i, step in enumerate(steps) if not step["micro_batch"]]
    base = prepare([steps[i] for i in open_ones])
    asked: dict[int, float] = {}
    usual: dict[int, float] = {}
    params, tokens, micro, data = (
        np.asarray(values, float)
        for values in (base.work.params, base.work.tokens, base.layout.micro_batch, base.layout.data)
    )
    for j, row in enumerate(base.rows):
        if not row.language or params[j] >= SMALL_PARAMS or row.method is not Method.PRETRAIN:
            continue
        share = row.global_batch / data[j]
        limit = LANGUAGE_TOKENS / tokens[j]
        limit = min(limit, share) if math.isfinite(share) else limit
        i = open_ones[int(base.index[j])]
        usual[i] = float(micro[j])
        if limit > usual[i]:
            asked[i] = 2.0 ** math.floor(math.log2(limit))
    while asked := {i: size for i, size in asked.items() if size > usual[i]}:
        tried = {i: {**steps[i], "micro_batch": f"{size:g}"} for i, size in asked.items()}
        found = row_memory(prepare(list(tried.values())))
        fits = np.asarray(found.account.used, float) <= FILL * found.capacity
        for (i, step), fit in zip(tried.items(), fits.tolist(), strict=True):
            if fit:
                out[i] = step
                del asked[i]
            else:
                asked[i] /= 2.0
    return out


def _usual_precision(row: Mapping[str, str]) -> str:
    """fp32 of TensorFlow on GPUs before its automatic mixed precision (1.14, June 2019); else open."""
    found = re.search(r"tensorflow[\s-]*v?1\.(\d+)", row["framework"], re.IGNORECASE)
    return "fp32" if found and int(found[1]) < 14 and not row["gpu"].casefold().startswith("tpu") else ""


def _micro_batch(row: Mapping[str, str]) -> str:
    """Of models that are trained data-parallel: the share of one GPU, as accumulation is rare there; else open."""
    facts = _facts(row)
    if facts is None or facts.kind in ("decoder", "moe", "size-only"):
        return ""
    gpus, batch, nodes = (figure(row, name) for name in ("gpus", "global_batch", "nodes"))
    if gpus >= 1 and batch >= gpus:
        return f"{batch / gpus:g}"
    several = nodes > 1 or gpus > GPUS_WHERE_UNSTATED
    return f"{PICTURES_A_GPU:g}" if facts.kind == "vision" and several and math.isnan(batch) else ""


def _recomputation(row: Mapping[str, str]) -> str:
    """`full` of what was recomputed in its day; else open."""
    early = "" < row["date"] < RECOMPUTED_BEFORE
    return "full" if early and "pretrain" in row["task"].casefold() and figure(row, "params_m") >= RECOMPUTED_M else ""


def _image_size(row: Mapping[str, str]) -> str:
    """Pixels on a side where the data set says so or the schedule is known to grow; else the model's own."""
    dataset = row["dataset"]
    if stated := re.search(r"\bat (\d{2,4}) ?px", dataset):
        return stated[1]
    if _folded(dataset).startswith("cifar"):
        return "" if _made_for_small(row) else CIFAR_AS
    tuned = "mlcommons/" in row["source"].casefold() or row["target"].casefold().startswith("mlperf")
    short = figure(row, "epochs") < PROGRESSIVE_EPOCHS and not tuned
    accurate = re.search(r"\d ?% top-[15]\b", row["target"], re.IGNORECASE)
    return PROGRESSIVE_PIXELS if short and accurate and _folded(dataset).startswith("imagenet1k") else ""


def _made_for_small(row: Mapping[str, str]) -> bool:
    """A network whose own pictures are small (ResNet-164 of CIFAR), which needs no other size."""
    facts = _facts(row)
    return bool(facts and facts.image_size and facts.image_size <= 64)


def _facts(row: Mapping[str, str]) -> ModelFacts | None:
    """Of the network below the objective; None where nobody knows it, which is told where the step is read."""
    try:
        return model_of({**row, "model": objective_of(row)[1]})[0]
    except EstimatorError:
        return None


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


@cache
def dataset_sizes() -> dict[str, float]:
    """Training samples of public data sets by folded name."""
    with (files("estimator") / "data" / "datasets.csv").open(encoding="utf-8") as lines:
        return {_folded(row["dataset"]): float(row["samples"]) for row in csv.DictReader(lines)}


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def loader_rate(row: Row, decode_ms: float) -> float:
    """Images a second that the hosts' cores augment for self-supervised training; infinite for any other."""
    if row.objective is None or not decode_ms > 0.0:
        return math.inf
    return row.gpus * LOADER_CORES / (decode_ms * 1e-3)
