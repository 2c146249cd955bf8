"""How much memory does each CSV row take, as the account says and as its own laboratory would print it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estimator.architectures import work_of
from estimator.architectures.inventories import find
from estimator.layout import Layout
from estimator.memory import DEFAULT, GIB, Z80, MemoryAccount, MemoryConstants, Stack, account, stacks_of
from estimator.rows.arrays import Prepared, attention_of, seq_len_of
from estimator.rows.cells import Row
from estimator.rows.habits import SINGLE_WITHOUT_BF16, widened
from estimator.terms import Method, Optimizer, Precision, Recompute, Sharding
from estimator.work import Work, broadcast

Array = NDArray[np.float64]

LONGEST_OVER_MEAN = 2.0
"""Longest sample of a micro-batch over the mean, where a fine-tuning row states no length: padding and spread."""

WITHOUT_LOGITS = ("text-classification", "text-embedding", "retrieval", "reranking", "rl-trainer")
"""Tasks of language models that never hold all logits: none are computed, or their log-probabilities in chunks."""

SENTENCE_TOKENS = 50.0
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


KNOWN_LABORATORY = 0.8
"""Standard deviation where the laboratory's own memories were heard, over that of an unseen laboratory."""

GUESSED_LENGTH = 2.5
"""Standard deviation where the longest sample is a guess, over that of a stated one."""


@dataclass(frozen=True, slots=True)
class RowMemory:
    """Memory of m rows, GiB per GPU; NaN where the batch or the activations of the model are not known."""

    account: MemoryAccount  # everything a GPU holds: what decides whether it fits
    stated: Array  # what the row's laboratory would print (torch meters leave out the CUDA context)
    capacity: Array  # what software can allocate; NaN where unknown
    half: Array  # of the 80% interval around `stated`, GiB


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
    doubt: Array  # standard deviation over that of a row that says how long its longest sample is

    def account(self, constants: MemoryConstants = DEFAULT) -> MemoryAccount:
        """What each row's laboratory would print, by component."""
        found = account(
            self.work,
            self.layout,
            method=self.method,
            precision=self.precision,
            optimizer=self.optimizer,
            attention=self.attention,
            stack=self.stack,
            constants=constants,
        )
        # Programs that read the whole checkpoint on every GPU before sharding it may never need as much again
        sharded = (np.asarray(self.layout.sharding) >= Sharding.ZERO3) * np.asarray(self.stack.loads_whole)
        weights = 2.0 * np.asarray(self.work.params, float) / GIB  # 16 bit
        peak = weights * (1.0 + 1.0 / np.asarray(self.layout.gpus, float)) + found.framework
        return replace(found, buffers=found.buffers + np.maximum(sharded * peak - found.used, 0.0))


def row_memory(prepared: Prepared, *, offload: Array | float = 0.0, constants: MemoryConstants = DEFAULT) -> RowMemory:
    """The account of every usable row, with the habits of its program; `offload`: 1 where states live in the host."""
    return complete(question(prepared, offload=offload), constants)


def complete(asked: Question, constants: MemoryConstants = DEFAULT) -> RowMemory:
    """The account with what the laboratory's own meter counts, and with all that a GPU holds."""
    found = asked.account(constants)
    gpus = np.asarray(asked.layout.gpus, float)
    unseen = constants.context_gib + np.where(gpus > 1, constants.nccl_gib, 0.0)
    everything = replace(found, framework=found.framework + unseen * (1 - np.asarray(asked.stack.counted)))
    everything = replace(everything, sigma=everything.sigma * asked.doubt)
    return RowMemory(everything, stated=found.used, capacity=asked.capacity, half=Z80 * everything.sigma)


def question(prepared: Prepared, *, offload: Array | float = 0.0, known_lab: bool = True) -> Question:
    """The rows as a question; without `known_lab`, habits that only the laboratory's name gives away are not used.

    Activations that rest on nothing but a size are left out (0: unknown); `memory_neighbours` may fill them.
    """
    rows = prepared.rows
    stack = stacks_of(
        [row.lab if known_lab else "" for row in rows], [row.framework for row in rows], [row.tuned for row in rows]
    )
    return Question(
        work=_longest(prepared.work, rows, stack),
        layout=_layout(prepared, offload, stack),
        method=[method_of(row) for row in rows],
        precision=[precision_of(row) for row in rows],
        optimizer=[optimizer_of(row) for row in rows],
        attention=[_attention(row) for row in rows],
        stack=stack,
        capacity=np.array([row.gpu.usable_gib or math.nan for row in rows], float),
        doubt=np.array([GUESSED_LENGTH if length_guessed(row) else 1.0 for row in rows], float),
    )


def length_guessed(row: Row) -> bool:
    """Whether samples have a length and the row states neither it nor the longest."""
    language = row.language or is_shapeless_language(row)
    return language and math.isnan(row.seq_len) and math.isnan(row.longest_sample)


def precision_of(row: Row) -> Precision:
    """The request's precision that a row's format means; `bf16` and `amp-bf16` are both mixed."""
    if widened(row):
        return Precision.FP32
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


