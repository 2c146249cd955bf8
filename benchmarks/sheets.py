"""How long do sheets take? 500 cells of a running server, 10,000 and 100,000 rows of a workbook, and their memory.

The cells are measured against a bare FastAPI application that says hello, in the same minute on the same machine.

usage: python benchmarks/sheets.py [ROWS ...]        default: 10000 100000

The cells are those of 50 questions with ten values each, asked one after the other over one connection, three times.
The rows are XLSX rows of 500 different questions. The memory is the peak of a process of its own.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
VALUES = ("cost_usd", "cost_usd_p90", "hours", "gpu_hours", "memory_gib", "fits", "instance_type", "usd_per_hour",
          "price_date", "evidence")  # fmt: skip


HELLO = """
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
app = FastAPI()
@app.get("/hello", response_class=PlainTextResponse)
async def hello():
    return "hello"
"""


@contextmanager
def serving(*command: str, folder: Path, ready: str) -> Iterator[int]:
    """A server of its own; gives its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", str(port)],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                timed(port, [ready])
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(timeout=30)


def timed(port: int, paths: list[str]) -> list[float]:
    """Seconds of each request, one after the other over one connection."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    seconds = []
    for path in paths:
        start = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        seconds.append(time.perf_counter() - start)
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status}")
    connection.close()
    return seconds


def cells() -> None:
    asked = [
        "/v1/cell?" + urlencode({"model": model, "method": "lora", "tokens": f"{n}M", "gpu": gpu, "value": value})
        for model in ("llama3-8b", "mistral-7b")
        for n in range(10, 60, 10)
        for gpu in ("H100:1", "H100:8", "A100-80GB:1", "A100-80GB:8", "L40S:1")
        for value in VALUES
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hello.py").write_text(HELLO)
        bare = ("uvicorn", "hello:app", "--log-level", "warning")
        with (
            serving("estimator", "serve", "--offline", folder=ROOT, ready="/readyz") as ours,
            serving(*bare, folder=folder, ready="/hello") as other,
        ):
            for what in ("first", "again", "again"):
                hello, seconds = timed(other, ["/hello"] * len(asked)), timed(ours, asked)
                middle, bottom = (sorted(found)[len(asked) // 2] * 1000 for found in (seconds, hello))
                print(
                    f"{len(asked)} cells of {len(asked) // len(VALUES)} questions, {what}: {sum(seconds):.2f} s, "
                    f"median {middle:.2f} ms; hello {bottom:.2f} ms; ratio {middle / bottom:.1f}"
                )


def write(path: Path, count: int) -> None:
    import xlsxwriter

    with xlsxwriter.Workbook(str(path), {"constant_memory": True}) as book:
        sheet = book.add_worksheet("Runs")
        header = ("name", "team", "quarter", "model", "method", "tokens", "epochs", "seq_len", "precision", "gpu",
                  "gpus", "market", "note")  # fmt: skip
        sheet.write_row(0, 0, header)
        for n in range(count):
            kind = n % 500
            gpu = ("H100", "A100-80GB", "L40S", "H100", "A100-80GB")[kind // 2 % 5]
            model = ("llama3-8b", "mistral-7b")[kind % 2]
            row = (f"run {n}", f"team {n % 7}", "2027-Q1", model, "lora", f"{10 + kind // 10}M", 1, 2048, "bf16", gpu,
                   (1, 8)[kind % 10 // 5 % 2], "on-demand", f"note of run {n}")  # fmt: skip
            sheet.write_row(n + 1, 0, row)


def fill(path: Path) -> None:
    from estimator.sheets import Answers, market_at
    from estimator.sheets.fill import fill_file
    from estimator.sheets.options import FillOptions
    from estimator.sheets.rows import RowFiller
    from pricing.offers import current_offers

    now = datetime(2026, 9, 1, tzinfo=UTC)
    filler = RowFiller(market_at(current_offers(now=now), now), Answers())
    start, worked = time.perf_counter(), time.process_time()
    report = fill_file(path, path.with_name("filled.xlsx"), FillOptions(), filler)
    seconds, busy = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{report.rows:,} rows, {filler.answers.planned} different questions, {report.failed} with an error: "
        f"{seconds:.1f} s ({busy:.1f} s of CPU), peak memory {peak:.0f} MiB"
    )


def main() -> None:
    if sys.argv[1:2] == ["--fill"]:
        fill(Path(sys.argv[2]))
        return
    cells()
    sys.stdout.flush()
    for count in [int(text) for text in sys.argv[1:]] or [10_000, 100_000]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs.xlsx"
            write(path, count)
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, __file__, "--fill", str(path)], check=True, env=environment)


if __name__ == "__main__":
    main()
