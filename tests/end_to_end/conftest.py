"""A real server on loopback, and the command line as a person runs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOW = "2026-09-01T00:00:00Z"


def environment(folder: Path) -> dict[str, str]:
    """What every process of these tests sees: no network, a fixed day, its own data folder."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "ESTIMATOR_DATA_DIR": str(folder / "data"),
        "ESTIMATOR_NOW": NOW,
        "ESTIMATOR_OFFLINE": "1",
        "ESTIMATOR_RATE_PER_MINUTE": "0",
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }


@dataclass(frozen=True)
class CommandLine:
    """`estimator` as a process of its own."""

    folder: Path

    def __call__(self, *arguments: str, code: int = 0, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", "from estimator.cli import main; main()", *arguments],
            cwd=ROOT,
            env=environment(self.folder),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The JSON document on stdout, and nothing else there."""
        document: dict[str, Any] = json.loads(self(*arguments, "--format", "json", code=code).stdout)
        return document


@pytest.fixture(scope="session")
def estimator(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server started as a person starts it."""
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    command = "from estimator.cli import main; main()"
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [sys.executable, "-c", command, "serve", "--host", "127.0.0.1", "--port", str(port)],
            cwd=ROOT,
            env=environment(folder),
            stdout=lines,
            stderr=lines,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _await(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text()[-2000:]}")