def _layout(prepared: Prepared, offload: Array | float, stack: Stack) -> Layout:
    """The rows' layouts; blank recomputation is none where tuned, full in unsloth; an unknown batch stays unknown."""
    rows, layout = prepared.rows, prepared.layout
    none = np.array([row.tuned and not row.act_ckpt for row in rows], bool)
    full = np.array(["unsloth" in row.framework and not row.act_ckpt for row in rows], bool)
    unknown = np.array([math.isnan(row.micro_batch) and math.isnan(row.global_batch) for row in rows], bool)
    shared = (np.asarray(stack.shards_optimizer) > 0) & (np.asarray(layout.data) > 1)
    # FSDP shards over data and context parallelism together, so also where every GPU has a part of one sample
    fully = np.array([row.fully_sharded for row in rows], bool) & (np.asarray(layout.context) > 1)
    return replace(
        layout,
        sharding=np.select(
            [fully, shared], [int(Sharding.ZERO3), np.maximum(layout.sharding, int(Sharding.ZERO1))], layout.sharding
        ),
        recompute=np.select([none, full], [int(Recompute.NONE), int(Recompute.FULL)], layout.recompute),
        micro_batch=np.where(unknown, np.nan, layout.micro_batch),
        offload=np.broadcast_to(np.asarray(offload, np.int64), (len(rows),)),
    )


def _attention(row: Row) -> str:
    """The row's attention; unsloth brings a fused kernel for cards that PyTorch has none for, save for Gemma 3."""
    if "unsloth" in row.framework:
        return "eager" if row.model.name.startswith(SINGLE_WITHOUT_BF16) else "flash"
    return attention_of(row)


def is_shapeless_language(row: Row) -> bool:
    """A language model of which only the size is known: the usual shape of its size stands in for its own."""
    language = row.method in (Method.LORA, Method.QLORA) or "llm" in row.task or "vlm" in row.task
    return row.model.kind == "profiled" and bool(row.model.params_m) and language


def rests_on_size(row: Row) -> bool:
    """Nothing tells what a sample of this model keeps, so measured memory has to."""
    return row.model.kind == "profiled" and not is_shapeless_language(row) and find(row.model.name) is None


def _has_logits(row: Row) -> bool:
    """Whether the loss of a row works on logits over the vocabulary; fine-tuned encoders answer or classify instead."""
    answers = row.model.kind == "encoder" and row.method is not Method.PRETRAIN
    return not answers and not any(task in row.task for task in WITHOUT_LOGITS)


def _longest(work: Work, rows: Sequence[Row], stack: Stack) -> Work:
    """The work of the longest sample (where memory peaks), with the program's adapter rank; no logits without head."""
    shapeless = [i for i, row in enumerate(rows) if is_shapeless_language(row)]
    if shapeless:
        work = _reshaped(work, rows, shapeless)
    few = np.broadcast_to(np.asarray(stack.adapts_attention, float), (len(rows),)) > 0
    kept = np.array([_kept_share(row) if few[i] else 1.0 for i, row in enumerate(rows)], float)
    peak = np.broadcast_to(np.asarray(stack.peak_tokens, float), (len(rows),))
    rank = np.broadcast_to(np.asarray(stack.lora_rank, float), (len(rows),))
    stretch = np.ones(len(rows))
    for i, row in enumerate(rows):
        language = row.language or is_shapeless_language(row)
        if language and row.longest_sample > 0:
            stretch[i] = row.longest_sample / seq_len_of(row)
        elif language and math.isnan(row.seq_len) and row.method is not Method.PRETRAIN:
            usual = SENTENCE_TOKENS if "embedding" in row.task else peak[i]
            stretch[i] = LONGEST_OVER_MEAN if math.isnan(usual) else usual / seq_len_of(row)
    adapters = np.array([row.method in (Method.LORA, Method.QLORA) for row in rows], bool)
    trained = np.asarray(work.trainable_params, float)
    ranked = np.where(adapters & ~np.isnan(rank), trained * rank / 16.0, trained)
    counted = np.array([not rests_on_size(row) for row in rows], float)
    logits = np.array([_has_logits(row) for row in rows], float)
    return replace(
        work,
        trainable_params=ranked,
        stored_values=work.stored_values * stretch * counted * kept,
        stored_values_selective=work.stored_values_selective * stretch,
        stored_values_full=work.stored_values_full * stretch,
        score_values=work.score_values * stretch**2,
        layer_values=work.layer_values * stretch * kept,
        logits_values=work.logits_values * stretch * logits,
    )


def _kept_share(row: Row) -> float:
    """Values kept with adapters on queries and values, over those with adapters on every matrix; 1 without adapters."""
    if row.method not in (Method.LORA, Method.QLORA) or not row.language:
        return 1.0
    few, every = (work_of(row.model, method=row.method, lora_targets=targets) for targets in ("qv", "all-linear"))
    return float(few.stored_values) / float(every.stored_values)


def _reshaped(work: Work, rows: Sequence[Row], index: list[int]) -> Work:
    """The same works with the rows of `index` as transformers of the usual shape of their size."""
    columns = broadcast(work, len(rows))
    table = {name: column.copy() for name, column in columns.items()}
    for i in index:
        facts = replace(rows[i].model, kind="size-only")
        shaped = work_of(facts, seq_len=seq_len_of(rows[i]), method=rows[i].method)
        for name, column in table.items():
            column[i] = getattr(shaped, name)
    return Work(**table)
