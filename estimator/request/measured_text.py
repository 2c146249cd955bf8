"""What did the person measure, in words: `3100 tokens/s on 1xRTX-3090, micro-batch 4`? The cells of such a text.

    RATE UNIT on [[NODES x] COUNT x] GPU[, DETAIL]...

A detail is a word (`bf16`, `qlora`, `zero3`, `compiled`) or a name with its value (`micro-batch 4`, `seq_len=2048`,
`2 nodes`). Whatever the text leaves open is left open here; the request that it belongs to fills it in.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from benchmarks_db.errors import WorkloadError
from benchmarks_db.gpus import resolve_gpu
from estimator.precision import canonical
from estimator.request.fields import listed
from estimator.request.quantities import parse_count

EXAMPLE = "3100 tokens/s on 1xRTX-3090, micro-batch 4"

_TEXT = re.compile(
    r"(?P<number>[\d.,_]*\d(?:e[+-]?\d+)?\s*(?:[kKM](?=\s))?)\s*(?P<unit>[A-Za-z][^,;]*?)\s+on\s+(?P<gpu>[^,;]+)"
    r"(?:[,;]\s*(?P<rest>.*))?"
)
_NODES = re.compile(r"(?P<nodes>\d+)\s*(?:x|nodes? of)\s*(?P<rest>\d+\s*x.+)", re.IGNORECASE)
_COUNT = re.compile(r"(?P<count>\d+)\s*x\s*(?P<name>.+)", re.IGNORECASE)
_UNITS = {
    **dict.fromkeys(("tokens/s", "token/s", "tok/s", "toks/s"), ("tokens/s", 1.0)),
    **dict.fromkeys(
        ("samples/s", "sample/s", "images/s", "image/s", "img/s", "imgs/s", "sequences/s", "sequence/s", "seq/s"),
        ("samples/s", 1.0),
    ),
    **dict.fromkeys(("s/step", "s/it", "s/iter", "s/iteration"), ("s/step", 1.0)),
    **dict.fromkeys(("ms/step", "ms/it", "ms/iter", "ms/iteration"), ("ms/step", 1.0)),
    **dict.fromkeys(("step/s", "steps/s", "it/s", "iter/s", "iterations/s", "batches/s"), ("s/step", -1.0)),
}
"""Ways to write a unit -> (unit of the tables, power of the figure: -1 turns steps a second into seconds a step)."""

_NAMES = {
    **dict.fromkeys(("micro-batch", "microbatch", "micro-batch-size", "mbs", "per-device-batch"), "micro_batch"),
    **dict.fromkeys(("global-batch", "globalbatch", "global-batch-size", "gbs", "total-batch"), "global_batch"),
    **dict.fromkeys(("seq-len", "seqlen", "sequence-length", "seq", "length", "context"), "seq_len"),
    **dict.fromkeys(("image-size", "image", "resolution", "px"), "image_size"),
    **dict.fromkeys(("nodes", "node", "machines"), "nodes"),
    **dict.fromkeys(("tp", "tensor-parallel"), "tp"),
    **dict.fromkeys(("pp", "pipeline-parallel"), "pp"),
    **dict.fromkeys(("cp", "context-parallel"), "cp"),
    **dict.fromkeys(("ep", "expert-parallel"), "ep"),
    **dict.fromkeys(("grad-accum", "gradient-accumulation", "accumulation"), "grad_accum"),
    "model": "model",
    "precision": "precision",
    "method": "method",
    "optimizer": "optimizer",
    "framework": "framework",
    "sharding": "sharding",
    "attention": "attention",
    **dict.fromkeys(("checkpointing", "activation-checkpointing", "act-ckpt"), "act_ckpt"),
}
_FIGURES = (
    "micro_batch", "global_batch", "seq_len", "image_size", "nodes", "tp", "pp", "cp", "ep", "grad_accum",
)  # fmt: skip
_WORDS = {
    **dict.fromkeys(("pretrain", "full", "lora", "qlora"), "method"),
    **dict.fromkeys(("ddp", "zero1", "zero2", "zero3", "fsdp"), "sharding"),
    **dict.fromkeys(("flash", "eager"), "attention"),
}
_SAID = {
    "compiled": ("compiled", "yes"),
    "torch.compile": ("compiled", "yes"),
    "channels-last": ("memory_format", "channels-last"),
    "nhwc": ("memory_format", "channels-last"),
    "synthetic": ("data_kind", "synthetic"),
    "synthetic-data": ("data_kind", "synthetic"),
    "real-data": ("data_kind", "real"),
    "per-gpu": ("scope", "per_gpu"),
    "total": ("scope", "total"),
}
_PAIR = re.compile(r"(?P<key>[A-Za-z][A-Za-z _-]*?)\s*(?:=|:|\bof\b|\s)\s*(?P<value>\S+)")
_TURNED = re.compile(r"(?P<value>\d[\d.,kK]*)\s*(?P<key>[A-Za-z][A-Za-z -]*)")


def is_text(value: str) -> bool:
    """Is this a measurement in words, and not the path of a file?

    >>> is_text("3100 tokens/s on 1xRTX-3090"), is_text("runs on a3.csv"), is_text("2026 runs on a3.csv")
    (True, False, False)
    """
    text = value.strip()
    return text[:1].isdigit() and " on " in text and not text.lower().endswith(".csv")


def listed_measurements(value: object) -> Any:
    """Paths and texts of the key `measured`: a text keeps its commas, paths may be separated by them."""
    if isinstance(value, str) and is_text(value):
        return (value.strip(),)
    if isinstance(value, list | tuple):
        parts = [listed_measurements(item) if isinstance(item, str) else (item,) for item in value]
        return tuple(item for part in parts for item in (part if isinstance(part, list | tuple) else (part,)))
    return listed(value)


def cells_of(text: str) -> dict[str, str]:
    """The cells that a text states, by the columns of a measurement, `method` and `grad_accum`; else WorkloadError.

    >>> cells_of("3.1k tok/s on 8xA100-80GB, micro-batch 4, 2048 seq-len, bf16")["gpus"]
    '8'
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise WorkloadError(
            f"{text!r} does not read as RATE UNIT on COUNTxGPU, DETAILS",
            field="measured",
            value=text,
            nearest=(EXAMPLE,),
        )
    cells = _rate(parse_count(match["number"].replace(" ", "")), match["unit"], text) | _hardware(match["gpu"], text)
    for part in re.split(r"[,;]", match["rest"] or ""):
        if part.strip():
            name, value = _detail(part.strip(), text)
            if cells.get(name, value) != value:
                raise _unread(f"{cells[name]} and {value} are both given for {name}", text)
            cells[name] = value
    return cells


