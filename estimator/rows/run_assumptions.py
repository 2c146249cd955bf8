"""What did the prediction of a whole run assume because its row does not say it?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from estimator.rows.arrays import Prepared
from estimator.rows.cells import figure
from estimator.rows.run_amounts import size_of
from estimator.rows.run_kinds import generates_text, kind_of
from estimator.terms import Method


def assumptions(row: Mapping[str, str], step: Mapping[str, str], prepared: Prepared, at: int) -> str:
    """In words, separated by semicolons, most telling first: of the run `row`, predicted as `step`.

    `at` is its place among the usable rows of `prepared`. "" where the row states everything that matters.
    """
    read, layout = prepared.rows[at], prepared.layout
    micro, steps, tokens, nodes = (
        float(np.asarray(values)[at])
        for values in (layout.micro_batch, layout.grad_accum, prepared.work.tokens, prepared.hardware.nodes)
    )
    told = []
    if not read.model_known:
        told.append(f"a language model of {read.model.params_m or 0.0:,.0f} M parameters of the usual shape")
    if read.gpu_loose:
        told.append(f"{read.gpu.name} for {row['gpu']}")
    if not figure(row, "gpus") > 0:
        told.append(f"{read.gpus:g} GPUs")
    if size := _epochs_of(row):
        told.append(f"{size:,.0f} samples an epoch")
    if read.language and not row["seq_len"]:
        told.append(f"samples of {tokens:.0f} tokens")
    if step["image_size"] and not row["image_size"]:
        told.append(f"pictures of {read.image_size:g} pixels a side")
    if kind_of(row) == "self-supervised" and not row["objective"] and read.objective:
        told.append(f"objective {read.objective.name}")
    if kind_of(row).startswith("fine-tuning") and not row["peft"] and generates_text(row):
        named = {Method.LORA: "LoRA, by the run's name", Method.QLORA: "QLoRA, by the run's name"}
        told.append(named.get(read.method, "all weights trained"))
    if not row["precision"]:
        told.append(f"precision {read.format}")
    if not (row["micro_batch"] or row["global_batch"]):
        told.append(f"micro-batch {micro:g}")
    elif not row["micro_batch"] and steps != 1.0:
        told.append(f"micro-batch {micro:g} x {steps:g}")
    if step["act_ckpt"] and not row["act_ckpt"]:
        told.append("activations recomputed")
    if nodes > 1 and not row["nodes"]:
        told.append(f"{nodes:g} nodes")
    if nodes > 1 and not row["interconnect"]:
        told.append("the usual network of that GPU")
    return "; ".join(told)


def _epochs_of(row: Mapping[str, str]) -> float | None:
    """Samples that an epoch was taken to have, where the row names a data set and gives no amount of its own."""
    stated = figure(row, "tokens_b") > 0 or figure(row, "samples_m") > 0
    return None if stated or not figure(row, "epochs") > 0 else size_of(row["dataset"])
