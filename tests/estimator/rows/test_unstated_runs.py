"""What a run leaves unsaid: it is assumed, told, and moves the answer no further than it must."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks_db import runs
from estimator.rows.run_amounts import amount_of
from estimator.rows.run_kinds import kind_of
from estimator.rows.run_steps import READS, step_row
from estimator.rows.whole_runs import predict_runs

BLANK = dict.fromkeys(READS, "")
NEEDED = ("model", "gpu", "gpus", "tokens_b", "samples_m", "epochs", "dataset", "params_m")

MOVES = {  # most an answer may move: at the median, and for one run in ten
    "cloud_instance": (1.001, 1.001), "price_basis": (1.001, 1.001), "run": (1.001, 1.001),
    "date": (1.01, 1.3), "nodes": (1.01, 1.3), "interconnect": (1.05, 1.5), "framework": (1.15, 2.2),
    "target": (1.01, 1.6), "micro_batch": (1.15, 1.8), "global_batch": (1.1, 2.0), "precision": (1.1, 3.3),
    "seq_len": (1.2, 8.0), "image_size": (1.6, 2.0), "peft": (1.01, 1.4), "objective": (1.01, 1.2),
    "task": (1.05, 3.5), "params_m": (1.01, 1.3), "source": (1.4, 2.5),
}  # fmt: skip


def hours(rows: list[dict[str, str]]) -> np.ndarray:
    """Predicted GPU-hours, NaN where there is an error; the interval is checked on the way."""
    answers = predict_runs(rows)
    for answer in answers:
        if not answer["error"] and answer["predicted_hours_p50"]:
            low, middle, high = (float(answer[f"predicted_hours_{q}"]) for q in ("p10", "p50", "p90"))
            assert 0.0 < low < middle < high < math.inf
    return np.array([float(a["predicted_gpu_hours_p50"] or "nan") for a in answers])


@pytest.fixture(scope="module")
def known() -> tuple[list[dict[str, str]], np.ndarray]:
    """Published runs that can be predicted, every twentieth of MLPerf's many, and their GPU-hours."""
    table = [row for i, row in enumerate(runs.load().rows()) if "mlperf" not in row["id"] or i % 20 == 0]
    predicted = hours(table)
    usable = np.isfinite(predicted)
    return [row for row, good in zip(table, usable, strict=True) if good], predicted[usable]


def moved(
    known: tuple[list[dict[str, str]], np.ndarray], change: Callable[[dict[str, str]], dict[str, str]]
) -> np.ndarray:
    """Factor by which the answer of each run changes that `change` leaves anything blank of; shape (changed,)."""
    table, before = known
    changed = [(change(row), was) for row, was in zip(table, before, strict=True) if change(row) != row]
    after = hours([row for row, _ in changed])
    assert np.isfinite(after).all()
    return np.exp(np.abs(np.log(after / np.array([was for _, was in changed]))))


@pytest.mark.parametrize("column", MOVES)
def test_a_run_that_says_less_is_answered_about_the_same(
    known: tuple[list[dict[str, str]], np.ndarray], column: str
) -> None:
    factor = moved(known, lambda row: {**row, column: ""})
    middle, late = MOVES[column]
    assert np.median(factor) <= middle
    assert np.quantile(factor, 0.9) <= late
    assert factor.max() <= 60.0


def test_model_gpu_and_work_alone_are_answered_and_every_assumption_is_told(
    known: tuple[list[dict[str, str]], np.ndarray],
) -> None:
    factor = moved(known, lambda row: {name: row[name] for name in NEEDED})
    assert np.median(factor) < 2.0
    assert np.quantile(factor, 0.9) < 8.0
    answers = predict_runs([{name: row[name] for name in NEEDED} for row in known[0]])
    assert all("precision" in answer["assumed"] for answer in answers)
    assert all("batch" in answer["assumed"] or "TPU" in answer["gpu"] for answer in answers)


