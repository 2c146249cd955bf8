"""How long does a training step take on this machine? A stop-watch for any training loop, and the row it writes.

    from estimator import StepTimer

    timer = StepTimer(samples=32, synchronize=torch.cuda.synchronize)
    for batch in loader:
        with timer:
            train_step(batch)
    timer.write("mine.csv", model="llama3-8b", gpu="RTX-3090", micro_batch=4, seq_len=2048, precision="bf16")

then `estimator benchmarks add mine.csv`, or `--measured mine.csv`. Depends on nothing but the standard library.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from types import TracebackType

COLUMNS = (
    "model", "task", "gpu", "gpus", "nodes", "interconnect", "precision", "micro_batch", "global_batch", "seq_len",
    "image_size", "act_ckpt", "sharding", "tp", "pp", "cp", "ep", "attention", "compiled", "peft", "optimizer",
    "framework", "memory_format", "data_kind", "stack", "mem_gib_per_gpu", "date", "throughput", "unit", "scope",
    "notes",
)  # fmt: skip
"""What a row may say; `throughput`, `unit` and `scope` are the timer's."""


class StepTimer:
    """Times the steps of a loop: one `with timer:` around each optimizer step.

    samples: of one step, of all GPUs together (the global batch).
    warmup: first steps that do not count (compilation, caches, clocks).
    synchronize: waits until the device has finished, such as `torch.cuda.synchronize`; without it a GPU's step looks
        as short as its launch, unless the step itself waits (it reads the loss).
    clock: seconds, rising.
    """

    def __init__(
        self,
        samples: float,
        *,
        warmup: int = 10,
        synchronize: Callable[[], object] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        if samples <= 0:
            raise ValueError(f"samples of a step must be above 0, not {samples}")
        if warmup < 0:
            raise ValueError(f"warmup must not be negative, not {warmup}")
        self.samples = float(samples)
        self.warmup = warmup
        self.seconds: list[float] = []  # of every step that ended well, warm-up included
        self._wait = synchronize
        self._clock = clock
        self._began: float | None = None

    def __enter__(self) -> StepTimer:
        """Begin a step."""
        if self._wait is not None:
            self._wait()
        self._began = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End a step; one that failed is not counted."""
        began, self._began = self._began, None
        if error is not None or began is None:
            return
        if self._wait is not None:
            self._wait()
        self.seconds.append(self._clock() - began)

    @property
    def counted(self) -> list[float]:
        """Seconds of the steps after the warm-up."""
        return self.seconds[self.warmup :]

    @property
    def median_seconds(self) -> float:
        """Median seconds of a step after the warm-up; ValueError when none was timed."""
        if not self.counted:
            raise ValueError(f"{len(self.seconds)} steps were timed and the first {self.warmup} are warm-up")
        return median(self.counted)

    @property
    def samples_per_second(self) -> float:
        """Of all GPUs, at the median step."""
        return self.samples / self.median_seconds

    def row(self, *, model: str, gpu: str, **said: object) -> dict[str, str]:
        """The measurement as a row; `said` are further `COLUMNS` (ValueError for any other)."""
        unknown = sorted(set(said) - set(COLUMNS) | set(said) & {"throughput", "unit", "scope"})
        if unknown:
            raise ValueError(f"{unknown[0]} is no column; there are {', '.join(COLUMNS)}")
        cells = {"model": model, "gpu": gpu, "global_batch": f"{self.samples:g}", **said}
        cells |= {"throughput": f"{self.samples_per_second:.6g}", "unit": "samples/s", "scope": "total"}
        spread = max(self.counted) / min(self.counted) if min(self.counted) > 0 else 1.0
        cells.setdefault("notes", f"median of {len(self.counted)} steps, slowest {spread:.2f} times the fastest")
        return {name: str(cells[name]) for name in COLUMNS if cells.get(name) is not None}

    def write(self, path: str | Path, *, model: str, gpu: str, **said: object) -> dict[str, str]:
        """Append the row of `row` to the CSV file `path` (made with a header if it is not there) and return it."""
        row = self.row(model=model, gpu=gpu, **said)
        file = Path(path)
        fresh = not file.exists() or file.stat().st_size == 0
        with file.open("a", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(row)
        return row
