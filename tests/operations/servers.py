"""Real servers for these tests: the product's own as processes, Redis, and whatever else listens on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Server:
    """`estimator serve` as an operator starts it."""

    def __init__(self, folder: Path, *flags: str, **environment: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"log-{self.port}"
        plain = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder), "OMP_NUM_THREADS": "1",
            "ESTIMATOR_DATA_DIR": str(folder / "data"), "ESTIMATOR_OFFLINE": "1", "ESTIMATOR_RATE_PER_MINUTE": "0",
        }  # fmt: skip
        command = [sys.executable, "-m", "estimator", "serve", "--port", str(self.port), *flags]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=plain | environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def wait(self, seconds: float = 60.0) -> Server:
        """Until it is ready."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                if httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(self.log.read_text()[-3000:])

    def lines(self) -> list[dict[str, Any]]:
        """The log so far; every line is one JSON object."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def workers(self) -> list[int]:
        """The pids of the worker processes."""
        folder = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = [int(pid) for pid in folder.read_text().split()]
        return [pid for pid in found if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]

    def stop(self) -> int:
        """As a supervisor stops it; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@contextmanager
def serving(folder: Path, *flags: str, **environment: str) -> Iterator[Server]:
    """A server that is ready, stopped at the end."""
    server = Server(folder, *flags, **environment)
    try:
        yield server.wait()
    finally:
        server.stop()


@contextmanager
def redis_server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A Redis that keeps nothing, on loopback."""
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
               "--dir", str(folder)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            except OSError:
                time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def samples(url: str) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    """What `/metrics` exports, by name and labels."""
    from prometheus_client.parser import text_string_to_metric_families

    text = httpx.get(f"{url}/metrics", timeout=30).text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(url: str, name: str, **labels: str) -> float:
    """The sum of all samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(value for (found, has), value in samples(url).items() if found == name and wanted <= has)
