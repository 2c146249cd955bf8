"""Which training step does the row of a whole run repeat?

Blanks that a run leaves are filled by what was usual, each at its own line below: they are assumptions of a planner who
knows no more than the row says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks_db.errors import EstimatorError
from benchmarks_db.objectives import resolve_objective
from estimator.architectures import LANGUAGE_MODELS
from estimator.rows.arrays import prepare
from estimator.rows.cells import Row, figure, objective_of
from estimator.rows.memory import row_memory
from estimator.rows.run_amounts import folded
from estimator.rows.run_kinds import facts_of, generates_text, kind_of, self_supervised
from estimator.terms import Method

BASIC = (
    "source", "date", "run", "model", "params_m", "active_params_m", "task", "dataset", "tokens_b", "samples_m",
    "epochs", "gpu", "gpus", "nodes", "cloud_instance", "interconnect", "precision", "seq_len", "global_batch",
    "framework", "target", "price_basis",
)  # fmt: skip
"""Columns that every table of whole runs has.

The name of a run is read for its method alone: adapters, objective, whether it is compiled."""

READS = (*BASIC, "micro_batch", "image_size", "memory_format", "act_ckpt", "peft", "compiled", "objective")
"""Columns that a prediction may read."""

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

FINE_TUNED_TOGETHER = 2.0
"""Micro-batch of a language model's fine-tuning that states neither it nor the length of its samples.

The median of the measured steps of that kind (a tenth 1, nine tenths up to 4): memory has to hold the longest sample.
It is less where a GPU's share of the batch is."""

TOGETHER = {"recommendation": 8192.0, "graph": 2560.0, "speech": 40.0, "object-detection": 8.0, "diffusion": 6.0,
            "segmentation": 2.0}  # fmt: skip
"""Micro-batch of tasks whose samples are far from pictures of 224 pixels, where no batch is stated.

Medians of the measured steps of each task, a source's model counting once."""

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

_TRACES = re.compile(r"\btraces?\b", re.IGNORECASE)
_ADAPTERS = re.compile(r"(?<![a-z])(q?lora|dora|rslora)(?![a-z])", re.IGNORECASE)
_COMPILED = re.compile(r"(?<![a-z])torch[._ ]?compiled?(?![a-z])", re.IGNORECASE)
_QUANTISED = (("nf4", "qlora"), ("int4", "qlora"), ("4bit", "qlora"), ("4-bit", "qlora"), ("int8+", "lora"))

_STEP_COLUMNS = (
    "source", "date", "model", "params_m", "active_params_m", "task", "gpu", "gpus", "nodes", "interconnect", "seq_len",
    "global_batch", "framework", "memory_format",
)  # fmt: skip


def step_row(row: Mapping[str, str], unit: str) -> dict[str, str]:
    """The row of one training step of the run, in `unit`, of the whole job."""
    step = {name: row[name] for name in _STEP_COLUMNS} | {"unit": unit, "scope": "total"}
    step["precision"] = row["precision"] or _usual_precision(row)
    step["image_size"] = row["image_size"] or _image_size(row)
    step["micro_batch"] = row["micro_batch"] or _micro_batch(row)
    step["act_ckpt"] = row["act_ckpt"] or _recomputation(row)
    step["objective"] = objective_for(row)
    step["peft"] = row["peft"] or _adapters(row)
    step["compiled"] = row["compiled"] or ("yes" if _COMPILED.search(f"{row['run']} {row['framework']}") else "")
    if kind_of(row).startswith("fine-tuning") and generates_text(row):
        step["task"] = "llm-finetune"  # however the source calls it
    if not row["seq_len"] and _TRACES.search(row["dataset"]):
        step["seq_len"] = REASONING_TOKENS
    if not figure(row, "gpus") > 0:
        step["gpus"] = f"{GPUS_WHERE_UNSTATED:g}"
    return step


