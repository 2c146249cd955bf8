"""Raw bytes against a real server: what a careful client would never send."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("wire")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "ESTIMATOR_DATA_DIR": str(folder),
        "ESTIMATOR_OFFLINE": "1",
        "ESTIMATOR_BODY_SECONDS": "0.5",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", "from estimator.cli import main; main()", "serve", "--port", str(number)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                httpx.get(f"http://127.0.0.1:{number}/healthz", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield number
    finally:
        process.terminate()
        process.wait(timeout=20)


def answers(port: int, sent: bytes) -> list[int]:
    """The statuses of all answers to these bytes on one connection, until the server closes it or says no more."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(sent)
            while part := connection.recv(65536):
                got += part
                connection.settimeout(0.7)  # a second answer would follow at once
        except (TimeoutError, OSError):
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", got)]


SMUGGLED = b"GET /v1/gpus HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
        b"Content-Length : 0\r\n\r\n",
        b"Content-Length: +0\r\n\r\n",
        b"Content-Length: 0x0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_no_second_request_hides_in_a_first_one(port: int, headers: bytes) -> None:
    """A front server that reads the length otherwise must not get an answer to a request that it never saw."""
    first = b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + headers
    found = answers(port, first + SMUGGLED)
    assert found
    assert 200 not in found
    assert all(400 <= status < 500 for status in found), found


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /v1/gpus HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /v1/gpus HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/v1/gpus HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /v1/gpus HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n",
        b"GET /v1/gpus HTTP/1.1\r\nHost: localhost\r\nX-A: \x00\r\n\r\n",
        b"GET /static/../../pyproject.toml HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /static/%2e%2e/%2e%2e/pyproject.toml HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /static/..%2f..%2fapp.py HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_no_client_sends_is_refused(port: int, request_: bytes) -> None:
    found = answers(port, request_)
    assert all(400 <= status < 500 for status in found), found
    assert answers(port, SMUGGLED) == [200]  # and the server goes on


def test_a_body_that_drips_is_cut_off(port: int) -> None:
    head = b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head)
        try:
            for _ in range(50):
                connection.sendall(b" ")
                time.sleep(0.1)
        except OSError:
            pass
        connection.settimeout(20)
        try:
            got = connection.recv(65536)
        except ConnectionResetError:
            got = b""
    assert time.monotonic() - began < 15
    assert not got or got.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("pattern", ["*a" * 90 + "b", "[" * 200, "?" * 200, "[!" * 90, "*" * 200])
def test_patterns_made_to_backtrack_do_not(port: int, pattern: str) -> None:
    began = time.monotonic()
    answer = httpx.get(
        f"http://127.0.0.1:{port}/v1/benchmarks", params={"model": pattern, "source": pattern}, timeout=30
    )
    assert answer.status_code in (200, 422)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "name", ["ｌｌａｍａ３-8b", "llama3\u200b-8b", "LLAMA3\u0130", "llama3-8b\u202e", "llama3-8b\x00"]
)
def test_look_alikes_are_other_names(port: int, name: str) -> None:
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/plan", json={"model": name, "tokens": "1M"}, timeout=30)
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert answer.json()["warnings"] or answer.json()["plans"]
