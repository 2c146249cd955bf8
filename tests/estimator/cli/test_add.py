"""`benchmarks add`: from a CSV, from a log with what it leaves open, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks_db.contribute import own_rows
from estimator.cli.main import run

LINES = "\n".join(f"iter {n}: loss 2.1, time 250.00ms" for n in range(0, 200, 10))


def test_a_log_and_what_it_leaves_open_make_a_measurement(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "run.log").write_text(LINES)
    words = ["benchmarks", "add", "--from-log", "run.log", "--model", "gpt2-124m", "--gpu", "RTX-3090:2"]
    assert run([*words, "--set", "seq-len=1024", "--set", "global_batch=16", "--set", "precision=bf16"]) == 0
    (row,) = own_rows(quiet / "data")
    assert (row["gpus"], row["throughput"], row["unit"]) == ("2", "0.25", "s/step")
    assert (row["seq_len"], row["global_batch"], row["precision"]) == ("1024", "16", "bf16")
    assert "1 new rows kept" in capsys.readouterr().err


def test_a_log_does_not_say_on_which_card(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "run.log").write_text(LINES)
    assert run(["benchmarks", "add", "--from-log", "run.log", "--model", "gpt2-124m"]) == 2
    assert "--gpu" in capsys.readouterr().err


def test_an_impossible_log_is_refused_and_nothing_is_kept(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "state.json").write_text(json.dumps({"train_samples_per_second": 90000, "train_steps_per_second": 900}))
    words = ["benchmarks", "add", "--from-log", "state.json", "--model", "llama3-8b", "--gpu", "RTX-3090"]
    assert run([*words, "--set", "seq_len=2048"]) == 2
    assert "TFLOP/s, and the dense peak" in capsys.readouterr().err
    assert own_rows(quiet / "data") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a CSV of measurements or --from-log"),
        (["a.csv", "--from-log", "b.log"], "give a CSV of measurements or --from-log"),
        (["a.csv", "--gpu", "H100"], "a CSV has columns"),
        (["--from-log", "missing.log"], "there is no file missing.log"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["benchmarks", "add", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_column_that_is_none_is_told_the_nearest(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "run.log").write_text(LINES)
    words = ["benchmarks", "add", "--from-log", "run.log", "--model", "gpt2-124m", "--gpu", "RTX-3090"]
    assert run([*words, "--set", "seqlen=1024"]) == 2
    assert "did you mean seq_len" in capsys.readouterr().err


def test_measurements_that_disagree_are_kept_and_flagged(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "mine.csv").write_text(
        "model,gpu,seq_len,micro_batch,throughput,unit\n"
        "gpt2-124m,RTX-3090,1024,8,30000,tokens/s\ngpt2-124m,RTX-3090,1024,8,20000,tokens/s\n"
    )
    assert run(["benchmarks", "add", "mine.csv"]) == 0
    assert "disagree by a factor 1.50" in capsys.readouterr().err
    assert len(own_rows(quiet / "data")) == 2
