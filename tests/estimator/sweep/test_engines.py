"""A pool and a cluster give the bytes of one process, also when workers die on the way."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchmarks_db.errors import WorkloadError
from estimator.sweep import engines
from estimator.sweep.worker import OtherProgram, Work, compared
from tests.end_to_end.conftest import ROOT, environment


def _dies_with(part: int) -> bytes:
    """Instead of `worker.one` in a process of the pool."""
    os.kill(os.getpid(), signal.SIGKILL)
    return bytes(part)


def test_a_pool_of_two_whose_process_is_killed_gives_the_bytes_of_one(work: Work, alone: dict[int, bytes]) -> None:
    done = engines.pool(2)(work, range(work.parts))
    found = dict([next(done)])
    victim = next(p for p in psutil.Process().children(recursive=True) if _is_worker(p))
    victim.kill()
    found |= dict(done)
    assert found == alone


def _is_worker(process: psutil.Process) -> bool:
    """A process of the pool: a child of the one that they are branched off."""
    parent = process.parent()
    return parent is not None and "forkserver" in " ".join(parent.cmdline())


def test_a_pool_that_keeps_dying_says_so(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.worker, "one", _dies_with)
    with pytest.raises(engines.SweepStopped, match="keep dying"):
        dict(engines.pool(1)(work, range(work.parts)))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler with two workers of one thread, started as an operator starts them."""
    file, env = tmp_path / "scheduler.json", environment(tmp_path)
    common = ["--scheduler-file", str(file), "--no-dashboard"]

    def started(name: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{name}", *common, *more],
            cwd=ROOT,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    processes = [started("scheduler", "--port", "0", "--host", "127.0.0.1")]
    worker = ("--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path))
    processes += [started("worker", *worker) for _ in range(2)]
    try:
        until = time.monotonic() + 60
        while not (written := file.read_text() if file.exists() else "").endswith("}") and time.monotonic() < until:
            time.sleep(0.05)
        yield json.loads(written)["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_cluster_of_two_processes_loses_one_and_gives_the_bytes_of_one(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], work: Work, alone: dict[int, bytes]
) -> None:
    import distributed

    address, workers = cluster
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    done = engines.cluster(address)(work, range(work.parts))
    found = dict([next(done)])
    workers[0].kill()
    found |= dict(done)
    assert found == alone


def test_no_scheduler_is_said_so(work: Work) -> None:
    with pytest.raises(WorkloadError, match="no scheduler answers at 'nonsense'"):
        dict(engines.cluster("nonsense")(work, [0]))


def test_a_worker_of_another_version_is_refused(work: Work) -> None:
    with pytest.raises(OtherProgram, match="another version"):
        compared(pickle.dumps(replace(work, program="other")))
