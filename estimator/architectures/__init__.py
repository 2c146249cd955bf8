"""How much work is a sample of this model? One room a family, one function each; `work_of` finds the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks_db.errors import WorkloadError
from estimator.terms import Method
from estimator.work import Work

if TYPE_CHECKING:
    from benchmarks_db.models import ModelFacts

TRANSFORMERS = ("decoder", "moe", "encoder", "encoder-decoder", "size-only")


def work_of(
    facts: ModelFacts,
    *,
    seq_len: float | None = None,
    image_size: float | None = None,
    method: Method = Method.PRETRAIN,
    lora_rank: float = 16,
    lora_targets: str = "all-linear",
    attention: str = "flash",
) -> Work:
    """Work of one sample, by `facts.kind`; WorkloadError when the facts do not suffice."""
    if facts.kind in TRANSFORMERS and not (facts.kind == "encoder" and facts.image_size):
        from estimator.architectures import transformer

        return transformer.work(
            facts,
            seq_len=seq_len,
            method=method,
            lora_rank=lora_rank,
            lora_targets=lora_targets,
            attention=attention,
        )
    if facts.kind == "vision" or (facts.kind == "encoder" and facts.image_size):
        from estimator.architectures import vision  # type: ignore[attr-defined, unused-ignore]

        return vision.work(facts, image_size=image_size)  # type: ignore[no-any-return, unused-ignore]
    if facts.kind == "profiled":
        from estimator.architectures import profiled  # type: ignore[attr-defined, unused-ignore]

        return profiled.work(facts)  # type: ignore[no-any-return, unused-ignore]
    raise WorkloadError(f"no work formula for a model of kind {facts.kind!r}", field="model", value=facts.name)