def test_a_run_that_says_everything_leaves_nothing_to_assume() -> None:
    run = {
        "model": "llama3-8b", "task": "llm-finetune", "samples_m": "0.05", "epochs": "1", "gpu": "A100-SXM4-80GB",
        "gpus": "16", "nodes": "2", "interconnect": "nvlink; infiniband 200", "precision": "bf16", "seq_len": "2048",
        "micro_batch": "4", "global_batch": "64", "peft": "none",
    }  # fmt: skip
    assert predict_runs([run])[0]["assumed"] == ""
    fewer = predict_runs([{k: v for k, v in run.items() if k not in ("precision", "seq_len", "interconnect")}])[0]
    assert fewer["assumed"] == "samples of 396 tokens; precision bf16; the usual network of that GPU"


@pytest.mark.parametrize(
    ("run", "column", "value"),
    [
        ({"run": "llama2-7b qlora summarization"}, "peft", "qlora"),
        ({"run": "litgpt falcon-7b/lora.yaml 1xA10G"}, "peft", "lora"),
        ({"run": "exploration"}, "peft", ""),
        ({"framework": "alpaca-lora"}, "peft", "lora"),
        ({"precision": "nf4+bf16"}, "peft", "qlora"),
        ({"run": "bert-base banking77 torch_compile"}, "compiled", "yes"),
        ({"run": "SwAV resnet18", "task": "self-supervised-vision", "model": "resnet18"}, "objective", "swav"),
        ({"run": "Barlow Twins resnet18", "task": "ssl", "model": "resnet18"}, "objective", "barlowtwins"),
        ({"task": "sft"}, "task", "llm-finetune"),
        ({"task": "llm-finetune", "global_batch": "64", "gpus": "8"}, "micro_batch", "2"),
        ({"task": "llm-finetune", "global_batch": "8", "gpus": "8"}, "micro_batch", "1"),
        ({"task": "llm-finetune", "global_batch": "64", "gpus": "8", "seq_len": "4096"}, "micro_batch", ""),
        ({"task": "recommendation", "model": "dlrm"}, "micro_batch", "8192"),
    ],
)
def test_what_the_name_of_a_run_says_counts(run: dict[str, str], column: str, value: str) -> None:
    assert step_row({**BLANK, "model": "llama2-7b", **run}, "samples/s")[column] == value


@pytest.mark.parametrize(
    ("row", "amount"),
    [
        ({"target": "1.5T tokens"}, (1.5e12, "tokens/s")),
        ({"target": "150k steps x 3.15M tokens"}, (150e3 * 3.15e6, "tokens/s")),
        ({"target": "143k steps", "global_batch": "1024"}, (143e3 * 1024, "samples/s")),
        ({"dataset": "fineweb 10B tokens", "epochs": "2"}, (20e9, "tokens/s")),
        ({"dataset": "17k traces", "epochs": "3"}, (51e3, "samples/s")),
        ({"samples_m": "0.009469", "epochs": "800"}, (0.009469e6 * 800, "samples/s")),
        ({"samples_m": "0.156", "epochs": "3"}, (0.156e6, "samples/s")),
    ],
)
def test_work_may_be_said_in_words(row: dict[str, str], amount: tuple[float, str]) -> None:
    found, unit = amount_of({**BLANK, **row})
    assert (found, unit) == (pytest.approx(amount[0]), amount[1])


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"task": "instruction-tuning"}, "fine-tuning"),
        ({"task": "dpo", "framework": "torchtitan"}, "fine-tuning-lean"),
        ({"task": "llm-grpo"}, "rlhf"),
        ({"task": "ssl"}, "self-supervised"),
        ({"model": "llama3-8b", "samples_m": "0.05"}, "fine-tuning"),
        ({"model": "llama3-8b", "tokens_b": "5"}, "pretraining-short"),
        ({"model": "resnet50"}, "other"),
    ],
)
def test_kinds_are_told_however_the_task_is_called(row: dict[str, str], kind: str) -> None:
    assert kind_of({**BLANK, **row}) == kind


def test_the_active_parameters_of_a_mixture_that_no_table_knows_count() -> None:
    run = {"model": "somebodys-moe", "params_m": "60000", "task": "llm-pretrain", "tokens_b": "1000", "gpus": "512",
           "gpu": "H100-SXM5-80GB"}  # fmt: skip
    dense, mixture = hours([run, {**run, "active_params_m": "6000"}])
    assert mixture < dense / 4
