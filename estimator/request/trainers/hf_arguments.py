"""Hugging Face TrainingArguments: batches, epochs, precision, optimizer, sharding.

By themselves they name no model and no length; the arguments of the scripts around them (run_*.py, TRL) do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

SIGNS = ("per_device_train_batch_size", "num_train_epochs")


def is_config(config: Mapping[str, Any]) -> bool:
    """Has it keys that only TrainingArguments have?"""
    return any(key in config for key in SIGNS) and "model" not in config


def read(config: Mapping[str, Any], load: Load, gpus: int = 1) -> Translated:
    """The request that TrainingArguments make, with the arguments of a script beside them."""
    reading = Reading(config, gpus=gpus)
    _put_script(reading)
    put_arguments(reading, load)
    return reading.done("Hugging Face TrainingArguments")


def _put_script(reading: Reading) -> None:
    """Model, length, samples and adapters, as the example scripts of transformers and TRL name them."""
    reading.put("model", reading.take("model_name_or_path"))
    for key in ("max_seq_length", "max_length", "block_size", "max_seq_len", "model_max_length"):
        if reading.config.get(key) is not None:
            reading.put("seq_len", reading.number(key))
    reading.put("packing", reading.flag("packing"))
    reading.put("samples", reading.number("max_train_samples"))
    rank, alpha = reading.number("lora_r"), reading.number("lora_alpha")
    targets, four = reading.take("lora_target_modules"), reading.flag("load_in_4bit")
    if reading.flag("use_peft") or (rank is not None and reading.config.get("use_peft") is None):
        from estimator.request.trainers.llama_factory import targets_of

        reading.put("method", "qlora" if four else "lora")
        reading.put("lora.rank", int(rank) if rank is not None else None)
        reading.put("lora.alpha", alpha)
        reading.put("lora.targets", targets_of(targets, reading, "lora_target_modules") if targets else None)
    kernels = {"flash_attention_2": "flash", "flash_attention_3": "flash", "sdpa": "flash", "eager": "eager"}
    reading.put("attention", kernels.get(str(reading.take("attn_implementation"))))


def put_arguments(reading: Reading, load: Load) -> None:
    """What TrainingArguments say; LLaMA-Factory configs hold the same keys."""
    reading.put("epochs", reading.number("num_train_epochs"))
    micro, accumulation = reading.number("per_device_train_batch_size"), reading.number("gradient_accumulation_steps")
    put_batches(reading, micro, accumulation, reading.number("max_steps"))
    put_precision(reading, bf16=reading.flag("bf16"), fp16=reading.flag("fp16"), tf32=reading.flag("tf32"))
    reading.put("optimizer", optimizer_of(reading.take("optim"), reading, "optim"))
    if reading.flag("gradient_checkpointing") is not None:
        reading.put("activation_checkpointing", "full" if reading.flag("gradient_checkpointing") else "none")
    reading.put("compiled", reading.flag("torch_compile"))
    reading.without_effect(("torch_compile_*",))
    fsdp = reading.take("fsdp")
    if fsdp:
        put_fsdp(reading, fsdp)
    reading.without_effect(("fsdp_config", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap"))
    named = reading.take("deepspeed")
    if named is not None:
        put_deepspeed(reading, named, load)
    if reading.flag("group_by_length"):
        reading.cannot("group_by_length", "less padding; state mean_tokens_per_sample")
    if reading.flag("auto_find_batch_size"):
        reading.put("micro_batch", "auto")
    reading.without_effect(no_effect("hf_arguments"))


def put_fsdp(reading: Reading, fsdp: object) -> None:
    """`full_shard auto_wrap offload` and the like, as text or list."""
    words = set(fsdp.replace(",", " ").split()) if isinstance(fsdp, str) else {str(word) for word in fsdp} \
        if isinstance(fsdp, list | tuple) else set()  # fmt: skip
    if "shard_grad_op" in words:
        reading.put("sharding", "zero2")
    elif "no_shard" in words:
        reading.put("sharding", "ddp")
    else:
        reading.put("sharding", "zero3")
    if "offload" in words:
        reading.put("cpu_offload", True)
    if {"hybrid_shard", "hybrid_shard_zero2"} & words:
        reading.cannot("fsdp", "hybrid sharding is taken as full sharding")
