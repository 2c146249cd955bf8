"""LLaMA-Factory YAML: model, method, length and the TrainingArguments that it passes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.request.trainers.hf_arguments import put_arguments
from estimator.request.trainers.reading import Load, Reading, Translated, no_effect

SIGNS = ("finetuning_type", "cutoff_len", "stage", "lora_target", "neat_packing")


def is_config(config: Mapping[str, Any]) -> bool:
    """Has it keys that only LLaMA-Factory configs have?"""
    return "model_name_or_path" in config and any(key in config for key in SIGNS)


def read(config: Mapping[str, Any], load: Load, gpus: int = 1) -> Translated:
    """The request that a LLaMA-Factory config makes."""
    reading = Reading(config, gpus=gpus)
    reading.put("model", reading.take("model_name_or_path"))
    _method(reading)
    reading.put("seq_len", reading.number("cutoff_len"))
    packing = reading.flag("packing")
    neat = reading.flag("neat_packing")
    if packing is not None or neat is not None:
        reading.put("packing", bool(packing or neat))
    elif reading.config.get("stage") == "pt":
        reading.put("packing", True)
    reading.put("samples", reading.number("max_samples"))
    put_arguments(reading, load)
    if reading.flag("pure_bf16"):
        reading.put("precision", "pure-bf16")
    disabled = reading.flag("disable_gradient_checkpointing")
    if "activation_checkpointing" not in reading.request:  # it recomputes unless it is told not to
        reading.put("activation_checkpointing", "none" if disabled else "full")
    attention = reading.take("flash_attn")
    kernels = {"fa2": "flash", "fa3": "flash", "sdpa": "flash", "disabled": "eager"}
    reading.put("attention", kernels.get(str(attention)))
    for key in (
        "use_unsloth",
        "enable_liger_kernel",
        "use_galore",
        "use_badam",
        "use_apollo",
        "use_dora",
        "shift_attn",
    ):
        if reading.flag(key):
            reading.cannot(key, "faster or leaner than what is planned" if key != "use_dora" else "slower than LoRA")
    reading.without_effect(no_effect("llama_factory"))
    return reading.done("LLaMA-Factory")


def _method(reading: Reading) -> None:
    kind = str(reading.take("finetuning_type", "lora")).lower()
    stage = str(reading.take("stage", "sft")).lower()
    bits = reading.number("quantization_bit")
    rank, alpha = reading.number("lora_rank"), reading.number("lora_alpha")
    targets = reading.take("lora_target", "all")
    if kind == "lora":
        reading.put("method", "qlora" if bits is not None and bits <= 8 else "lora")
        reading.put("lora.rank", int(rank) if rank is not None else 8)
        reading.put("lora.alpha", alpha)
        reading.put("lora.targets", targets_of(targets, reading, "lora_target"))
        if bits is not None and bits != 4:
            reading.cannot("quantization_bit", f"{bits:g} bits are planned as 4")
    else:
        reading.put("method", "pretrain" if stage == "pt" else "full")
        if kind == "freeze":
            reading.cannot("finetuning_type", "frozen layers are planned as trained")
    if stage not in ("sft", "pt"):
        reading.cannot("stage", f"{stage}: one pass of supervised training is planned, not its other models or pairs")
    reading.without_effect(("freeze_*", "pref_*", "ref_model*", "reward_model*", "ppo_*"))


def targets_of(targets: object, reading: Reading, key: str) -> str | list[str]:
    """`all` or names, as text or list; names of weights that nobody knows are listed and left out."""
    from estimator.architectures.transformer import ADAPTED

    parts = targets.split(",") if isinstance(targets, str) else targets if isinstance(targets, list | tuple) else []
    names = [str(name).strip() for name in parts if str(name).strip()]
    known = [name for name in names if name.casefold() in ADAPTED]
    if lost := [name for name in names if name not in known]:
        reading.cannot(key, f"{', '.join(lost)} not known")
    return "all-linear" if not known or known in (["all"], ["all-linear"]) else known
