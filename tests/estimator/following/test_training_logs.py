"""Logs as the trainers write them, shortened; figures made up."""

from __future__ import annotations

import json

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.following.training_logs import read_training_log

SUMMARY = {
    "epoch": 1.0,
    "step": 500,
    "total_flos": 1.2e17,
    "train_loss": 1.1,
    "train_runtime": 4000.0,
    "train_samples_per_second": 4.0,
    "train_steps_per_second": 0.125,
}
STATE = {
    "global_step": 500,
    "max_steps": 500,
    "train_batch_size": 4,
    "log_history": [{"epoch": 0.1, "loss": 2.0, "step": 50}, SUMMARY],
}


def test_a_trainer_state_says_rate_and_batches() -> None:
    found = read_training_log(json.dumps(STATE))
    assert found.trainer == "Hugging Face Trainer"
    assert found.cells == {
        "throughput": "4",
        "unit": "samples/s",
        "scope": "total",
        "global_batch": "32",
        "micro_batch": "4",
    }
    assert any("warm-up" in note for note in found.notes)


def test_a_trainer_state_of_an_unfinished_run_says_that_it_has_no_times() -> None:
    with pytest.raises(WorkloadError, match="had not finished"):
        read_training_log(json.dumps({**STATE, "log_history": STATE["log_history"][:1]}))  # type: ignore[index]


def test_the_console_of_the_trainer_says_the_same() -> None:
    text = (
        "***** Running training *****\n  Instantaneous batch size per device = 4\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 32\n"
        "{'loss': 2.0, 'learning_rate': 1e-4, 'epoch': 0.1}\n"
        "{'train_runtime': '4000', 'train_samples_per_second': '4', 'train_steps_per_second': '0.125'}\n"
    )
    assert read_training_log(text).cells == read_training_log(json.dumps(STATE)).cells
    assert read_training_log(json.dumps(SUMMARY)).cells["throughput"] == "4"


def test_lightning_readings_after_the_warm_up_count() -> None:
    rows = ["epoch,step,train/device/batches_per_sec,train/device/samples_per_sec,train_loss"]
    rows += [f"0,{10 * n},{0.5 if n == 0 else 2.0},{16 if n == 0 else 64.0}," for n in range(5)]
    rows.insert(3, "0,25,,,1.5")  # a row of another metric has no rate
    found = read_training_log("\n".join(rows))
    assert found.trainer == "Lightning"
    assert found.cells == {"throughput": "64", "unit": "samples/s", "scope": "per_gpu", "micro_batch": "32"}


def test_lightning_says_what_all_devices_do_where_there_are_several() -> None:
    text = (
        "step,train|global/samples_per_sec,train|global/batches_per_sec,train|global/items_per_sec,train|device/samples_per_sec\n"
        "10,128,4,262144,16\n"
    )
    assert read_training_log(text).cells == {
        "throughput": "128",
        "unit": "samples/s",
        "scope": "total",
        "global_batch": "32",
        "seq_len": "2048",
    }


def test_a_metrics_file_without_times_says_what_to_add() -> None:
    with pytest.raises(WorkloadError, match="ThroughputMonitor"):
        read_training_log("epoch,step,train_loss\n0,1,2.5\n")


def test_composer_lines_tell_length_batch_and_gpus() -> None:
    block = (
        "[batch={n}/4800]:\n"
        "\t Train trainer/device_train_microbatch_size: 8\n"
        "\t Train throughput/batches_per_sec: {b:.4f}\n"
        "\t Train throughput/samples_per_sec: {s:.4f}\n"
        "\t Train throughput/tokens_per_sec: {t:.4f}\n"
        "\t Train throughput/device/tokens_per_sec: {d:.4f}\n"
    )
    text = "".join(
        block.format(n=n, b=b, s=b * 256, t=b * 256 * 2048, d=b * 256 * 2048 / 8)
        for n, b in enumerate((0.02, 0.1, 0.1, 0.1))
    )
    found = read_training_log(text)
    assert found.trainer == "Composer (llm-foundry)"
    assert found.cells == {
        "throughput": "52428.8",
        "unit": "tokens/s",
        "scope": "total",
        "seq_len": "2048",
        "global_batch": "256",
        "gpus": "8",
        "micro_batch": "8",
        "framework": "composer",
    }


def test_any_log_with_timed_steps_gives_seconds_a_step() -> None:
    found = read_training_log("\n".join(f"iter {n}: loss 2.1, time 250.00ms" for n in range(0, 200, 10)))
    assert found.cells["unit"] == "s/step"
    assert float(found.cells["throughput"]) == pytest.approx(0.25)


@pytest.mark.parametrize("text", ["", "nothing here", "{", "[]", '{"loss": 1}'])
def test_a_log_without_times_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        read_training_log(text)
    assert caught.value.field == "--from-log"
