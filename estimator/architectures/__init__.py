"""How much work is a sample of this model? One room a family, one function each; `work_of` finds the room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks_db.errors import WorkloadError
from estimator.terms import Method
from estimator.work import Work

if TYPE_CHECKING:
    from benchmarks_db.models import ModelFacts

TRANSFORMERS = ("decoder", "moe", "encoder", "encoder-decoder", "size-only")

LANGUAGE_MODELS = ("decoder", "moe", "size-only")
"""Kinds that the constants of the `language` family describe; all others belong to `classic`."""


def work_of(
    facts: ModelFacts,
    *,
    seq_len: float | None = None,
    image_size: float | None = None,
    method: Method = Method.PRETRAIN,
    lora_rank: float = 16,
    lora_targets: str = "all-linear",
    attention: str = "flash",
    memory_format: str = "",
    compiled: bool = False,
    profiles: bool = True,
) -> Work:
    """Work of one sample, by `facts.kind`; WorkloadError when the facts do not suffice.

    `profiles`: multiply the work of models outside the language-model family by what their measurements tell
    (`profiled.shipped`); False gives the work before any measurement was looked at.
    """
    if facts.kind == "profiled":
        from estimator.architectures import profiled

        build = profiled.work if profiles else profiled.rough
        return build(facts, seq_len=seq_len, image_size=image_size)
    if facts.kind == "vision" or (facts.kind == "encoder" and facts.image_size):
        from estimator.architectures import vision

        how: dict[str, Any] = {"memory_format": memory_format} if memory_format else {}
        how |= {"compiled": compiled} if compiled else {}
        base = vision.work(facts, image_size=image_size, **how)
    elif facts.kind in TRANSFORMERS:
        from estimator.architectures import transformer

        base = transformer.work(
            facts,
            seq_len=seq_len,
            method=method,
            lora_rank=lora_rank,
            lora_targets=lora_targets,
            attention=attention,
        )
        if facts.kind in LANGUAGE_MODELS:
            return base
    else:
        raise WorkloadError(f"no work formula for a model of kind {facts.kind!r}", field="model", value=facts.name)
    if profiles:
        from estimator.architectures import profiled

        if factors := profiled.shipped().get(profiled.key(facts, method)):
            return profiled.apply(base, np.array(factors))
    return base
