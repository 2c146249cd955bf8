"""Who works the cells out? This process, a pool of local ones, or an existing Dask cluster; all give the same bytes.

Each engine takes the parts to do and yields `(part, Parquet bytes)` as they come, in any order, with only a few parts
on their way at a time, so that a grid of any length needs no list of it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.sweep import worker
from estimator.sweep.cells import Physics
from estimator.sweep.worker import Work
from estimator.threads import one_thread

Done = Iterator[tuple[int, bytes]]
Engine = Callable[[Work, Iterable[int]], Done]

AHEAD = 2  # parts on their way for each process: one in work, one waiting
LOST_IN_A_ROW = 3  # pools that may break without a part done between


class SweepStopped(EstimatorError):  # noqa: N818  (reads as what happened)
    """The workers are gone; what they had finished is kept."""


def here(work: Work, parts: Iterable[int]) -> Done:
    """In this process, one after the other."""
    physics = Physics()
    for part in parts:
        yield part, worker.answered(work, part, physics)


def pool(processes: int) -> Engine:
    """On local processes. A process that dies is replaced and its parts are done again."""

    def done(work: Work, parts: Iterable[int]) -> Done:
        content, lost = worker.packed(work), 0
        queue, again = iter(parts), list[int]()
        while True:
            running: dict[Future[bytes], int] = {}
            try:
                with _executor(processes, content) as executor:
                    while True:
                        room = processes * AHEAD - len(running)
                        for part in _next(again, queue, room):
                            running[executor.submit(worker.one, part)] = part
                        if not running:
                            return
                        finished, _ = wait(running, return_when=FIRST_COMPLETED)
                        for future in finished:
                            content_of_part = future.result()
                            yield running.pop(future), content_of_part
                            lost = 0
            except BrokenProcessPool:
                again = sorted({*again, *running.values()})
                lost += 1
                if lost >= LOST_IN_A_ROW:
                    raise SweepStopped(
                        "the worker processes keep dying: too little memory?", field="--jobs", value=processes
                    ) from None

    return done


def _next(again: list[int], queue: Iterator[int], room: int) -> list[int]:
    """The next parts to hand out, those that were lost first; taken off both."""
    taken = again[:room]
    del again[:room]
    return taken + list(islice(queue, room - len(taken)))


@contextmanager
def _executor(processes: int, content: bytes) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes are branched off one that has loaded everything; on Windows each loads it itself."""
    method = "spawn" if sys.platform == "win32" else "forkserver"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["estimator.sweep.preload"])
    with _one_thread_each():
        executor = ProcessPoolExecutor(processes, mp_context=context, initializer=worker.start, initargs=(content,))
        try:
            yield executor
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes of the pool share the cores: their libraries must not start a thread for each core as well."""
    missing = one_thread()
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def cluster(address: str) -> Engine:
    """On a Dask cluster that is there already (`tcp://host:8786`); Dask does again what a worker that dies had."""

    def done(work: Work, parts: Iterable[int]) -> Done:
        distributed = _distributed()
        queue = iter(parts)
        with _client(distributed, address) as client:
            threads = max(1, sum(client.nthreads().values()))
            there = client.submit(worker.compared, worker.packed(work), pure=False)
            waiting = distributed.as_completed(loop=client.loop)
            number: dict[Any, int] = {}

            def hand_out(count: int) -> None:
                for part in islice(queue, count):
                    future = client.submit(worker.one_of, there, part, pure=False)
                    number[future.key] = part
                    waiting.add(future)

            hand_out(threads * AHEAD)
            for future in waiting:
                try:
                    content = future.result()
                except EstimatorError:
                    raise
                except Exception as error:
                    raise SweepStopped(
                        f"the cluster gave a part up: {type(error).__name__}: {error}", field="--scheduler"
                    ) from error
                hand_out(1)
                yield number.pop(future.key), content

    return done


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise WorkloadError(
            "a cluster is reached with Dask: pip install 'gpu-cost-estimator[sweep]'", field="--scheduler"
        ) from None
    return distributed


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise WorkloadError(
            f"no scheduler answers at {address!r}: {error}",
            field="--scheduler",
            value=address,
            nearest=() if "://" in address else ("tcp://127.0.0.1:8786",),
        ) from None
    try:
        if not client.nthreads():
            raise SweepStopped(f"the cluster at {address} has no workers", field="--scheduler")
        yield client
    finally:
        with suppress(Exception):  # a scheduler that is gone cannot be told goodbye
            client.close(timeout=5)
