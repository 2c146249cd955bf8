"""Under which one name does a word of a row go, however its table spells it?

`ZeRO stage 3`, `zero_3` and `stage3` are one sharding, `tok/s/GPU` is tokens/s of one GPU: tables that state the same
fact get the same answer. A word of a closed vocabulary that means nothing here counts as blank (`headers.doubts` says
so); a unit or scope that means nothing is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from benchmarks_db.errors import UnknownName, WorkloadError

SCOPES = {
    "": "total", "total": "total", "job": "total", "global": "total", "per_gpu": "per_gpu", "per_device": "per_gpu",
    "per_accelerator": "per_gpu", "per_chip": "per_gpu",
}  # fmt: skip
WORDS: Mapping[str, tuple[str, ...]] = {
    "act_ckpt": ("none", "selective", "full"),
    "sharding": ("none", "ddp", "zero1", "zero2", "zero3", "fsdp"),
    "compiled": ("yes", "no"),
    "stack": ("plain", "tuned"),
    "memory_format": ("contiguous", "channels-last"),
    "data_kind": ("real", "synthetic"),
}
"""Closed vocabularies whose other words count as blank."""

_YES, _NO = ("yes", "true", "on", "1", "y", "t"), ("no", "false", "off", "0", "n", "f")
_WRITTEN: Mapping[str, Mapping[str, str]] = {
    "act_ckpt": dict.fromkeys((*_YES, "block", "uniform"), "full") | dict.fromkeys(_NO, "none")
    | {"partial": "selective"},
    "sharding": dict.fromkeys(("full", "full-shard", "fully-sharded", "fsdp1", "fsdp2", "hsdp", "hybrid-shard"), "fsdp")
    | dict.fromkeys(("dp", "data-parallel", "distributed-data-parallel", "distributeddataparallel"), "ddp")
    | dict.fromkeys(("no", "off", "no-shard", "zero0"), "none") | {"shard-grad-op": "zero2"},
    "compiled": dict.fromkeys((*_YES, "torch.compile", "inductor", "xla", "jit"), "yes")
    | dict.fromkeys((*_NO, "none", "eager"), "no"),
    "stack": {"ordinary": "plain"},
    "memory_format": {"nhwc": "channels-last", "nchw": "contiguous"},
    "data_kind": dict.fromkeys(("fake", "dummy", "random"), "synthetic"),
    "attention": dict.fromkeys(("naive", "vanilla", "unfused"), "eager") | {"none": "", "auto": ""},
    "peft": {"q-lora": "qlora"} | dict.fromkeys((*_NO, "full"), "none"),
}  # fmt: skip
_ZERO = re.compile(r"(?:deepspeed-|ds-)?(?:zero-?(?:stage-?)?|stage-?)([0-3])(?:-.*)?")
_LEADING = {"act_ckpt": re.compile(r"(none|selective|full)\b.*"), "sharding": re.compile(r"fsdp\d?[-(](.*?)\)?")}
"""What a longer text says in its first word: `selective (attention)`; an FSDP strategy behind the name."""

_FRAMEWORKS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\bmegatron[\s_]+(lm|core|bridge|deepspeed)\b", r"megatron-\1"),
        (r"\b(llm)[\s_]+(foundry)\b", r"\1-\2"),
        (r"\b(llama)[\s_]+(factory)\b", r"\1-\2"),
        (r"\b(transformer)[\s_]+(engine)\b", r"\1-\2"),
        (r"\blit[\s_-]+gpt\b", "litgpt"),
        (r"\btorch[\s_-]+(titan|tune)\b", r"torch\1"),
        (r"\bmax[\s_-]+text\b", "maxtext"),
        (r"\bhugging[\s_-]*face\b", "hf"),
        (r"^(?:py)?torch(?:\s*==|[\s_-])?\s*v?(?=\d)", "pytorch-"),
        (r"^(tensorflow|jax|mxnet|oneflow|nemo)(?:\s*==|[\s_])\s*v?(?=\d)", r"\1-"),
    )
)

_THINGS = {
    "token": "tokens", "tok": "tokens", "toks": "tokens", "sample": "samples", "example": "samples",
    "examples": "samples", "image": "images", "sequence": "sequences", "seqs": "seq", "sentence": "sequences",
    "sentences": "sequences", "frame": "frames", "audio-sample": "audio-samples", "step": "steps", "it": "steps",
    "its": "steps", "iter": "steps", "iters": "steps", "iteration": "steps", "iterations": "steps",
}  # fmt: skip
_TIMES = dict.fromkeys(("sec", "secs", "second", "seconds"), "s") | dict.fromkeys(
    ("msec", "msecs", "millisecond", "milliseconds"), "ms"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d{1,2})\b",
        r"\b(?P<month>\d{1,2})[-/.](?P<year>(?:19|20)\d\d)\b",
        rf"\b(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?,?[\s-]*(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?(?P<year>(?:19|20)\d\d)\b",
        r"\b(?P<year>(?:19|20)\d\d)(?P<month>)\b",
    )
)
_ONE_GPU = ("gpu", "device", "accelerator", "chip")


def word(row: Mapping[str, str], name: str) -> str:
    """A cell's text, lower case, or "" (also for `nan`, `none` where none is no value of the column)."""
    text = str(row.get(name) or "").strip().lower()
    return "" if text in ("nan", "null", "n/a", "unknown", "?") else text


