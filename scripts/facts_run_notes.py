"""What do the notes of a collected run say that belongs in a column?

As for measurements, only what the source prints is read: each rule names the wording that it rests on.
"""

from __future__ import annotations

import re

from benchmarks_db.errors import EstimatorError
from benchmarks_db.objectives import resolve_objective, split

Row = dict[str, str]

_PEFT = re.compile(r"\b(q?lora|dora|rslora)\b", re.IGNORECASE)
_PEFTS = {"lora": "lora", "dora": "lora", "rslora": "lora", "qlora": "qlora"}
_FULL = re.compile(r"\bpeft full\b|\bfull fine-tune\b|\bfull LLM\b")
_FROZEN = "projector only"  # the language model passes gradients on and gets none, as under adapters
_MICRO_BATCH = (
    re.compile(r"\bmicro batch (\d+)\b"),
    re.compile(r"\b(\d+) per device x \d+ accumulation"),
    re.compile(r"\bper-device (\d+) x accumulation"),
    re.compile(r"; batch (\d+) x \d+;"),
    re.compile(r"\bBatch size / GPU[^:;]*: (\d+)"),
)
_BATCHES = re.compile(r"batch schedule ((?:\d+x\d+ep; ?)+)")
_SIZES = re.compile(r"progressive image size ((?:\d+x\d+ep(?:; ?)?)+)")
_PART = re.compile(r"(\d+)x(\d+)ep")
_RESIZING = re.compile(r"progressive resizing (\d+)->(\d+) px")
_PIXELS = re.compile(r"; (\d{3,4}) px, \d+ epochs")


def read_run_notes(row: Row) -> None:
    """Fill, in place, the columns that a run's notes explain, and mark what they say of its figures."""
    _mark(row)
    notes, said = row["notes"], f"{row['notes']} {row['run']} {row['framework']}"
    if found := _PEFT.search(said):
        row["peft"] = _PEFTS[found[1].casefold()]
    elif _FROZEN in notes:
        row["peft"] = "adapter"
    elif _FULL.search(notes):
        row["peft"] = "none"
    row["micro_batch"] = next((found[1] for pattern in _MICRO_BATCH if (found := pattern.search(notes))), "")
    if (found := _BATCHES.search(notes)) and not row["global_batch"]:
        row["global_batch"] = f"{_mean(found[1]):.0f}"
        row["mended"] = "global_batch was empty: mean of the schedule in notes, by epochs"
    if found := _SIZES.search(notes):
        row["image_size"] = f"{_mean(found[1], power=2):.0f}"  # work goes with the pixels
    elif found := _RESIZING.search(notes):
        row["image_size"] = f"{((float(found[1]) ** 2 + float(found[2]) ** 2) / 2) ** 0.5:.0f}"
    elif found := _PIXELS.search(notes):
        row["image_size"] = found[1]
    row["memory_format"] = "channels-last" if "channels-last" in notes else ""
    row["act_ckpt"] = "full" if re.search(r"\bgrad(ient)? checkpointing\b", notes) else ""
    row["compiled"] = "yes" if re.search(r"torch[._]compile", said) else ""


def read_objective(row: Row) -> None:
    """Take the objective of self-supervised training out of the model's name, or from the front of the run's name."""
    row["objective"], row["model"] = split(row["model"])
    if not row["objective"] and row["task"] == "self-supervised-vision":
        try:
            row["objective"] = resolve_objective(row["run"].split()[0]).name
        except EstimatorError:
            row["objective"] = ""


def _mean(schedule: str, power: float = 1.0) -> float:
    """Mean of `96x13ep; 128x11ep`, weighted by epochs.

    >>> _mean("100x1ep; 200x3ep")
    175.0
    """
    parts = [(float(value), float(epochs)) for value, epochs in _PART.findall(schedule)]
    total = sum(epochs for _, epochs in parts)
    return float((sum(value**power * epochs for value, epochs in parts) / total) ** (1.0 / power))


def _mark(row: Row) -> None:
    """Mark, in place, figures that were computed, projected, second-hand or doubtful."""
    notes, text = row["notes"], row["notes"] + row["run"]
    if "gpu_hours = wall" in notes:
        row["computed"] = "gpu_hours"
    elif "wall_hours = gpu_hours" in notes or "wall = gpu_hours" in notes:
        row["computed"] = "wall_hours"
    if row["quality"] != "ok":
        return
    for word, reason in (
        (r"project(ed|ion)|PROJECT", "a projection, not a finished run"),
        (r"doubtful|implausib|looks wrong", "the collector doubts the figure"),
        (r"Epoch note|quote:", "second-hand, quoted by Epoch from the paper"),
    ):
        if re.search(word, text):
            row |= {"quality": "suspect", "quality_reason": reason}
            return
