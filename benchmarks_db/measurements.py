"""How fast did a training step run, as somebody measured it? Twelve thousand rows as columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks_db.tables import DATA, plain, read

FAMILIES = ("llm", "mlperf", "small", "vision")

NUMBERS = (
    "params_m", "gpus", "nodes", "micro_batch", "global_batch", "seq_len", "image_size", "tp", "pp", "cp", "ep",
    "throughput", "tflops_per_gpu", "mfu", "mem_gib_per_gpu", "grad_accum", "virtual_stages", "units_per_sample",
    "lora_rank",
)  # fmt: skip
WORDS = (
    "id", "source", "date", "model", "task", "gpu", "interconnect", "precision", "act_ckpt", "sharding", "attention",
    "compiled", "peft", "optimizer", "framework", "unit", "scope", "stack", "memory_format", "data_kind", "offload",
    "quality", "quality_reason", "mended", "notes",
)  # fmt: skip


@dataclass(frozen=True)
class Measurements:
    """n measurements as columns: figures as float64 (NaN = not stated), texts as codes into a vocabulary."""

    numbers: Mapping[str, NDArray[np.float64]]
    words: Mapping[str, tuple[NDArray[np.int32], NDArray[np.object_]]]

    def __len__(self) -> int:
        return len(self.numbers["throughput"])

    def __getitem__(self, column: str) -> NDArray[np.float64] | NDArray[np.object_]:
        """A column of shape (n,): float64 for a figure, text for everything else."""
        if column in self.numbers:
            return self.numbers[column]
        codes, vocabulary = self.words[column]
        return vocabulary[codes]

    def codes(self, column: str) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
        """A text column as (codes of shape (n,), vocabulary): cheaper than the texts for grouping."""
        return self.words[column]

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        texts = {name: [plain(v) for v in column.tolist()] for name, column in self.numbers.items()}
        return texts | {name: self[name].tolist() for name in self.words}

    def rows(self, index: Iterable[int] | None = None) -> list[dict[str, str]]:
        """The rows as text by column, as `predict` reads them; all of them, or those of `index`."""
        chosen = range(len(self)) if index is None else index
        return [{name: column[i] for name, column in self._texts.items()} for i in chosen]


@cache
def load() -> Measurements:
    """All shipped measurements, in the order of the files."""
    columns: dict[str, list[str]] = {name: [] for name in (*NUMBERS, *WORDS)}
    for family in FAMILIES:
        for row in read(DATA / "measurements" / f"{family}.csv"):
            for name, column in columns.items():
                column.append(row[name])
    numbers = {name: np.array([float(cell or "nan") for cell in columns[name]]) for name in NUMBERS}
    words = {}
    for name in WORDS:
        vocabulary: dict[str, int] = {}
        codes = np.array([vocabulary.setdefault(cell, len(vocabulary)) for cell in columns[name]], np.int32)
        words[name] = (codes, np.array(list(vocabulary), object))
    return Measurements(numbers, words)


def fingerprint() -> str:
    """sha256 of the readable files: what a fit belongs to."""
    digest = hashlib.sha256()
    for family in FAMILIES:
        digest.update((DATA / "measurements" / f"{family}.csv").read_bytes())
    return digest.hexdigest()
