"""What a script sees when a request cannot be served: the code says which kind, stderr says which field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CommandLine

LORA = ("plan", "--model", "llama3-8b", "--method", "lora", "--tokens", "50M")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "--model", "llama3-8bb", "--tokens", "1M"), ("model", "llama3-8b")),
        ((*LORA, "--precision", "bf61"), ("precision", "bf16")),
        ((*LORA, "--gpu", "H1000"), ("H1000", "H100")),
        (("plan", "--model", "llama3-8b", "--tokens", "-5"), ("tokens", "at least 1")),
        (("plan", "--model", "llama3-8b", "--tokens", "1e30"), ("tokens", "limit")),
        (("plan", "--model", "llama3-8b"), ("tokens",)),
        (("plan", "no-such-file.yaml"), ("no-such-file.yaml",)),
        (("estimate", "--model", "llama3-8b", "--tokens", "1M", "--gpu", "gaudi2"), ("gaudi", "NVIDIA")),
    ],
)
def test_bad_input_exits_2_and_names_the_field(
    arguments: tuple[str, ...], words: tuple[str, ...], estimator: CommandLine
) -> None:
    done = estimator(*arguments, code=2)
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_an_unreadable_file_exits_2_and_names_line_and_column(estimator: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "request.yaml"
    path.write_text("model: llama3-8b\ntokens: [1, 2\nmethod: lora\n")
    done = estimator("plan", str(path), code=2)
    assert "line 3" in done.stderr
    assert "column" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "binding"),
    [
        ((*LORA, "--deadline", "1 minute"), "deadline"),
        ((*LORA, "--budget", "0.01"), "budget"),
        (
            ("plan", "--model", "gpt3-175b", "--method", "full", "--tokens", "1M", "--max-nodes", "1", "--gpu", "T4"),
            "memory",
        ),
    ],
)
def test_no_feasible_plan_exits_3_and_names_what_binds(
    arguments: tuple[str, ...], binding: str, estimator: CommandLine
) -> None:
    done = estimator(*arguments, "--format", "json", code=3)
    document = json.loads(done.stdout)
    assert document["plans"] == []
    assert document["binding"] == binding
    assert document["rejected"]
    assert binding in done.stderr


def test_no_price_that_is_young_enough_exits_4(estimator: CommandLine) -> None:
    done = estimator(*LORA, "--max-age", "1h", code=4)
    assert "old" in done.stderr


def test_a_document_on_stdout_is_json_alone(estimator: CommandLine) -> None:
    done = estimator(*LORA, "--format", "json", "--top", "1")
    assert len(json.loads(done.stdout)["plans"]) == 1
