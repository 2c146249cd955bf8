"""How much memory does each CSV row take, as the account says and as its own laboratory would print it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from estimator.layout import Layout
from estimator.memory import DEFAULT, MemoryAccount, MemoryConstants, Stack, account, stacks_of
from estimator.row_cells import Row
from estimator.rows import Prepared, attention_of, prepare, seq_len_of
from estimator.terms import Method, Optimizer, Precision, Recompute
from estimator.work import Work

Array = NDArray[np.float64]

LONGEST_OVER_MEAN = 2.0
"""Longest sample of a micro-batch over the mean, where a fine-tuning row states no length: padding and spread."""

WITHOUT_LOGITS = ("text-classification", "text-embedding", "retrieval", "reranking", "rl-trainer")
"""Tasks of language models that never hold all logits: none are computed, or their log-probabilities in chunks."""

SENTENCE_TOKENS = 100.0
"""Tokens of a sample of text embedding, where a row states no length: sentence pairs."""

_FORMATS = {
    "fp64": Precision.FP64,
    "fp32": Precision.FP32,
    "tf32": Precision.TF32,
    "fp16": Precision.FP16,
    "fp8": Precision.FP8,
    "mxfp8": Precision.FP8,
    "nvfp4": Precision.FP8,
    "int8": Precision.FP8,
}


@dataclass(frozen=True, slots=True)
class RowMemory:
    """Memory of m rows, GiB per GPU; NaN where the batch or the activations of the model are not known."""

    account: MemoryAccount  # everything a GPU holds: what decides whether it fits
    stated: Array  # what the row's laboratory would print (torch meters leave out the CUDA context)
    capacity: Array  # what software can allocate; NaN where unknown


@dataclass(frozen=True, slots=True)
class Question:
    """m rows as the memory account wants them: everything but its constants."""

    work: Work
    layout: Layout
    method: list[Method]
    precision: list[Precision]
    optimizer: list[Optimizer]
    attention: list[str]
    stack: Stack
    capacity: Array

    def account(self, constants: MemoryConstants = DEFAULT) -> MemoryAccount:
        """What each row's laboratory would print, by component."""
        return account(
            self.work,
            self.layout,
            method=self.method,
            precision=self.precision,
            optimizer=self.optimizer,
            attention=self.attention,
            stack=self.stack,
            constants=constants,
        )


def row_memory(prepared: Prepared, *, offload: Array | float = 0.0, constants: MemoryConstants = DEFAULT) -> RowMemory:
    """The account of every usable row, with the habits of its program; `offload`: 1 where states live in the host."""
    asked = question(prepared, offload=offload)
    found = asked.account(constants)
    gpus = np.asarray(prepared.layout.gpus, float)
    unseen = constants.context_gib + np.where(gpus > 1, constants.nccl_gib, 0.0)
    complete = replace(found, framework=found.framework + unseen * (1 - np.asarray(asked.stack.counted)))
    return RowMemory(account=complete, stated=found.used, capacity=asked.capacity)


def question(prepared: Prepared, *, offload: Array | float = 0.0, known_lab: bool = True) -> Question:
    """The rows as a question; without `known_lab`, habits that only the laboratory's name gives away are not used."""
    rows = prepared.rows
    stack = stacks_of([row.lab if known_lab else "" for row in rows], [row.framework for row in rows])
    return Question(
        work=_longest(prepared.work, rows, stack),
        layout=_layout(prepared, offload),
        method=[method_of(row) for row in rows],
        precision=[precision_of(row) for row in rows],
        optimizer=[optimizer_of(row) for row in rows],
        attention=[_attention(row) for row in rows],
        stack=stack,
        capacity=np.array([row.gpu.usable_gib or math.nan for row in rows], float),
    )


def precision_of(row: Row) -> Precision:
    """The request's precision that a row's format means; `bf16` and `amp-bf16` are both mixed."""
    return _FORMATS.get(row.format.removeprefix("amp-"), Precision.BF16)


