"""A server as a process: it lets requests under way end, renews its workers without losing one, and counts for all."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks_db.errors import WorkloadError
from estimator.cli.main import run
from estimator.cli.serve import serve
from tests.operations.servers import Server, serving, total

BATCH = {"workloads": [{"model": "llama3-8b", "tokens": f"{50 + n}M", "method": "lora"} for n in range(12)]}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers with a settings file."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "server.toml").write_text('now = 2026-09-15T12:00:00Z\nlog_format = "json"\n')
    with serving(folder, "--workers", "2", "--settings", str(folder / "server.toml")) as server:
        yield server


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("999.1.1.1", "'999.1.1.1' is no address to listen on"),
        ("", "'' is no address to listen on"),
        ("a..b", "'a..b' is no address to listen on"),
        ("192.0.2.7", "'192.0.2.7' is no address of this machine"),
    ],
)
def test_a_host_that_cannot_be_listened_on_is_a_wrong_command_line(
    host: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESTIMATOR_SERVE_FLAGS", "{}")  # taken back at the end, whatever `serve` writes there
    with pytest.raises(WorkloadError, match=words) as refused:
        serve(host=host, port=0, workers=None, settings=None, reload=False, offline=True)
    assert refused.value.field == "--host"


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_SERVE_FLAGS", "{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", "--offline", "--port", str(port)]) == 2
    assert f"--port: cannot listen on {port}: address already in use" in capsys.readouterr().err


def test_a_request_under_way_ends_before_the_server_does_and_the_log_is_objects_without_queries(tmp_path: Path) -> None:
    with serving(tmp_path, ESTIMATOR_LOG_FORMAT="json") as server:
        httpx.get(f"{server.url}/v1/cell?model=secret-model", headers={"x-request-id": "abc-1"}, timeout=60)
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(httpx.post(f"{server.url}/v1/batch", json=BATCH, timeout=120))

        asking = threading.Thread(target=ask)
        asking.start()
        while total(server.url, "estimator_planner_running") < 1:
            assert asking.is_alive(), "the batch was over before it was seen"
        assert server.stop() == 0
        asking.join()
        assert answers[0].status_code == 200
        assert answers[0].json()["answered"] == len(BATCH["workloads"])
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/healthz")
    lines = server.lines()
    (asked,) = [line for line in lines if line.get("route") == "/v1/cell"]
    assert (asked["request_id"], asked["status"], asked["level"]) == ("abc-1", 200, "info")
    assert asked["milliseconds"] > 0
    assert "secret-model" not in server.log.read_text()
    assert not any(line.get("route") in ("/healthz", "/metrics") for line in lines)


def test_a_connection_opened_just_before_the_end_is_answered_once(tmp_path: Path) -> None:
    with serving(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        httpx.get(f"{server.url}/healthz")  # the one before it has been accepted
        server.process.send_signal(signal.SIGTERM)
        while listens(server.port):
            time.sleep(0.02)
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.process.wait(60) == 0


def test_workers_are_renewed_without_losing_a_request_and_read_the_settings_anew(two: Server) -> None:
    before = set(two.workers())
    assert len(before) == 2
    file = two.log.parent / "server.toml"
    file.write_text('now = 2026-09-16T12:00:00Z\nlog_format = "json"\n')
    failed: list[object] = []
    ages: set[str] = set()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                answer = httpx.get(f"{two.url}/v1/offers?limit=1&cloud=aws", timeout=60)
            except httpx.TransportError as error:
                failed.append(error)
                continue
            if answer.status_code != 200:
                failed.append(answer)
            ages.add(answer.headers["age"])

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for one in asking:
        one.start()
    two.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 90
    while time.monotonic() < until and (set(two.workers()) & before or len(two.workers()) != 2):
        time.sleep(0.2)
    time.sleep(0.5)
    done.set()
    for one in asking:
        one.join()
    assert not failed
    assert not set(two.workers()) & before
    old, new = sorted(map(int, ages))
    assert new - old == 24 * 3600


def test_counts_are_of_all_workers_and_survive_one_that_is_killed(two: Server) -> None:
    before = total(two.url, "estimator_http_requests_total", route="/v1/gpus")
    with httpx.Client(timeout=60) as client:
        for _ in range(10):
            assert client.get(f"{two.url}/v1/gpus?limit=1", headers={"connection": "close"}).status_code == 200
    assert total(two.url, "estimator_http_requests_total", route="/v1/gpus", status="200") == before + 10
    assert total(two.url, "estimator_http_request_duration_seconds_count", route="/v1/gpus") == before + 10
    victim = two.workers()[0]
    os.kill(victim, signal.SIGKILL)
    until = time.monotonic() + 60
    while time.monotonic() < until and (victim in two.workers() or len(two.workers()) < 2):
        time.sleep(0.2)
    two.wait()
    assert total(two.url, "estimator_http_requests_total", route="/v1/gpus", status="200") == before + 10
    assert total(two.url, "estimator_http_requests_in_flight") == 1  # the one that asks


def test_what_prices_tell_a_monitor_is_exported(two: Server) -> None:
    assert total(two.url, "estimator_offers", state="snapshot") > 1000
    assert total(two.url, "estimator_price_newest_age_seconds", cloud="aws", market="spot") > 0
    assert total(two.url, "estimator_model_info") == 1
    assert total(two.url, "estimator_resident_memory_bytes") > 50e6
