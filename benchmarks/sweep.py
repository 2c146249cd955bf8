"""How fast is a sweep, what do two processes gain, and what does an engine cost? Ratios and counts, by command.

usage: python benchmarks/sweep.py            cells a second, the gain of shared physics, the speed-up of processes
       python benchmarks/sweep.py --engines  overhead of a part: pool, Dask and, where it is installed, Ray

Processor seconds are of all processes together; where other work shares the cores they say more than the clock.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from estimator.sheets.answers import market_at
from estimator.sweep import engines, worker
from estimator.sweep.cells import Physics, Question, rows_of
from estimator.sweep.parts import Parts
from estimator.sweep.run import manifest_of, work_of
from estimator.sweep.spec import spec_of
from estimator.sweep.table import parquet_of, schema_of, table_of
from pricing.offers import current_offers

NOW = datetime(2026, 11, 1, tzinfo=UTC)
PHYSICS = {
    "model": ["llama3-8b", "mistral-7b", "qwen2.5-7b"],
    "seq_len": [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192],
    "precision": ["bf16", "fp8"],
    "cloud": ["aws", ["aws", "gcp", "azure"]],
}
LIMITS = {"deadline": ["6h", "12h", "24h", "48h"]}


def question(*, limits: bool) -> Question:
    """96 cells of different physics, or 4 limits for each of them."""
    spec = spec_of({"method": "lora", "tokens": "50M", "grid": PHYSICS | (LIMITS if limits else {})}, Path())
    return Question(spec, {"": market_at(current_offers(now=NOW), NOW)})


class Clock:
    """Wall and processor seconds of this process and its children since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), self._used()

    @staticmethod
    def _used() -> float:
        return sum(os.times()[:4])

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def cpu(self) -> float:
        return self._used() - self._cpu


def cells() -> None:
    """Cells a second of one process, with and without shared physics; candidates of a cell."""
    for limits in (False, True):
        asked = question(limits=limits)
        physics = Physics()
        rows_of(asked, 0, Physics())
        clock = Clock()
        for cell in range(len(asked.spec)):
            rows_of(asked, cell, physics)
        print(
            f"{'4 limits a job' if limits else 'no limits'}: {len(asked.spec)} cells, "
            f"{clock.cpu / len(asked.spec) * 1e3:.1f} ms of processor a cell ({physics.reused} shared)"
        )


def candidates() -> None:
    """Layouts that a plan over the whole snapshot looks at."""
    from estimator.planning import ways

    found = []
    search = ways.search

    def counted(*given: object) -> object:
        best = search(*given)  # type: ignore[arg-type]
        found.append(best.evaluated)
        return best

    ways.search = counted  # type: ignore[assignment]
    asked = question(limits=False)
    whole = [cell for cell in range(len(asked.spec)) if not isinstance(asked.spec.varied(cell)["cloud"], str)]
    clock = Clock()
    for cell in whole:
        rows_of(asked, cell, Physics())
    ways.search = search
    print(f"candidates of a plan: {sum(found) / len(found):,.0f}; {sum(found) / clock.cpu:,.0f} a processor second")


def rows(count: int = 100_000) -> None:
    """Bytes of a row in the whole file, and rows a second while parts are joined."""
    asked = question(limits=True)
    work = work_of(asked, manifest_of(asked, NOW.isoformat()))
    part = worker.answered(work, 0, Physics())
    few = [row for cell in range(48) for row in rows_of(asked, cell, Physics())]
    many = [  # no two rows with equal figures, as in a real sweep
        {key: value * (1 + n * 1e-7) if isinstance(value, float) else value for key, value in row.items()}
        for n, row in enumerate(few * 85)
    ]
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(Path(folder) / "out.parquet")
        parts.folder.mkdir()
        schema = schema_of(asked.spec, work.about)
        content = parquet_of(table_of(many, schema))
        number = max(1, count // len(many))
        for n in range(number):
            parts.keep(n, content)
        clock = Clock()
        parts.join(number, schema)
        print(
            f"a part of {work.cells_in_part} cells: {len(part):,} bytes; a row of many: {len(content) / len(many):.0f}"
        )
        print(f"{number * len(many) / clock.cpu:,.0f} rows joined a processor second")


def processes() -> None:
    """The same grid on 1 and on all cores, turn about: wall and processor seconds, and whether the bytes are equal."""
    import psutil

    asked = question(limits=True)
    work = work_of(asked, manifest_of(asked, NOW.isoformat()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    dict(engines.pool(cores)(work, range(cores)))  # what the processes are branched off is loaded
    lasting = {process.pid for process in psutil.Process().children(recursive=True)}
    best: dict[int, tuple[float, float]] = {}
    bytes_of: dict[int, dict[int, bytes]] = {}
    for _ in range(3):
        for count in (1, cores):
            clock, used = Clock(), 0.0
            found: dict[int, bytes] = {}
            for part, content in engines.pool(count)(work, range(work.parts)):
                found[part] = content
                if len(found) == work.parts:
                    new = [p for p in psutil.Process().children(recursive=True) if p.pid not in lasting]
                    used = clock.cpu + sum(sum(process.cpu_times()[:2]) for process in new)
            best[count] = min(best.get(count, (1e9, 1e9)), (clock.wall, used))
            bytes_of[count] = found
    for count, (wall, used) in best.items():
        print(f"{count} processes: {work.cells} cells in {wall:.1f} s, {used:.1f} s of processor")
    (wall, used), (wall_all, used_all) = best[1], best[cores]
    print(f"speed-up on {cores} cores: {wall / wall_all:.2f}, on {used_all / used:.2f} times the processor seconds")
    print(f"equal bytes: {bytes_of[1] == bytes_of[cores]}")


@contextmanager
def dask() -> Iterator[Callable[[int], object]]:
    """Empty tasks on two Dask processes."""
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield lambda count: client.gather(client.map(abs, range(count), pure=False))


@contextmanager
def ray() -> Iterator[Callable[[int], object]]:
    """Empty tasks on two Ray processes."""
    import ray as library

    library.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        empty = library.remote(lambda number: number)
        yield lambda count: library.get([empty.remote(number) for number in range(count)])
    finally:
        library.shutdown()


def overheads(count: int = 2000) -> None:
    """Start, seconds a task and memory of each engine."""
    for name, engine in (("Dask", dask), ("Ray", ray)):
        begun = time.perf_counter()
        try:
            with engine() as tasks:
                tasks(10)
                start = time.perf_counter() - begun
                begun, (used, _) = time.perf_counter(), _used()
                tasks(count)
                wall, (cpu, memory) = time.perf_counter() - begun, _used()
        except ImportError:
            print(f"{name}: not installed")
            continue
        each, busy = wall / count * 1e3, (cpu - used) / count * 1e3
        print(f"{name}: start {start:.1f} s, {each:.2f} ms a task ({busy:.2f} of processor), {memory:,.0f} MB")


def _used() -> tuple[float, float]:
    """Processor seconds and megabytes of this process and all that it has started."""
    import psutil

    cpu = memory = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):
            cpu += sum(process.cpu_times()[:2])
            memory += process.memory_info().rss / 1e6
    return cpu, memory


if __name__ == "__main__":
    if "--engines" in sys.argv:
        overheads()
    else:
        cells()
        candidates()
        rows()
        processes()
