from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from estimator.cli.main import run as run_here

ROOT = Path(__file__).parents[3]
NOW = "2026-11-30T12:00:00Z"

SMALL = ["--model", "gpt2-124m", "--tokens", "10M", "--seq-len", "1024"]

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def output(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command line prints, run inside this process."""
    assert run_here(list(words)) == code
    return capsys.readouterr().out


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run `estimator` as a person would, in an empty folder with no environment of its own."""

    def run(*words: str, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("ESTIMATOR_", "NO_COLOR"))}
        surroundings = {
            **clean,
            "PYTHONPATH": str(ROOT),
            "ESTIMATOR_NOW": NOW,
            "ESTIMATOR_DATA_DIR": str(tmp_path / "data"),
            "ESTIMATOR_OFFLINE": "1",
            **(env or {}),
        }
        return subprocess.run(
            [sys.executable, "-m", "estimator", *words],
            cwd=tmp_path,
            env=surroundings,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The surroundings of a command that runs inside the test: a fixed time, an empty folder, no network."""
    for name in list(os.environ):
        if name.startswith(("ESTIMATOR_", "NO_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ESTIMATOR_NOW", NOW)
    monkeypatch.setenv("ESTIMATOR_OFFLINE", "1")
    monkeypatch.setenv("ESTIMATOR_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
