"""Flags, files and variables: what a command line comes to as a request."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.cli.main import run
from estimator.cli.request_flags import REQUEST_FLAGS, workload_of
from estimator.request.workload import Constraints, Options, Workload
from tests.estimator.cli.conftest import SMALL, output


def test_every_request_key_has_a_flag() -> None:
    flags = {flag.key for flag in REQUEST_FLAGS}
    in_files = ("lora", "constraints", "options", "run", "spot", "bill", "negotiated")  # the last one: --overrides FILE
    keys = {key for key in Workload.model_fields if key not in in_files}
    keys |= {f"lora.{key}" for key in ("rank", "alpha", "targets")}
    keys |= set(Constraints.model_fields) | set(Options.model_fields) | {"set", "bill.currency"}
    assert flags == keys


def test_no_two_flags_share_a_name() -> None:
    names = [name for flag in REQUEST_FLAGS for name in flag.names]
    assert len(names) == len(set(names))


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(
        "model: llama3-8b\ntokens: 5M\nconstraints: {deadline: 1h, budget: 5}\nlora: {rank: 8}\nmethod: lora\n"
    )
    request = workload_of(
        file, {"deadline": "2h", "lora.rank": "32", "samples": "7", "regions": ["us-*,europe", "asia"]}
    )
    assert request.constraints.deadline == 2
    assert request.constraints.budget == 5
    assert request.lora is not None
    assert request.lora.rank == 32
    assert (request.tokens, request.samples) == (None, 7)
    assert request.constraints.regions == ("us-*", "europe", "asia")


def test_any_key_can_be_set_by_its_path() -> None:
    request = workload_of(
        None, {"model": "x", "set": ["run.evaluate.every_steps=10", "run.evaluate.samples=5k", "tokens=5M"]}
    )
    assert request.run.evaluate is not None
    assert request.run.evaluate.samples == 5000
    assert request.tokens == 5e6
    with pytest.raises(WorkloadError, match=r"run\.evaluate\.every_stepz.*did you mean every_steps"):
        workload_of(None, {"model": "x", "set": ["run.evaluate.every_stepz=1"]})
    with pytest.raises(WorkloadError, match="--set"):
        workload_of(None, {"model": "x", "set": ["run.trials"]})


def test_another_model_on_the_command_line_replaces_the_files(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"architecture": {"layers": 2, "hidden": 64}, "tokens": 5}')
    assert workload_of(file, {"model": "gpt2-124m"}).architecture is None
    assert workload_of(file, {"custom": "params_m=5,flops_per_sample=1G"}).custom is not None


def test_a_trainers_config_is_planned_and_what_is_lost_is_said(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "axolotl.yml").write_text(
        "base_model: openai-community/gpt2\nsequence_len: 1024\nmicro_batch_size: 2\nnum_epochs: 1\n"
        "deepspeed: zero3.json\nunsloth_lora_mlp: true\n"
    )
    (quiet / "zero3.json").write_text('{"zero_optimization": {"stage": 3}, "train_batch_size": "auto"}')
    assert run(["plan", "axolotl.yml", "--tokens", "5M", "--top", "1", "--format", "json"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["workload"]["sharding"] == "zero3"
    assert "read as a config of axolotl" in streams.err
    assert "not planned: unsloth_lora_mlp" in streams.err


def test_a_config_can_be_named_on_the_command_line(quiet: Path) -> None:
    (quiet / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
    assert workload_of(None, {"hf_config": "config.json"}).hf_config == {"model_type": "llama", "hidden_size": 64}
    assert workload_of(None, {"hf_config": "."}).hf_config == {"model_type": "llama", "hidden_size": 64}


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["--tokens", "-5"], "tokens"),
        (["--seq-len", "1e12"], "seq_len"),
        (["--own", "lab"], "own"),
        (["--own", "name=lab,gpu=T4,nodes=0"], "own.0.nodes"),
        (["--gpu", "H100:x"], "constraints.gpus"),
        (["--market", "futures"], "constraints.markets.0"),
        (["--deadline", "soon"], "constraints.deadline"),
        (["--format", "yml"], "--format"),
        (["--max-age", "old"], "--max-age"),
        (["--tp", "0"], "tensor_parallel"),
        (["--hf-config", "missing.json"], "hf_config"),
        (["--architecture", "layers"], "architecture"),
        (["--custom", "params_m=x,flops_per_sample=1"], "custom.params_m"),
        (["--top", "0"], "options.top"),
        (["--lora-rank", "8"], "method"),
    ],
)
def test_a_wrong_flag_is_named_like_its_key(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str], field: str
) -> None:
    model = [] if words[0] in ("--hf-config", "--architecture", "--custom") else ["--model", "gpt2-124m"]
    assert run(["plan", *model, "--tokens", "5M", *words]) == 2
    streams = capsys.readouterr()
    assert streams.err.startswith(f"error: {field}: ")
    assert streams.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["plan", ...], ["diff", ..., ...], ["predict", ...], ["tokens", ...], ["track", ...],
        ["tokens", "data.txt", "--tokenizer", ...], ["plan", "--hf-config", ..., "--tokens", "1M"],
        ["plan", *SMALL, "--measured", ...],
        ["benchmarks", "add", "--from-log", ...], ["reconcile", ...], ["sheet", "fill", ..., "-o", "out.csv"],
        ["plan", *SMALL, "-o", ...], ["plan", *SMALL, "--quota", ...], ["prices", "import", ...],
        ["sweep", ..., "-o", "x.csv"],
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "text", ["a" * 5000, "model: gpt2-124m\ntokens: 5M\n" * 20, "a\0b"], ids=["long", "yaml", "zero"]
)
def test_a_text_that_can_be_no_file_is_wrong_input(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    (quiet / "data.txt").write_text("a line of text\n")
    assert run([text if word is ... else word for word in words]) == 2
    assert "internal fault" not in capsys.readouterr().err


def test_a_price_of_nothing_is_the_nearest_to_a_negative_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *SMALL, "--own", "name=lab,gpu=T4,gpus_per_node=1,usd_per_hour=-1"]) == 2
    assert "own.0.usd_per_hour: '-1' must be at least 0 (did you mean 0?)" in capsys.readouterr().err


def test_flags_may_be_written_as_keys(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(output(capsys, "plan", *SMALL, "--max_nodes", "1", "--top", "1", "--format", "json"))["plans"]


@pytest.mark.parametrize("words", [["gpus", "T4"], ["prices", "export"], ["tokens", "data.txt"]])
def test_every_command_may_be_told_to_stay_offline_and_plain(
    words: list[str], quiet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (quiet / "data.txt").write_text("a line of text\n")
    before = dict(os.environ)
    assert output(capsys, *words, "--format", "json", "--offline", "--no-color")
    assert dict(os.environ) == before  # the flags hold for the command only


def test_a_flag_is_laid_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_OFFLINE", "0")
    seen: list[str | None] = []
    monkeypatch.setattr("estimator.cli.catalogue.gpus", lambda: seen.append(os.environ.get("ESTIMATOR_OFFLINE")))
    assert run(["gpus", "--offline"]) == 0
    assert seen == ["1"]
    assert os.environ["ESTIMATOR_OFFLINE"] == "0"


def test_prices_are_exported_as_json_only(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prices", "export", "--format", "csv"]) == 2
    assert "--format: an export is JSON" in capsys.readouterr().err
