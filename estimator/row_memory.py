"""How much memory does each CSV row take, as the account says and as its own laboratory would print it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.memory import DEFAULT, MemoryAccount, MemoryConstants, Stack, account, stacks_of
from estimator.row_cells import Row
from estimator.rows import Prepared, attention_of, seq_len_of
from estimator.terms import Method, Optimizer, Precision
from estimator.work import Work

Array = NDArray[np.float64]

LONGEST_OVER_MEAN = 2.0
"""Longest sample of a micro-batch over the mean, where a fine-tuning row states no length: padding and spread."""

WITHOUT_LOGITS = ("text-classification", "text-embedding", "retrieval", "reranking")
"""Tasks of language models that never project onto the vocabulary."""

SENTENCE_TOKENS = 100.0
"""Tokens of a sample of text embedding, where a row states no length: sentence pairs."""

_FORMATS = {
    "fp64": Precision.FP64,
    "fp32": Precision.FP32,
    "tf32": Precision.TF32,
    "fp16": Precision.FP16,
    "fp8": Precision.FP8,
}


@dataclass(frozen=True, slots=True)
class RowMemory:
    """Memory of m rows, GiB per GPU."""

    account: MemoryAccount  # everything a GPU holds: what decides whether it fits
    stated: Array  # what the row's laboratory would print (torch meters leave out the CUDA context)
    capacity: Array  # what software can allocate; NaN where unknown


def row_memory(prepared: Prepared, *, constants: MemoryConstants = DEFAULT) -> RowMemory:
    """The account of every usable row, with the habits of its training program."""
    rows = prepared.rows
    stack = stacks_of([row.lab for row in rows], [row.framework for row in rows])
    work = _longest(prepared.work, rows, stack)
    found = account(
        work,
        prepared.layout,
        method=[row.method for row in rows],
        precision=[precision_of(row) for row in rows],
        optimizer=[optimizer_of(row) for row in rows],
        attention=[_attention(row) for row in rows],
        stack=stack,
        constants=constants,
    )
    capacity = np.array([row.gpu.usable_gib or math.nan for row in rows], float)
    complete = account_counted(found, stack, prepared, constants)
    return RowMemory(account=complete, stated=found.used, capacity=capacity)


def account_counted(
    found: MemoryAccount, stack: Stack, prepared: Prepared, constants: MemoryConstants
) -> MemoryAccount:
    """The same account with the context and NCCL buffers that a torch meter leaves out."""
    gpus = np.asarray(prepared.layout.gpus, float)
    outside = constants.context_gib + np.where(gpus > 1, constants.nccl_gib, 0.0)
    return replace(found, framework=found.framework + outside * (1 - np.asarray(stack.counted)))


def precision_of(row: Row) -> Precision:
    """The request's precision that a row's format means; `bf16` and `amp-bf16` are both mixed."""
    name = row.format.removeprefix("amp-")
    if name in ("mxfp8", "nvfp4", "int8"):
        return Precision.FP8
    return _FORMATS.get(name, Precision.BF16)


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
