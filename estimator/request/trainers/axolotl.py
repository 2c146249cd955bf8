"""axolotl YAML: model, adapter, length, packing, batches, precision, sharding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.request.trainers.hf_arguments import put_fsdp
from estimator.request.trainers.llama_factory import targets_of
from estimator.request.trainers.reading import (
    Load,
    Reading,
    Translated,
    no_effect,
    optimizer_of,
    put_batches,
    put_deepspeed,
    put_precision,
)


def is_config(config: Mapping[str, Any]) -> bool:
    """Has it the key that only axolotl configs have?"""
    return "base_model" in config and "model" not in config


def read(config: Mapping[str, Any], load: Load, gpus: int = 1) -> Translated:
    """The request that an axolotl config makes."""
    reading = Reading(config, gpus=gpus)
    reading.put("model", reading.take("base_model"))
    _adapter(reading)
    reading.put("seq_len", reading.number("sequence_len"))
    packing = reading.flag("sample_packing")
    reading.put("packing", packing if packing is not None else None)
    reading.put("epochs", reading.number("num_epochs"))
    micro, accumulation = reading.number("micro_batch_size"), reading.number("gradient_accumulation_steps")
    whole = reading.number("batch_size")
    if whole is not None and accumulation is None and micro:
        accumulation = max(1.0, whole // micro)
    put_batches(reading, micro, accumulation, reading.number("max_steps"))
    reading.put("optimizer", optimizer_of(reading.take("optimizer"), reading, "optimizer"))
    if reading.flag("bfloat16"):
        reading.put("precision", "pure-bf16")
    else:
        put_precision(reading, bf16=_maybe(reading, "bf16"), fp16=_maybe(reading, "fp16"), tf32=reading.flag("tf32"))
    reading.without_effect(("float16", "bfloat16", "tf32"))
    checkpointing = reading.take("gradient_checkpointing")
    if checkpointing is not None:
        reading.put("activation_checkpointing", "none" if checkpointing is False else "full")
        if isinstance(checkpointing, str) and "offload" in checkpointing:
            reading.cannot("gradient_checkpointing", "activations moved to host memory are planned as recomputed")
    for key in ("flash_attention", "sdp_attention", "xformers_attention", "flex_attention"):
        if reading.flag(key):
            reading.put("attention", "flash")
    if reading.flag("eager_attention"):
        reading.put("attention", "eager")
    reading.put("compiled", _maybe(reading, "torch_compile"))
    _sharding(reading, load)
    if reading.take("rl"):
        reading.cannot("rl", "one pass of supervised training is planned, not its other models or pairs")
    for key in ("unfrozen_parameters", "plugins", "liger_*", "unsloth_*", "lora_*_kernel", "relora_*", "multipack_*"):
        _listed(reading, key)
    reading.without_effect(no_effect("axolotl"))
    return reading.done("axolotl")


def _adapter(reading: Reading) -> None:
    adapter = str(reading.take("adapter", "")).lower()
    four, eight = reading.flag("load_in_4bit"), reading.flag("load_in_8bit")
    rank, alpha = reading.number("lora_r"), reading.number("lora_alpha")
    targets, linear = reading.take("lora_target_modules"), reading.flag("lora_target_linear")
    if adapter in ("lora", "qlora", "dora"):
        reading.put("method", "qlora" if adapter == "qlora" or four or eight else "lora")
        reading.put("lora.rank", int(rank) if rank is not None else None)
        reading.put("lora.alpha", alpha)
        reading.put(
            "lora.targets",
            "all-linear" if linear or not targets else targets_of(targets, reading, "lora_target_modules"),
        )
        if adapter == "dora" or reading.flag("peft_use_dora"):
            reading.cannot("adapter" if adapter == "dora" else "peft_use_dora", "slower than LoRA")
        if eight and not four:
            reading.cannot("load_in_8bit", "8 bits are planned as 4")
    else:
        reading.put("method", "pretrain" if reading.config.get("pretraining_dataset") else "full")
        if adapter:
            reading.cannot("adapter", f"{adapter} is planned as full fine-tuning")


def _maybe(reading: Reading, key: str) -> bool | None:
    """`auto` and `full` beside true and false."""
    value = reading.take(key)
    return True if value == "full" else None if value is None else reading.flag(key)


def _sharding(reading: Reading, load: Load) -> None:
    named, fsdp = reading.take("deepspeed"), reading.take("fsdp")
    if named is not None:
        put_deepspeed(reading, named, load)
    settings = reading.config.get("fsdp_config")
    if fsdp or (isinstance(settings, Mapping) and settings):
        put_fsdp(reading, fsdp or [])
        if isinstance(settings, Mapping) and any("offload_params" in str(k) and v for k, v in settings.items()):
            reading.put("cpu_offload", True)
    for ours, key in (
        ("tensor_parallel", "tensor_parallel_size"),
        ("context_parallel", "context_parallel_size"),
        ("context_parallel", "sequence_parallel_degree"),
    ):
        reading.put(ours, reading.number(key))


def _listed(reading: Reading, pattern: str) -> None:
    head, star, tail = pattern.partition("*")
    for key in reading.config:
        if key == pattern or (star and key.startswith(head) and key.endswith(tail)):
            value = reading.take(key)
            if value not in (None, False, [], {}):
                reading.cannot(key, "its effect on speed is not known")
