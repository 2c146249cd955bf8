"""DeepSpeed JSON: batches, ZeRO stage, offload, precision and optimizer. It names no model and no length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks_db.errors import WorkloadError
from estimator.request.quantities import parse_bool, parse_count
from estimator.request.trainers.reading import Load, Reading, Translated, no_effect, optimizer_of, put_batches

SIGNS = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size")


def is_config(config: Mapping[str, Any]) -> bool:
    """Has it keys that only DeepSpeed configs have?"""
    return any(key in config for key in SIGNS) and "model" not in config


def read(config: Mapping[str, Any], load: Load, gpus: int = 1) -> Translated:
    """The request that a DeepSpeed config makes."""
    reading = Reading(config, gpus=gpus)
    micro = reading.number("train_micro_batch_size_per_gpu")
    accumulation = reading.number("gradient_accumulation_steps")
    whole = reading.number("train_batch_size")
    put_batches(reading, micro, accumulation, None)
    if whole is not None:  # of all GPUs, so nothing has to be assumed
        reading.put("global_batch", int(whole))
        reading.notes.clear()
    _zero(reading, reading.take("zero_optimization") or {})
    for key, precision in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        section = reading.take(key)
        enabled = section.get("enabled") if isinstance(section, Mapping) else None
        if enabled not in (None, "auto") and parse_bool(enabled, field=f"{key}.enabled"):
            reading.put("precision", precision)
    optimizer = reading.take("optimizer")
    if isinstance(optimizer, Mapping):
        reading.put("optimizer", optimizer_of(optimizer.get("type"), reading, "optimizer"))
    if reading.take("activation_checkpointing"):
        reading.put("activation_checkpointing", "full")
    tensor = reading.take("tensor_parallel")
    if isinstance(tensor, Mapping) and tensor.get("autotp_size"):
        reading.put("tensor_parallel", tensor["autotp_size"])
    for key in ("pipeline", "compression_training", "sparse_attention", "aio", "autotuning", "data_types"):
        if reading.take(key):
            reading.cannot(key, "has no place in a request")
    reading.without_effect(no_effect("deepspeed"))
    return reading.done("DeepSpeed")


def _zero(reading: Reading, zero: object) -> None:
    if not isinstance(zero, Mapping):
        raise WorkloadError("is a mapping with a stage", field="zero_optimization", value=zero, nearest=("{stage: 3}",))
    stage = zero.get("stage")
    if stage not in (None, "auto"):
        number = parse_count(stage, field="zero_optimization.stage")
        if number not in (0, 1, 2, 3):
            raise WorkloadError(
                f"there is no stage {stage!r}",
                field="zero_optimization.stage",
                value=stage,
                nearest=("0", "1", "2", "3"),
            )
        reading.put("sharding", f"zero{number:g}" if number else "ddp")
    for key in ("offload_optimizer", "offload_param"):
        part = zero.get(key)
        device = str(part.get("device", "none")) if isinstance(part, Mapping) else "none"
        if device == "cpu" and key == "offload_optimizer":
            reading.put("cpu_offload", True)
        elif device not in ("none", "auto"):
            reading.cannot(f"zero_optimization.{key}", f"offload to {device}")
