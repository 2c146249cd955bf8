"""What must hold of every row? The columns of the tables of facts: unit, range and vocabulary of each.

One definition serves the importer, the reader of a user's own measurements, the packed form and the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks_db.errors import WorkloadError

PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "amp-fp16", "bf16", "amp-bf16", "pure-bf16", "fp8", "mxfp8", "fp4", "nvfp4", "int8",
    "int8+fp16", "nf4+bf16",
)  # fmt: skip
UNITS = ("samples/s", "tokens/s", "frames/s", "audio-samples/s", "s/step", "ms/step")
QUALITIES = ("ok", "suspect", "unusable")
PEFTS = ("none", "lora", "qlora", "gptq-lora", "adapter", "qadapter")


def number_of(text: str) -> float | None:
    """A figure written as text, or None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a figure within [low, high], a word of a closed vocabulary, or free text."""

    name: str
    figure: bool = False
    low: float = 0.0
    high: float = 0.0
    words: tuple[str, ...] = ()
    required: bool = False
    pattern: str = ""

    def fault(self, text: str) -> str | None:
        """Why `text` cannot stand in this column, or None."""
        if not text:
            return "must not be empty" if self.required else None
        if self.figure:
            value = number_of(text)
            if value is None:
                return f"must be a number, not {text!r}"
            if not self.low <= value <= self.high:
                return f"must be between {self.low:g} and {self.high:g}, not {text}"
        elif self.words and text not in self.words:
            return f"{text!r} is not one of {', '.join(self.words)}"
        elif self.pattern and not re.fullmatch(self.pattern, text):
            return f"{text!r} does not read as {self.pattern}"
        return None


def _figures(low: float, high: float, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, figure=True, low=low, high=high) for name in names)


_DATE = r"\d{4}(-\d{2}(-\d{2})?)?"

MEASUREMENT = (
    Column("id", required=True),
    Column("source", required=True),
    Column("date", pattern=_DATE),
    Column("model", required=True),
    Column("task", required=True),
    *_figures(0.05, 5e6, "params_m"),
    Column("gpu", required=True),
    *_figures(0.05, 1e6, "gpus", "nodes"),
    Column("interconnect"),
    Column("precision", words=PRECISIONS),
    *_figures(0.01, 1e8, "micro_batch"),
    *_figures(1, 1e9, "global_batch"),
    *_figures(1, 2e7, "seq_len"),
    *_figures(16, 4096, "image_size"),
    Column("act_ckpt", words=("none", "full", "selective")),
    Column("sharding", words=("none", "ddp", "zero1", "zero2", "zero3", "fsdp")),
    *_figures(1, 4096, "tp", "pp", "cp", "ep"),
    Column("attention", words=("flash", "sdpa", "eager", "flex", "xformers")),
    Column("compiled", words=("yes", "no")),
    Column("peft", words=PEFTS),
    Column("optimizer"),
    Column("framework"),
    *_figures(1e-6, 1e12, "throughput"),
    Column("unit", words=UNITS),
    Column("scope", words=("total", "per_gpu")),
    *_figures(0.01, 2e4, "tflops_per_gpu"),
    *_figures(1e-4, 1.2, "mfu"),
    *_figures(0.01, 400, "mem_gib_per_gpu"),
    # What the source says beyond the exchange format, and what we say about the row
    Column("stack", words=("plain", "tuned")),
    Column("memory_format", words=("contiguous", "channels-last")),
    Column("data_kind", words=("synthetic", "real")),
    *_figures(1, 1e5, "grad_accum"),
    *_figures(1, 128, "virtual_stages"),
    Column("offload", words=("activations", "params", "optimizer", "full", "ssd")),
    *_figures(1, 1e7, "units_per_sample"),
    *_figures(1, 4096, "lora_rank"),
    *_figures(1, 2e7, "longest_sample"),  # tokens; where samples differ in length, memory peaks on the longest
    Column("variant"),
    Column("quality", words=QUALITIES, required=True),
    Column("quality_reason"),
    Column("mended"),
    Column("notes"),
)

RUN = (
    Column("id", required=True),
    Column("source", required=True),
    Column("date", pattern=_DATE),
    Column("run", required=True),
    Column("model", required=True),
    *_figures(0.05, 5e6, "params_m", "active_params_m"),
    Column("task", required=True),
    Column("dataset"),
    *_figures(1e-6, 1e6, "tokens_b", "samples_m"),
    *_figures(1e-4, 1e5, "epochs"),
    Column("gpu"),
    *_figures(0.05, 1e6, "gpus", "nodes"),
    Column("cloud_instance"),
    Column("interconnect"),
    Column("precision", words=PRECISIONS),
    *_figures(1, 2e7, "seq_len"),
    *_figures(1, 1e9, "global_batch"),
    *_figures(0.01, 1e8, "micro_batch"),
    *_figures(16, 4096, "image_size"),
    Column("memory_format", words=("channels-last", "contiguous")),
    Column("act_ckpt", words=("none", "full", "selective")),
    Column("peft", words=PEFTS),
    Column("compiled", words=("yes", "no")),
    Column("objective"),  # of self-supervised training (benchmarks_db/objectives.py)
    Column("framework"),
    *_figures(1e-6, 1e6, "wall_hours"),
    *_figures(1e-5, 1e9, "gpu_hours", "cost_usd"),
    Column("price_basis"),
    *_figures(1e-4, 1.2, "mfu"),
    Column("target"),
    Column("computed", words=("wall_hours", "gpu_hours")),  # the figure that we computed from the other
    Column("quality", words=QUALITIES, required=True),
    Column("quality_reason"),
    Column("mended"),
    Column("notes"),
)

MICROBENCH = (
    Column("id", required=True),
    Column("source", required=True),
    Column("gpu", required=True),
    Column("precision", words=PRECISIONS),
    Column("what", required=True),
    Column("value", figure=True, low=1e-6, high=1e7, required=True),
    Column("unit", words=("TFLOPS", "GB/s", "TB/s", "Gbit/s", "us", "ms", "s", "ratio"), required=True),
    Column("quality", words=QUALITIES, required=True),
    Column("notes"),
)


def names(table: Iterable[Column], *, figures: bool | None = None) -> tuple[str, ...]:
    """The names of the columns: all, the figures only, or everything but the figures."""
    return tuple(column.name for column in table if figures is None or column.figure is figures)


def check(table: Iterable[Column], row: Mapping[str, str], where: str) -> None:
    """Raise WorkloadError for the first cell of `row` that cannot stand; `where` names file and line."""
    for column in table:
        text = row.get(column.name, "")
        if (fault := column.fault(text)) is not None:
            from difflib import get_close_matches

            near = get_close_matches(text.casefold(), column.words, n=3, cutoff=0.5) if column.words else ()
            raise WorkloadError(f"{where}: {fault}", field=column.name, value=text, nearest=near)
