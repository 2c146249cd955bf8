"""What kind of run does a row describe? The stated time means different things, and more or less stands between steps.

Factor and interval of each kind come from published runs (`data/run_kinds.csv`, `estimator benchmarks fit --runs`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from benchmarks_db.errors import EstimatorError
from benchmarks_db.models import ModelFacts
from estimator.architectures import LANGUAGE_MODELS
from estimator.rows.cells import figure, model_of, objective_of
from estimator.rows.habits import lean

PRETRAINING_TOKENS_B = 10.0
"""Billions of tokens from which language training is pretraining, whatever the task is called."""

_GENERATES = re.compile(r"rlhf|grpo|\bppo\b|rloo|rlvr|reinforce")
_TUNES = re.compile(r"fine-?_?tun|\bsft\b|instruct|\bdpo\b|orpo|simpo|preference|alignment|lora|adapt")
_OF_TEXT = ("llm", "text", "question", "multimodal")


@dataclass(frozen=True, slots=True)
class Overhead:
    """Hours of a run over data / predicted throughput, and the log half-width of an 80% interval around that."""

    factor: float
    half_width: float  # where the same source's steps of this model on this GPU are among the measurements
    half_width_unseen: float  # anywhere else


def kind_of(row: Mapping[str, str]) -> str:
    """The kind of a run, by its source, task, software and amount of data.

    >>> blank = dict.fromkeys(("source", "target", "task", "framework", "model"), "")
    >>> kind_of(blank | {"task": "sft"}), kind_of(blank | {"task": "GRPO"}), kind_of(blank | {"task": "segmentation"})
    ('fine-tuning', 'rlhf', 'other')
    """
    source, target, task = (row[name].casefold() for name in ("source", "target", "task"))
    if "mlcommons/" in source or target.startswith("mlperf"):
        return "mlperf"
    if "dawn-bench" in source:
        return "dawnbench"
    if "nvidia/deeplearningexamples" in source:
        return "recipe"
    if _GENERATES.search(task):
        return "rlhf"
    if self_supervised(task):
        return "self-supervised"
    if figure(row, "tokens_b") >= PRETRAINING_TOKENS_B:
        return "pretraining"
    tunes = bool(_TUNES.search(task))
    if "pretrain" in task.replace("-", "") and task.startswith(("llm", "lang", "text")) and not tunes:
        return "pretraining-short"
    if not task and figure(row, "tokens_b") > 0 and generates_text(row):
        return "pretraining-short"  # fine-tuning is counted in samples and epochs
    if not (tunes or task.startswith(_OF_TEXT) or (not task and generates_text(row))):
        return "other"
    return "fine-tuning-lean" if lean(row["framework"]) else "fine-tuning"


def self_supervised(task: str) -> bool:
    """Whether the task is learning from pictures without labels."""
    return re.search(r"self-?_? ?supervis|\bssl\b", task.casefold()) is not None


def generates_text(row: Mapping[str, str]) -> bool:
    """Whether the model writes text: a decoder of our tables, or one of which a size alone is known."""
    facts = facts_of(row)
    return facts is not None and facts.kind in LANGUAGE_MODELS


def facts_of(row: Mapping[str, str]) -> ModelFacts | None:
    """Of the network below the objective; None where nobody knows it, which is told where the step is read."""
    try:
        return model_of({**row, "model": objective_of(row)[1]})[0]
    except EstimatorError:
        return None


@cache
def _overheads() -> dict[str, Overhead]:
    with (files("estimator") / "data" / "run_kinds.csv").open(encoding="utf-8") as lines:
        return {
            row["kind"]: Overhead(*(float(row[name]) for name in ("factor", "half_width", "half_width_unseen")))
            for row in csv.DictReader(lines)
        }


def overhead(kind: str) -> Overhead:
    """What stands between the steps of a kind of run."""
    return _overheads()[kind]
