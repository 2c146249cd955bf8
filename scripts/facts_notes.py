"""What do the notes of a collected row say that belongs in a column?

Only what the source prints is read: notes are free text, so each rule names the wording that it rests on.
"""

from __future__ import annotations

import re

Row = dict[str, str]

_ACCUMULATION = re.compile(r"(?:\bGA=|GAS=|grad_accum=|grad(?:ient)? accumulation |x accumulation )(\d+)")
_VIRTUAL = re.compile(r"(?:\bVP=|vpp|interleave=)(\d+)")
_RANK = re.compile(r"\b(?:LoRA )?(?:rank|dim|r)\s?=?(\d+)\b", re.IGNORECASE)
_TOKENS_PER_SAMPLE = re.compile(r"tokens\*n/samples = (\d+) tok/sample")
_BATCH_IN_TOKENS = re.compile(r"batch per GPU (\d+) tokens")
_SYNTHETIC = ("synthetic", "syntetic", "fake ImageNet", "mock data", "dummy samples", "constant numpy data")
_REAL = (
    "real ImageNet", "real COCO", "real data", "data=dali", "data=pytorch", "incl. data loading", "LibriSpeech",
    "SQuAD", "WMT16", "wikitext", "ImageNet via DALI", "Criteo", "Outbrain", "Alpaca", "QM9", "face_emore", "glint360k",
    "whole convergence run", "COCO train",
)  # fmt: skip
# Collections that run on real data sets unless a row says otherwise (their own documentation)
_REAL_SOURCES = ("NVIDIA/DeepLearningExamples", "lambdal/deeplearning-benchmark", "facebookresearch/detectron2")
_CONVNETS_NHWC = "AMP is NHWC, others NCHW"
_VARIANTS = (
    re.compile(r"(framework_config=[\w.-]+)"),
    re.compile(r"(deep vocab \d+, embedding dim \d+, \d+ x \d+ FC)"),
    re.compile(r"(classifier: [\w ,=.]+)"),
    re.compile(r"^(LoRA \(emb\)|Q-LoRA|LoRA|Full-parameter)(?=[ ;(+])"),
    re.compile(r"(evaluation time is included)"),
    re.compile(r"(tokendrop|capacity=\d+|mp_mode=\w+|worker=\d+)"),
)


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _mend(row: Row, field: str, value: str, why: str) -> None:
    row[field] = value
    row["mended"] = "; ".join(filter(None, [row.get("mended", ""), f"{field} was empty: {why}"]))


def _accumulation(row: Row) -> str:
    """Micro-batches of a step: as printed, else global batch / (micro-batch x data parallel) where that is whole."""
    if stated := _first(_ACCUMULATION, row["notes"]):
        return stated
    if not (row["micro_batch"] and row["global_batch"] and row["gpus"]):
        return ""
    parallel = float(row["tp"] or 1) * float(row["pp"] or 1) * float(row["cp"] or 1)
    steps = float(row["global_batch"]) * parallel / (float(row["micro_batch"]) * float(row["gpus"]))
    return str(round(steps)) if steps >= 1 and abs(steps - round(steps)) < 1e-6 else ""


def _memory_format(row: Row) -> str:
    notes = row["notes"]
    if (
        "contiguous NCHW" in notes
        or "; nchw" in notes
        or re.search(r"\bNCHW, sync-bn\b|; NCHW\b|channels-last off", notes)
    ):
        return "contiguous"
    if re.search(r"channels-last(?! off)", notes):
        return "channels-last"
    if _CONVNETS_NHWC in notes:
        return "channels-last" if row["precision"].startswith("amp") else "contiguous"
    # tf_cnn_benchmarks runs NCHW unless told otherwise, and these logs tell nothing else
    return "contiguous" if "tf_cnn_benchmarks" in notes else ""


def _data_kind(row: Row) -> str:
    if row["id"].startswith("mlperf-"):
        return "real"  # whole training runs to a target
    if any(word in row["notes"] for word in _SYNTHETIC):
        return "synthetic"
    if row["source"].startswith(_REAL_SOURCES) or any(word in row["notes"] for word in _REAL):
        return "real"
    return ""


def _offload(row: Row) -> str:
    notes = row["notes"]
    if "Full Offload" in notes:
        return "full"
    if "CPU offload of the parameters" in notes or "blocks swapped" in notes:
        return "params"
    if "activations offloaded" in notes or "checkpoints offloaded" in notes:
        return "activations"
    return "optimizer" if re.search(r"optimi[sz]er offload(?! N)", notes, re.IGNORECASE) else ""


DECIMAL_GB = {
    "QwenLM/Qwen@": "as 81.0 on a card of 80 GiB shows",
    "Lightning-AI/litgpt@": "as its scripts print max_memory_allocated() / 1e9",
}
"""Sources whose GB are 10^9 bytes, and what shows it."""


def read_notes(row: Row) -> None:
    """Fill, in place, the columns that a measurement's notes explain; what the row already states stays."""
    notes = row["notes"]
    row["optimizer"] = row["optimizer"].casefold()
    row["grad_accum"] = _accumulation(row)
    row["virtual_stages"] = _first(_VIRTUAL, notes)
    row["memory_format"], row["data_kind"], row["offload"] = _memory_format(row), _data_kind(row), _offload(row)
    if "lora" in row["peft"] or "adapter" in row["peft"]:
        row["lora_rank"] = _first(_RANK, notes)
    row["variant"] = "; ".join(filter(None, (_first(pattern, notes) for pattern in _VARIANTS)))
    if tokens := _first(_TOKENS_PER_SAMPLE, notes):
        row["units_per_sample"] = tokens
        if not row["seq_len"]:
            _mend(row, "seq_len", tokens, "tokens per sample as the notes compute them")
    if tokens := _first(_BATCH_IN_TOKENS, notes):
        row["units_per_sample"] = "1"
        _mend(row, "micro_batch", tokens, "the source's batch is in tokens; one sample here = one token")
        row["global_batch"] = str(int(float(tokens) * float(row["gpus"])))
    if "audio samples" in notes and row["unit"] == "audio-samples/s":
        row["units_per_sample"] = "8000" if "8000" in notes else ""
    why = next((reason for lab, reason in DECIMAL_GB.items() if row["source"].startswith(lab)), "")
    if why and row["mem_gib_per_gpu"]:
        printed = float(row["mem_gib_per_gpu"])
        row["mem_gib_per_gpu"] = f"{printed * 1e9 / 2**30:.2f}"
        said = f"mem_gib_per_gpu was {printed:g}: decimal GB, {why}"
        row["mended"] = "; ".join(filter(None, [row.get("mended", ""), said]))
    if "x" in row["image_size"]:
        width, height = row["image_size"].split("x")
        square = round((float(width) * float(height)) ** 0.5, 1)
        printed, row["image_size"] = row["image_size"], f"{square:g}"
        row["mended"] = f"image_size was {printed}: the square of the same area"
    if not row["image_size"] and (size := re.match(r"ssd(300|320)", row["model"])):
        _mend(row, "image_size", size[1], "from the model's name")
