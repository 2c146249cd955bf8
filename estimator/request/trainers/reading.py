"""What the readers of training configs share: values as people write them, batches, and what is left over."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from benchmarks_db.errors import WorkloadError
from estimator.request.quantities import parse_bool, parse_count

Load = Callable[[str], Mapping[str, Any] | None]

OPTIMIZERS: Mapping[str, str] = {
    "adam": "adamw", "adamw": "adamw", "adamw_torch": "adamw", "adamw_torch_fused": "adamw", "adamw_hf": "adamw",
    "adamw_apex_fused": "adamw", "fusedadam": "adamw", "deepspeedcpuadam": "adamw", "adamw_anyprecision": "adamw",
    "paged_adamw_32bit": "adamw", "adamw_8bit": "adamw-8bit", "adamw_bnb_8bit": "adamw-8bit",
    "paged_adamw_8bit": "adamw-8bit", "pagedadamw8bit": "adamw-8bit", "adamw8bit": "adamw-8bit",
    "adam8bit": "adamw-8bit", "pagedadamw": "adamw", "adafactor": "adafactor", "sgd": "sgd", "lion": "lion",
    "lion_32bit": "lion", "paged_lion_32bit": "lion",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Translated:
    """A request from a trainer's config, and what the reader must know about it."""

    trainer: str
    request: dict[str, Any]
    unsupported: tuple[str, ...] = ()  # keys whose effect on time or memory is not carried over
    notes: tuple[str, ...] = ()


@cache
def no_effect(trainer: str) -> tuple[str, ...]:
    """Keys of a trainer's configs that change neither time nor memory (`no_effect.csv`)."""
    with (files("estimator.request") / "trainers" / "no_effect.csv").open(encoding="utf-8") as lines:
        return tuple(row["key"] for row in csv.DictReader(lines) if row["trainer"] == trainer)


def nothing_beside(_name: str) -> None:
    """A loader that finds no file."""
    return


@dataclass
class Reading:
    """A config as it is read: what was taken, what has no effect on hardware, what remains."""

    config: Mapping[str, Any]
    request: dict[str, Any] = field(default_factory=dict)
    gpus: int = 1  # of the job, which a config does not say
    notes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def take(self, key: str, default: Any = None) -> Any:
        """The value of a key, which counts as understood from here on; `auto` and empty are as if not given."""
        self.seen.add(key)
        value = self.config.get(key)
        return default if value is None or value == "" or value == "auto" else value

    def number(self, key: str) -> float | None:
        """The value as a number; WorkloadError names the key where it is none."""
        value = self.take(key)
        return None if value is None else parse_count(value, field=key)

    def flag(self, key: str) -> bool | None:
        """The value as yes or no."""
        value = self.take(key)
        return None if value is None else parse_bool(value, field=key)

    def put(self, key: str, value: Any) -> None:
        """Set a key of the request unless there is nothing to set; a dotted key goes into its section."""
        if value is None:
            return
        section, dot, name = key.rpartition(".")
        if dot:
            self.request.setdefault(section, {})[name] = value
        else:
            self.request[key] = value

    def without_effect(self, keys: Iterable[str]) -> None:
        """Keys that change neither time nor memory; a trailing `*` stands for any ending."""
        for pattern in keys:
            if pattern.endswith("*"):
                self.seen |= {key for key in self.config if key.startswith(pattern[:-1])}
            else:
                self.seen.add(pattern)

    def cannot(self, key: str, why: str) -> None:
        """A key that matters and has no place in a request."""
        self.lost.append(f"{key} ({why})")

    def done(self, trainer: str) -> Translated:
        """The request, with every key listed that nobody understood."""
        rest = [key for key in self.config if key not in self.seen]
        return Translated(trainer, self.request, (*self.lost, *rest), tuple(self.notes))


def put_batches(reading: Reading, micro: float | None, accumulation: float | None, steps: float | None) -> None:
    """Micro-batch and global batch; a config says what one GPU does, never how many there are (`reading.gpus`).

    `steps` (optimizer steps) is turned into samples, since it overrides the data set.
    """
    if micro is None and accumulation is None and not (steps or 0) > 0:
        return
    one = 1.0 if micro is None else micro
    times = 1.0 if accumulation is None else accumulation
    total = one * times * reading.gpus
    if one != int(one) or times != int(times) or one < 1 or times < 1:
        raise WorkloadError(f"{one:g} x {times:g} is no batch", field="micro_batch", value=micro)
    if micro is not None:
        reading.put("micro_batch", int(one))
    reading.put("global_batch", int(total))
    reading.notes.append(
        f"global batch = {one:g} a GPU x {times:g} accumulated x {reading.gpus} GPU{'s' * (reading.gpus > 1)}"
        "; --global-batch sets that of all GPUs"
    )
    if steps is not None and steps > 0:
        reading.put("samples", steps * total)
        reading.request.pop("epochs", None)
        reading.notes.append(f"{steps:g} steps x {total:g} = {steps * total:g} samples")


def optimizer_of(name: object, reading: Reading, key: str) -> str | None:
    """Our name of an optimizer; one that we do not know is listed."""
    if name is None:
        return None
    word = str(name).rsplit(".", 1)[-1].strip().lower()
    found = OPTIMIZERS.get(word) or OPTIMIZERS.get(word.replace("-", "_"))
    if found is None:
        reading.cannot(key, f"optimizer {name} is not known")
    return found


def put_precision(reading: Reading, *, bf16: bool | None, fp16: bool | None, tf32: bool | None) -> None:
    """Mixed precision as Hugging Face names it; neither is fp32, on TF32 units when they are allowed."""
    if bf16:
        reading.put("precision", "bf16")
    elif fp16:
        reading.put("precision", "fp16")
    elif bf16 is False or fp16 is False:
        reading.put("precision", "tf32" if tf32 else "fp32")


def put_deepspeed(reading: Reading, named: object, load: Load, key: str = "deepspeed") -> None:
    """A DeepSpeed config inside another: its mapping, the file it names, or the stage in the file's name."""
    from estimator.request.trainers import deepspeed

    config = named if isinstance(named, Mapping) else load(str(named)) if isinstance(named, str) else None
    if config is not None:
        inner = deepspeed.read(config, load)
        for name, value in inner.request.items():
            if name in ("sharding", "cpu_offload"):
                reading.put(name, value)
        reading.lost += [f"{key}.{name}" for name in inner.unsupported]
        return
    text = str(named).lower()
    stage = next((n for n in ("3", "2", "1") if f"zero{n}" in text or f"z{n}" in text or f"stage{n}" in text), None)
    if stage is None:
        reading.cannot(key, f"{named} cannot be read")
        return
    reading.put("sharding", f"zero{stage}")
    reading.notes.append(f"{named} is not here: ZeRO stage {stage} by its name")
    if "offload" in text or "cpu" in text:
        reading.put("cpu_offload", True)