def written(row: Mapping[str, str], name: str) -> str:
    """A cell under the name its word has here: `zero-3` is zero3, `true` is yes or full; else the word in lower case.

    >>> written({"act_ckpt": "True"}, "act_ckpt"), written({"sharding": "ZeRO stage 3"}, "sharding")
    ('full', 'zero3')
    """
    text = re.sub(r"[_\s]+", "-", word(row, name))
    known = _WRITTEN.get(name, {})
    if name == "sharding" and (stage := _ZERO.fullmatch(text)):
        text = f"zero{stage[1]}"
    if text not in known and (found := _LEADING[name].fullmatch(text) if name in _LEADING else None):
        text = known.get(found[1], found[1])
    return known.get(text, text)


def framework_of(row: Mapping[str, str]) -> str:
    """The software, names of more than one word as their makers write them.

    >>> framework_of({"framework": "Megatron LM"}), framework_of({"framework": "torch 2.1"})
    ('megatron-lm', 'pytorch-2.1')
    """
    text = word(row, "framework")
    for pattern, name in _FRAMEWORKS:
        text = pattern.sub(name, text)
    return text


def task_of(row: Mapping[str, str]) -> str:
    """The task: words with hyphens between them, fine-tuning (also supervised, `sft`) and pretraining by one name each.

    >>> task_of({"task": "LLM fine-tuning"}), task_of({"task": "llm_pre-training"})
    ('llm-finetune', 'llm-pretrain')
    """
    text = re.sub(r"[_\s]+", "-", word(row, "task"))
    text = re.sub(r"\bfine-?tun(?:e|ing)\b|\bsft\b|\binstruction-tuning\b", "finetune", text)
    return re.sub(r"\bpre-?train(?:ing)?\b", "pretrain", text)


def date_of(row: Mapping[str, str]) -> str:
    """The month as YYYY-MM, the year alone where no month is stated; "" for what is no date.

    >>> [date_of({"date": text}) for text in ("2024-07-15", "2024/7", "07/2024", "July 2024", "2024", "soon")]
    ['2024-07', '2024-07', '2024-07', '2024-07', '2024', '']
    """
    text = word(row, "date")
    for pattern in _DATES:
        if found := pattern.search(text):
            year, month = found["year"], found["month"] or ""
            number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1 if month else 0
            return f"{year}-{number:02d}" if 1 <= number <= 12 else year
    return ""


def pixels_of(row: Mapping[str, str]) -> str:
    """The side of an image in pixels, of `224x224` and `3x224x224` too; of `640x480` the side of as large a square.

    >>> [pixels_of({"image_size": text}) for text in ("224", "224 x 224", "3x299x299", "640x480")]
    ['224', '224', '299', '554']
    """
    text = word(row, "image_size")
    sides = re.fullmatch(r"(?:3\s*[x×*]\s*)?(\d{1,5})\s*[x×*]\s*(\d{1,5})(?:\s*px)?", text)
    return f"{math.sqrt(int(sides[1]) * int(sides[2])):.0f}" if sides else text.removesuffix("px").strip()


def unit_of(row: Mapping[str, str]) -> tuple[str, bool]:
    """(unit of the throughput, whether the unit says that it is of one GPU); the text itself where it is no rate.

    >>> unit_of({"unit": "Tok/sec/GPU"}), unit_of({"unit": "images per second"}), unit_of({"unit": "ms/iter"})
    (('tokens/s', True), ('images/s', False), ('ms/step', False))
    """
    text = re.sub(r"\s*(?:/|\bper\b)\s*", "/", word(row, "unit").replace("_", " ").strip())
    parts = [re.sub(r"\s+", "-", part) for part in text.split("/")]
    rate = [part for part in parts if part not in _ONE_GPU]
    if len(rate) != 2:
        return "/".join(parts), False
    left, right = (_TIMES.get(part, _THINGS.get(part, part)) for part in rate)
    return f"{left}/{'step' if right == 'steps' else right}", len(rate) < len(parts)


def per_gpu(row: Mapping[str, str]) -> bool:
    """Whether the row's throughput is of one GPU, by its scope or its unit.

    UnknownName for a scope that is neither that nor the total, WorkloadError where it and the unit contradict.
    """
    scope = re.sub(r"[\s\-/]+", "_", word(row, "scope"))
    if scope not in SCOPES:
        raise UnknownName("scope", str(row.get("scope")), ("total", "per_gpu"), field="scope")
    unit = unit_of(row)[1]
    if unit and scope and SCOPES[scope] == "total":
        text = str(row.get("unit"))
        raise WorkloadError(f"{text!r} is of one GPU, the scope is {scope}", field="unit", value=text)
    return unit or SCOPES[scope] == "per_gpu"