def optimizer_of(row: Row) -> Optimizer:
    """The optimizer a row names; unsloth's notebooks use 8-bit AdamW, images are trained with momentum SGD."""
    name = row.optimizer.replace("-", "").replace("_", "")
    if "8bit" in name or "4bit" in name or (not name and "unsloth" in row.framework):
        return Optimizer.ADAMW_8BIT
    if "adafactor" in name:
        return Optimizer.ADAFACTOR
    if "lion" in name:
        return Optimizer.LION
    if "sgd" in name or "momentum" in name or (not name and not row.language):
        return Optimizer.SGD
    return Optimizer.ADAMW


def method_of(row: Row) -> Method:
    """The row's method; adapters on any 4-bit base (GPTQ as well as nf4) count as QLoRA."""
    return Method.QLORA if "gptq" in row.peft or row.peft.startswith("q") else row.method


def _layout(prepared: Prepared, offload: Array | float) -> Layout:
    """The rows' layouts; tuned rows that state no recomputation use none, unknown batches make the account unknown."""
    rows, layout = prepared.rows, prepared.layout
    none = np.array([row.tuned and not row.act_ckpt for row in rows], bool)
    unknown = np.array([math.isnan(row.micro_batch) and math.isnan(row.global_batch) for row in rows], bool)
    return replace(
        layout,
        recompute=np.where(none, int(Recompute.NONE), layout.recompute),
        micro_batch=np.where(unknown, np.nan, layout.micro_batch),
        offload=np.broadcast_to(np.asarray(offload, np.int64), (len(rows),)),
    )


def _attention(row: Row) -> str:
    """The row's attention; unsloth brings a fused kernel for cards that PyTorch has none for."""
    return "flash" if "unsloth" in row.framework else attention_of(row)


def _longest(work: Work, rows: Sequence[Row], stack: Stack) -> Work:
    """The work of the longest sample (where memory peaks), with the program's adapter rank; no logits without head."""
    peak = np.broadcast_to(np.asarray(stack.peak_tokens, float), (len(rows),))
    rank = np.broadcast_to(np.asarray(stack.lora_rank, float), (len(rows),))
    stretch = np.ones(len(rows))
    for i, row in enumerate(rows):
        if row.language and math.isnan(row.seq_len) and row.method is not Method.PRETRAIN:
            usual = SENTENCE_TOKENS if "embedding" in row.task else peak[i]
            stretch[i] = LONGEST_OVER_MEAN if math.isnan(usual) else usual / seq_len_of(row)
    adapters = np.array([row.method in (Method.LORA, Method.QLORA) for row in rows], bool)
    trained = np.asarray(work.trainable_params, float)
    ranked = np.where(adapters & ~np.isnan(rank), trained * rank / 16.0, trained)
    logits = np.array([not any(task in row.task for task in WITHOUT_LOGITS) for row in rows], float)
    return replace(
        work,
        params=np.asarray(work.params, float) + ranked - trained,
        trainable_params=ranked,
        stored_values=work.stored_values * stretch,
        stored_values_selective=work.stored_values_selective * stretch,
        stored_values_full=work.stored_values_full * stretch,
        score_values=work.score_values * stretch**2,
        layer_values=work.layer_values * stretch,
        logits_values=work.logits_values * stretch * logits,
    )


# Correction by measurements nearby


@dataclass(frozen=True, slots=True)
class Features:
    """What makes two rows alike, arrays of shape (m,)."""

    lab: NDArray[np.str_]
    names: NDArray[np.str_]  # (m, k): model, adapters, framework, format, GPU
    figures: Array  # (m, 4): recomputation, sharding, log tokens of a micro-batch, log parameters
    group: NDArray[np.str_]  # laboratory, model, GPU and adapters: what counts as one independent measurement


