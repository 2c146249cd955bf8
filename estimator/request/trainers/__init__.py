"""Which training config is this, and what does it ask of hardware? Configs of known trainers as requests.

Each trainer is one file with `SIGNS` (keys that only its configs have) and `read(config, load)`. What a config says
that matters to time or memory and cannot be carried over is listed, never ignored in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.request.trainers import axolotl, deepspeed, hf_arguments, llama_factory, torchtune
from estimator.request.trainers.reading import Load, Translated, nothing_beside

# In the order they are tried: DeepSpeed and Hugging Face keys also stand inside the others' configs.
TRAINERS = {
    "torchtune": torchtune,
    "axolotl": axolotl,
    "LLaMA-Factory": llama_factory,
    "Hugging Face TrainingArguments": hf_arguments,
    "DeepSpeed": deepspeed,
}


def trainer_of(config: Mapping[str, Any]) -> str | None:
    """The trainer whose config this is; None for a request of ours or something else.

    >>> trainer_of({"base_model": "x", "micro_batch_size": 2}), trainer_of({"model": "llama3-8b", "tokens": 5})
    ('axolotl', None)
    """
    for name, trainer in TRAINERS.items():
        if trainer.is_config(config):
            return name
    return None


def translated(config: Mapping[str, Any], load: Load = nothing_beside, gpus: int = 1) -> Translated:
    """A trainer's config as a request; `load` reads a file that the config names (None: it is not there).

    The global batch is that of `gpus` GPUs, where the config states what one of them does.

    Raises WorkloadError where a value makes no sense; KeyError where `trainer_of` knows no trainer.
    """
    name = trainer_of(config)
    if name is None:
        raise KeyError("no trainer")
    found: Translated = TRAINERS[name].read(config, load, gpus)
    return found


__all__ = ["TRAINERS", "Translated", "trainer_of", "translated"]
