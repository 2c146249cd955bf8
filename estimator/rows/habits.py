"""What does the software of a row do unless the row says otherwise? Documented habits of stacks, read off their names.

Nothing here is fitted, and no laboratory is named: a stack does the same wherever it runs.
"""

from __future__ import annotations

import math
import re

from estimator.rows.cells import Row
from estimator.terms import Method

_LEAN = (
    "surogate",
    "litgpt",
    "megatron",
    "nemo",
    "maxtext",
    "jax",
    "paxml",
    "torchtitan",
    "composer",
    "llm-foundry",
    "nanotron",
    "mlperf",
)
_FUSED = (
    "nemo",
    "megatron-core",
    "megatron-bridge",
    "maxtext",
    "jax",
    "paxml",
    "transformer-engine",
    "meta internal",
    "surogate",  # an engine in C++ and CUDA
)
_PLAIN = (
    "hf",
    "trl",
    "peft",
    "transformers",
    "lightning",
    "qlora",
    "axolotl",
    "unsloth",
    "xtuner",
    "trainer",
)
_RECOMPUTES = (
    "unsloth",  # get_peft_model(use_gradient_checkpointing="unsloth")
    "llama-factory",  # disable_gradient_checkpointing: false
    "llamafactory",
    "torchtune",  # enable_activation_checkpointing: True in every LoRA config
    "axolotl",  # gradient_checkpointing: true in every LoRA example
    "xtuner",  # use_activation_checkpointing=True
    "fsdp_qlora",  # --use_gradient_checkpointing True
    "surogate",  # recompute_block: true
)
_PREPARES = ("trl", "peft", "transformers")

SINGLE_WITHOUT_BF16 = ("gemma3", "gemma-3n", "embeddinggemma")
"""Families whose activations overflow fp16: where a card has no bf16, unsloth trains them in fp32 with eager attention.

Its notebooks print "Using float16 precision for gemma3 won't work! Using float32", "Gemma3 does not support SDPA"."""

LOOKED_UP = "2025-10"
"""Month from which bitsandbytes unpacks 4 bit without branches (0.48, end of September 2025)."""


def _adapts(row: Row) -> bool:
    return row.method in (Method.LORA, Method.QLORA)


def lean(framework: str) -> bool:
    """Software that keeps the device busy by itself: a script or library of its own around the step, no trainer."""
    return any(name in framework.casefold() for name in _LEAN)


def plain_stack(row: Row) -> bool:
    """Eager Python stack: named so, or a fine-tuning row whose framework is not known to be lean."""
    if row.tuned or lean(row.framework):
        return False
    return any(name in row.framework for name in _PLAIN) or row.method is not Method.PRETRAIN


def library_stack(row: Row) -> bool:
    """Tuned, or one of the frameworks whose layers are kernels of vendors' libraries."""
    return row.tuned or (any(name in row.framework for name in _FUSED) and "automodel" not in row.framework)


def fused_stack(row: Row) -> bool:
    """Compiled, or kernels of vendors' libraries."""
    return row.compiled or library_stack(row)


def looped_experts(row: Row) -> bool:
    """Experts of a plain stack, unless a row states their parallel degree: libraries that place experts group them too.

    Hugging Face's mixtures looped over their experts until transformers 5 (e.g. `MixtralSparseMoeBlock`).
    """
    return plain_stack(row) and math.isnan(row.expert)


def early_attention(row: Row) -> bool:
    """Fused attention before FlashAttention-2 (July 2023); Composer and llm-foundry kept its Triton form into 2024."""
    old = re.match(r"\d{4}-\d{2}$", row.date) is not None and row.date < "2023-08"
    return old or (row.date < "2024-06" and any(name in row.framework for name in ("composer", "llm-foundry")))


def early_dequantise(row: Row) -> bool:
    """4-bit kernels that branch by value; a row without a date is taken as of that time (most published ones are).

    GPTQ and AWQ scale integers, whatever their year.
    """
    return row.date < LOOKED_UP and not re.search("gptq|awq", row.peft)


def fused_adapters(row: Row) -> bool:
    """Adapters inside hand-written kernels instead of as modules beside the frozen ones (unsloth's `fast_lora`)."""
    return "unsloth" in row.framework


def recomputes(row: Row) -> bool:
    """Fine-tuning with adapters in software that recomputes activations unless told not to.

    PEFT's `prepare_model_for_kbit_training` turns it on for 4-bit bases (use_gradient_checkpointing=True).
    """
    prepared = row.method is Method.QLORA and any(name in row.framework for name in _PREPARES)
    return _adapts(row) and (prepared or any(name in row.framework for name in _RECOMPUTES))


def widened(row: Row) -> bool:
    """Whether the program computes in fp32 although the row says fp16."""
    family = row.model.name.startswith(SINGLE_WITHOUT_BF16)
    return family and "unsloth" in row.framework and row.format.endswith("fp16")


def accumulates(row: Row) -> bool:
    """Whether the stack splits a step into micro-batches as it likes: all but those of TPUs and JAX."""
    return row.gpu.kind != "tpu" and not any(name in row.framework for name in ("maxtext", "jax"))