def _unread(reason: str, text: str, *nearest: str) -> WorkloadError:
    return WorkloadError(f"{text!r}: {reason}", field="measured", value=text, nearest=nearest)


def _rate(figure: float, unit: str, text: str) -> dict[str, str]:
    """Throughput, unit and scope of `3100` `tokens/s per GPU`."""
    plain = re.sub(r"\s*(?:/|\bper\b|\ba\b)\s*", "/", unit.strip().lower())
    plain = re.sub(r"\bsec(?:ond)?s?\b", "s", plain)
    plain, per_gpu = re.subn(r"/(?:gpu|device|card)\b", "", plain)
    known = _UNITS.get(plain.replace(" ", ""))
    if known is None:
        raise _unread(f"{unit!r} is no unit of throughput", text, "tokens/s", "samples/s", "s/step")
    if figure <= 0.0:
        raise _unread("the rate must be above 0", text)
    name, power = known
    return {"throughput": f"{figure**power:.12g}", "unit": name} | ({"scope": "per_gpu"} if per_gpu else {})


def _hardware(gpu: str, text: str) -> dict[str, str]:
    """GPU, count of the whole job, and nodes where they are stated, of `2 x 8 x H100`, `8xH100` or `H100:8`."""
    cells = {}
    name = gpu.strip()
    if match := _NODES.fullmatch(name):
        cells["nodes"], name = match["nodes"], match["rest"].strip()
    count = None
    if match := _COUNT.fullmatch(name):
        count, name = float(match["count"]), match["name"].strip()
    try:
        found = resolve_gpu(name)
    except WorkloadError as error:
        raise WorkloadError(error.message, field="measured", value=text, nearest=error.nearest) from None
    total = (count or found.count or 1.0) * (float(cells["nodes"]) if cells and count else 1.0)
    return cells | {"gpu": found.gpu.name, "gpus": f"{total:g}"}


def _detail(part: str, text: str) -> tuple[str, str]:
    """One detail as column and value."""
    plain = re.sub(r"[\s_]+", "-", part.lower())
    if plain in _SAID:
        return _SAID[plain]
    if plain in _WORDS:
        return _WORDS[plain], plain
    if plain != "no" and not plain.isdigit() and (precision := canonical(plain)):  # a bare 16 may be of anything
        return "precision", precision
    if plain in ("batch", "batch-size") or re.match(r"(?:batch|batch-size|bs)[-=:]?\d", plain):
        raise _unread("say whose batch it is", text, "micro-batch 4", "global-batch 64")
    for pattern in (_PAIR, _TURNED):
        if match := pattern.fullmatch(part):
            key = re.sub(r"[\s_]+", "-", match["key"].strip().lower())
            if key in _NAMES:
                return _NAMES[key], _value(_NAMES[key], match["value"], text)
    near = get_close_matches(plain.rstrip("0123456789-"), [*_NAMES, *_WORDS, *_SAID], n=2, cutoff=0.6)
    raise _unread(f"{part!r} is not understood", text, *near or ("micro-batch 4", "seq-len 2048", "bf16"))


def _value(name: str, value: str, text: str) -> str:
    if name in _FIGURES:
        try:
            return f"{parse_count(value):.12g}"
        except WorkloadError as error:
            raise _unread(f"{name}: {error.message}", text) from None
    word = value.strip().lower()
    if name == "precision":
        found = canonical(word)
        if found is None:
            raise _unread(f"{value!r} is no number format", text, "bf16", "fp16")
        return found
    if _WORDS.get(word) == name or name in ("model", "optimizer", "framework"):
        return value.strip()
    if name == "act_ckpt" and word in ("none", "full", "selective"):
        return word
    if name == "sharding" and word == "none":
        return word
    raise _unread(f"{value!r} is no {name}", text)
