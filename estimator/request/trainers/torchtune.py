"""torchtune YAML: components by their import path, LoRA in the model builder, batches, precision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from estimator.request.trainers.llama_factory import targets_of
from estimator.request.trainers.reading import Load, Reading, Translated, no_effect, optimizer_of, put_batches

_BUILDER = re.compile(r"^(?P<adapter>lora_|qlora_|dora_|qat_)?(?P<name>.+)$")


def is_config(config: Mapping[str, Any]) -> bool:
    """Is the model a component of torchtune?"""
    model = config.get("model")
    return isinstance(model, Mapping) and "torchtune" in str(model.get("_component_", ""))


def read(config: Mapping[str, Any], load: Load, gpus: int = 1) -> Translated:
    """The request that a torchtune config makes."""
    reading = Reading(config, gpus=gpus)
    _model(reading, reading.take("model"))
    tokenizer, dataset = reading.take("tokenizer"), reading.take("dataset")
    if isinstance(tokenizer, Mapping) and tokenizer.get("max_seq_len"):
        reading.put("seq_len", tokenizer["max_seq_len"])
    if isinstance(dataset, Mapping) and dataset.get("packed") is not None:
        reading.put("packing", bool(dataset["packed"]))
    reading.put("epochs", reading.number("epochs"))
    steps, epochs = reading.number("max_steps_per_epoch"), reading.request.get("epochs", 1)
    put_batches(
        reading, reading.number("batch_size"), reading.number("gradient_accumulation_steps"), steps and steps * epochs
    )
    optimizer = reading.take("optimizer")
    if isinstance(optimizer, Mapping):
        reading.put("optimizer", optimizer_of(optimizer.get("_component_"), reading, "optimizer"))
    # torchtune trains in the dtype it names, without fp32 copies of the weights
    reading.put("precision", {"bf16": "pure-bf16", "fp32": "fp32", "fp16": "fp16"}.get(str(reading.take("dtype"))))
    if reading.flag("enable_activation_checkpointing") is not None:
        reading.put("activation_checkpointing", "full" if reading.flag("enable_activation_checkpointing") else "none")
    if reading.flag("enable_activation_offloading"):
        reading.cannot("enable_activation_offloading", "activations moved to host memory are planned as kept")
    reading.put("compiled", reading.flag("compile"))
    if reading.flag("fsdp_cpu_offload"):
        reading.put("cpu_offload", True)
    reading.put("tensor_parallel", reading.number("tensor_parallel_dim"))
    reading.put("context_parallel", reading.number("context_parallel_dim"))
    if reading.flag("optimizer_in_bwd"):
        reading.cannot("optimizer_in_bwd", "gradients freed during the backward pass are planned as kept")
    reading.without_effect(no_effect("torchtune"))
    return reading.done("torchtune")


def _model(reading: Reading, model: Mapping[str, Any]) -> None:
    builder = str(model["_component_"]).rsplit(".", 1)[-1]
    parts = _BUILDER.match(builder)
    adapter, name = (parts["adapter"] or "", parts["name"]) if parts else ("", builder)
    reading.put("model", name.replace("_", "-").replace("llama3-1", "llama3.1").replace("llama3-2", "llama3.2"))
    if adapter in ("lora_", "qlora_", "dora_"):
        reading.put("method", "qlora" if adapter == "qlora_" or model.get("quantize_base") else "lora")
        reading.put("lora.rank", model.get("lora_rank"))
        reading.put("lora.alpha", model.get("lora_alpha"))
        attention = model.get("lora_attn_modules")
        everywhere = bool(model.get("apply_lora_to_mlp"))
        targets = "all-linear" if everywhere or not attention else targets_of(attention, reading, "lora_attn_modules")
        reading.put("lora.targets", targets)
        if adapter == "dora_":
            reading.cannot("model", "DoRA is slower than LoRA")
    else:
        reading.put("method", "full")
        if adapter == "qat_":
            reading.cannot("model", "quantisation-aware training is planned as plain training")