def anonymous(step: Mapping[str, str]) -> dict[str, str]:
    """The same step by somebody whose measurements nobody has; how well its software is tuned stays known."""
    stack = step.get("stack") or ("tuned" if "mlcommons/" in step["source"].casefold() else "plain")
    return {**step, "source": "", "stack": stack}


def objective_for(row: Mapping[str, str]) -> str:
    """Stated, in front of the model's name or the run's; else, of a self-supervised task, two views (SimCLR)."""
    try:
        objective, _ = objective_of(row)
    except EstimatorError:
        return row["objective"]  # refused where the step is read
    if objective:
        return objective.name
    if row["objective"] or not self_supervised(row["task"]):
        return ""
    words = row["run"].split()
    for name in (" ".join(words[:2]), *words[:1]):
        try:
            return resolve_objective(name).name
        except EstimatorError:
            continue
    return "simclr"


def _adapters(row: Mapping[str, str]) -> str:
    """Adapters that the name of the run, its software or its source's file names; `lora` and `qlora`, else open.

    MLPerf's `llama2_70b_lora` is one; weights that are stored in 4 or 8 bits get no gradients of their own.
    """
    told = " ".join((row["run"], row["framework"], row["source"].rsplit("/", 1)[-1]))
    if found := _ADAPTERS.search(told):
        return "qlora" if found[1].casefold() == "qlora" else "lora"
    stored = row["precision"].casefold()
    return next((method for word, method in _QUANTISED if word in stored), "")


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
    facts = facts_of(row)
    gpus, batch, nodes = (figure(row, name) for name in ("gpus", "global_batch", "nodes"))
    if facts is None or facts.kind in LANGUAGE_MODELS:
        share = batch / gpus if batch > 0 or gpus != 1.0 else math.inf
        told = row["seq_len"] or math.isnan(share) or _TRACES.search(row["dataset"])
        return "" if told or not kind_of(row).startswith("fine-tuning") else f"{min(FINE_TUNED_TOGETHER, share):g}"
    gpus = gpus if gpus >= 1 else GPUS_WHERE_UNSTATED
    if batch > 0:
        return f"{batch / gpus:g}" if batch >= gpus else ""
    if usual := TOGETHER.get(row["task"].casefold() or facts.task):
        return f"{usual:g}"
    return f"{PICTURES_A_GPU:g}" if facts.kind == "vision" and (nodes > 1 or gpus > GPUS_WHERE_UNSTATED) else ""


def _recomputation(row: Mapping[str, str]) -> str:
    """`full` of what was recomputed in its day; else open."""
    early = "" < row["date"] < RECOMPUTED_BEFORE
    return "full" if early and "pretrain" in row["task"].casefold() and figure(row, "params_m") >= RECOMPUTED_M else ""


def _image_size(row: Mapping[str, str]) -> str:
    """Pixels on a side where the data set says so or the schedule is known to grow; else the model's own."""
    dataset = row["dataset"]
    if stated := re.search(r"\bat (\d{2,4}) ?px", dataset):
        return stated[1]
    if folded(dataset).startswith("cifar"):
        return "" if _made_for_small(row) else CIFAR_AS
    tuned = "mlcommons/" in row["source"].casefold() or row["target"].casefold().startswith("mlperf")
    short = figure(row, "epochs") < PROGRESSIVE_EPOCHS and not tuned
    accurate = re.search(r"\d ?% top-[15]\b", row["target"], re.IGNORECASE)
    return PROGRESSIVE_PIXELS if short and accurate and folded(dataset).startswith("imagenet1k") else ""


def _made_for_small(row: Mapping[str, str]) -> bool:
    """A network whose own pictures are small (ResNet-164 of CIFAR), which needs no other size."""
    facts = facts_of(row)
    return bool(facts and facts.image_size and facts.image_size <= 64)


def loader_rate(row: Row, decode_ms: float) -> float:
    """Images a second that the hosts' cores augment for self-supervised training; infinite for any other."""
    if row.objective is None or not decode_ms > 0.0:
        return math.inf
    return row.gpus * LOADER_CORES / (decode_ms * 1e-3)
