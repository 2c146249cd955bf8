"""The command line as other programs see it: exit codes and the two streams of a real process."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from estimator.cli.main import run as run_here
from tests.estimator.cli.conftest import ROOT, Command

LORA = ("plan", "--model", "llama3-8b", "--method", "lora", "--tokens", "50M", "--seq-len", "2048")


def test_the_version_is_printed(command: Command) -> None:
    result = command("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("estimator 0.")
    assert result.stderr == ""


def test_a_plan_is_json_alone_on_standard_output(command: Command) -> None:
    result = command(*LORA, "--format", "json", "--top", "3")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["version"] == "1"
    assert [plan["rank"] for plan in document["plans"]] == [1, 2, 3]


def test_a_plan_reads_as_a_sentence_and_a_table(command: Command) -> None:
    result = command(*LORA, "--explain")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Cheapest: ")
    assert any(line.startswith("#") and "region" in line for line in lines)
    assert "Assumed:" in lines
    assert any(line.startswith("How this comes about: ") for line in lines)
    assert any(line.startswith("steps = ") for line in lines)
    assert "\x1b" not in result.stdout


def test_bad_input_is_exit_2_with_one_line_a_field(command: Command) -> None:
    result = command(*LORA, "--precision", "bf17", "--epochs", "0")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: epochs: '0' must be above 0 (did you mean 1?)",
        "error: precision: 'bf17' is not one of auto, fp64, fp32, tf32, fp16, bf16, pure-bf16, fp8"
        " (did you mean bf16 or fp16?)",
    ]


def test_no_plan_is_exit_3_and_names_what_binds(command: Command) -> None:
    result = command(*LORA, "--budget", "0.01", "--format", "json")
    assert result.returncode == 3
    document = json.loads(result.stdout)
    assert document["plans"] == []
    assert document["binding"] == "budget"
    assert "binding: budget" in result.stderr


def test_what_would_help_is_told_once(command: Command) -> None:
    for words in ((), ("--format", "json")):
        result = command(*LORA, "--budget", "0.01", *words)
        assert (result.stdout + result.stderr).count("the cheapest plan costs") == 1 + bool(words)


def test_no_usable_price_is_exit_4(command: Command) -> None:
    result = command(*LORA, "--max-age", "1h")
    assert result.returncode == 4
    assert result.stdout == ""
    assert result.stderr.startswith("error: max_age: no price is at most 1 h old: the newest is ")


def test_an_age_below_zero_is_bad_input(command: Command) -> None:
    result = command(*LORA, "--max-age", "-3h")
    assert result.returncode == 2
    assert result.stderr.startswith("error: --max-age: '-3h' must be at least 0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plna",), "no such command 'plna'"),
        (("plan", "--modle", "x"), "no such option: --modle"),
        (("plan", "--model"), "option '--model' requires an argument"),
        (("predict",), "missing argument 'rows.csv'"),
        (("serve", "--port", "many"), "invalid value for '--port'"),
        (("plan", "a.yaml", "b.yaml"), "got unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_exit_2_with_its_usage(command: Command, words: tuple[str, ...], message: str) -> None:
    result = command(*words)
    assert result.returncode == 2
    assert message in result.stderr.lower()
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_unreadable_yaml_says_where(command: Command, tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_text("model: [x\ntokens: 5\n")
    result = command("plan", "request.yaml")
    assert result.returncode == 2
    assert "line 2, column" in result.stderr


def test_a_request_is_read_from_standard_input(command: Command) -> None:
    result = command("plan", "-", "--format", "json", "--top", "1", stdin="model: gpt2-124m\ntokens: 10M\n")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["plans"]) == 1


@pytest.mark.parametrize("words", [("plan", "-"), ("predict", "-"), ("track", "-")])
def test_bytes_that_are_no_text_are_bad_input(tmp_path: Path, words: tuple[str, ...]) -> None:
    import subprocess
    import sys

    result = subprocess.run(
        [sys.executable, "-m", "estimator", *words], input=b"\xff\xfe\x00", cwd=ROOT, capture_output=True, timeout=120
    )
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: ")
    assert b"internal" not in result.stderr


def test_a_model_where_a_file_belongs_is_told_the_flag(command: Command) -> None:
    result = command("plan", "llama3-8b", "--tokens", "5M")
    assert result.returncode == 2
    assert "did you mean --model llama3-8b?" in result.stderr


def test_a_variable_that_cannot_be_read_is_named(command: Command) -> None:
    result = command("plan", "--model", "gpt2-124m", "--tokens", "5M", env={"ESTIMATOR_NOW": "yesterday"})
    assert result.returncode == 2
    assert result.stderr.startswith("error: ESTIMATOR_NOW: ")


def test_the_example_runs_from_its_file(command: Command) -> None:
    result = command("plan", str(ROOT / "examples" / "lora-llama3-8b.yaml"), "--format", "csv", "--top", "2")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["rank"] for row in rows] == ["1", "2"]
    assert float(rows[0]["cost_usd_p50"]) <= float(rows[1]["cost_usd_p50"])


def test_a_reader_that_goes_away_is_no_fault(command: Command, tmp_path: Path) -> None:
    import subprocess
    import sys

    process = subprocess.Popen(
        [sys.executable, "-m", "estimator", "models", "--format", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("where", "code", "message"),
    [(">&-", 0, ""), (">/dev/full", 2, "error: the result cannot be written: No space left on device\n")],
)
def test_a_standard_output_that_takes_nothing_is_no_fault_of_the_program(where: str, code: int, message: str) -> None:
    import subprocess
    import sys

    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    line = f"{sys.executable} -m estimator models gpt2 {where}"
    result = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (code, message)


def loaded_by(words: list[str], env: dict[str, str]) -> set[str]:
    """The top-level packages in memory after a command."""
    import os
    import subprocess
    import sys

    script = (
        "import io, sys, contextlib\n"
        "from estimator.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    assert run({words!r}) == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(result.stdout.split())


def test_a_plan_loads_nothing_heavy(tmp_path: Path) -> None:
    env = {"ESTIMATOR_DATA_DIR": str(tmp_path), "ESTIMATOR_OFFLINE": "1"}
    loaded = loaded_by([*LORA, "--top", "3"], env)
    assert "numpy" in loaded
    assert not loaded & {
        "boto3",
        "botocore",
        "google",
        "fastapi",
        "uvicorn",
        "sqlalchemy",
        "scipy",
        "httpx",
        "rich",
        "pandas",
    }


def test_the_version_loads_next_to_nothing(tmp_path: Path) -> None:
    assert not loaded_by(["--version"], {}) & {"numpy", "pydantic", "typer", "yaml"}


def test_a_misspelt_machine_names_the_nearest_machines(capsys: pytest.CaptureFixture[str]) -> None:
    for words, near in ((["offers", "p5.48xlarg"], "p5.48xlarge"), (["offers", "H10O"], "H100")):
        assert run_here(words) == 2
        assert near in capsys.readouterr().err


def test_a_file_that_is_no_config_is_blamed_on_its_own_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("[1, 2]", "no json", "", "{"):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        assert run_here(["plan", "--hf-config", str(tmp_path / "config.json"), "--tokens", "5M"]) == 2
        assert capsys.readouterr().err.startswith("error: hf_config: ")


def test_measurements_are_listed_by_any_name_of_their_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(["benchmarks", "list", "--gpu", "a100 80gb", "--format", "csv"]) == 0
    cards = {row["gpu"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert {"A100-SXM4-80GB", "A100-80GB"} <= cards
    assert not any("40GB" in card or "H100" in card for card in cards)