NAME_WEIGHTS = np.array([0.7, 1.0, 0.7, 0.3, 0.2])
FIGURE_WEIGHTS = np.array([0.7, 0.5, 0.4, 0.4])
REACH = 0.5
"""Distance over which the say of a measurement falls by e."""
DOUBT = 0.1
"""Weight of "no correction" against a measurement at distance 0, for a laboratory whose residuals agree."""
AGREEMENT = 0.1
"""Median deviation of a laboratory's log residuals from their median at which that doubt doubles (as its square)."""
LARGEST_CORRECTION = 1.5
"""Log residual beyond which a measurement says no more (its row is misread or its habits are unknown)."""


def features_of(prepared: Prepared) -> Features:
    """The features of rows; figures beyond 3 units apart count as 3."""
    rows = prepared.rows
    lab = np.array([row.lab.split(":")[0] for row in rows], str)
    names = np.array(
        [[row.model.name, row.peft, row.framework, row.format, row.gpu.name] for row in rows], str
    ).reshape(len(rows), len(NAME_WEIGHTS))
    layout = prepared.layout
    tokens = np.asarray(layout.micro_batch, float) * np.asarray(prepared.work.tokens, float)
    figures = np.stack(
        [
            np.minimum(np.asarray(layout.recompute, float), 1.0),
            np.minimum(np.asarray(layout.sharding, float), 1.0),
            np.log(tokens),
            np.log(np.asarray(prepared.work.params, float)),
        ],
        axis=1,
    )
    group = np.array([f"{a}|{n[0]}|{n[4]}|{n[1]}" for a, n in zip(lab, names, strict=True)], str)
    return Features(lab, names, figures, group)


def correction(
    asked: Features, known: Features, residual: Array, *, leave_out_group: bool = False, chunk: int = 512
) -> Array:
    """Log factor by which the account is off near each asked row, shape (m,): to be subtracted from its log.

    `residual`: log(account / measured) of the `known` rows. Only rows of the same laboratory have a say, the nearer the
    more; a group counts by the square root of its rows; far from everything the correction fades to 0.
    """
    shift = np.zeros(len(asked.lab))
    size = np.unique(known.group, return_inverse=True)
    weight = 1.0 / np.sqrt(np.bincount(size[1])[size[1]])
    held = np.clip(residual, -LARGEST_CORRECTION, LARGEST_CORRECTION)
    for lab in np.unique(asked.lab):
        theirs = np.nonzero((known.lab == lab) & np.isfinite(residual))[0]
        if len(theirs) == 0:
            continue
        scatter = np.median(np.abs(held[theirs] - np.median(held[theirs])))
        doubt = DOUBT * (1 + (scatter / AGREEMENT) ** 2)
        mine = np.nonzero(asked.lab == lab)[0]
        for start in range(0, len(mine), chunk):
            part = mine[start : start + chunk]
            differ = asked.names[part][:, None, :] != known.names[theirs][None, :, :]
            apart = np.minimum(np.abs(asked.figures[part][:, None, :] - known.figures[theirs][None, :, :]), 3.0)
            distance = differ @ NAME_WEIGHTS + np.nan_to_num(apart, nan=3.0) @ FIGURE_WEIGHTS
            say = np.exp(-distance / REACH) * weight[theirs]
            if leave_out_group:
                say = say * (asked.group[part][:, None] != known.group[theirs][None, :])
            shift[part] = say @ held[theirs] / (say.sum(axis=1) + doubt)
    return shift


@cache
def measured() -> tuple[Prepared, Array]:
    """The shipped measurements that state memory: prepared, and the GiB per GPU stated; read once."""
    from benchmarks_db.measurements import load

    table = load()
    stated = np.asarray(table["mem_gib_per_gpu"], float)
    index = np.nonzero(stated > 0)[0]
    prepared = prepare(table.rows(index))
    return prepared, stated[index][prepared.index]


def corrected_memory(prepared: Prepared) -> RowMemory:
    """`row_memory`, drawn towards what the same laboratory measured on like rows."""
    plain = row_memory(prepared)
    known, stated = measured()
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = np.log(row_memory(known).stated / stated)
    factor = np.exp(-correction(features_of(prepared), features_of(known), residual))
    return RowMemory(account=plain.account.scaled(factor), stated=plain.stated * factor, capacity=plain.capacity)
