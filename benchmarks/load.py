"""How much does one machine serve, and does it stay even? Loads real servers on loopback with wrk, and says ratios.

usage: python benchmarks/load.py                       short: 10 s for each line
       python benchmarks/load.py --seconds 300         the sustained run of POST /v1/plan takes this long
       python benchmarks/load.py --workers 2           as many processes of each server

Needs wrk (Debian: apt-get install wrk). The reference is a FastAPI application that says hello, served in the same way
on the same machine, measured in turn with what it is compared with. Plans are asked over the whole snapshot; `distinct`
asks every workload once only, so that nothing comes from memory, `mixed` draws from 200 workloads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("llama3-8b", "mistral-7b", "qwen2.5-7b", "gemma2-9b", "phi-3-mini", "llama3-70b", "resnet50", "bert-base")
HELLO = """
from fastapi import FastAPI
app = FastAPI()


@app.get("/")
async def hello() -> dict[str, str]:
    return {"hello": "world"}
"""
POSTS = """
local bodies = {}
for line in io.lines(%(file)s) do bodies[#bodies + 1] = line end
local at = %(first)d
function request()
  at = at %% #bodies + 1
  return wrk.format("POST", "/v1/plan", {["content-type"] = "application/json"}, bodies[at])
end
"""
GETS = """
local paths = {}
for line in io.lines(%(file)s) do paths[#paths + 1] = line end
local at = %(first)d
function request()
  at = at %% #paths + 1
  return wrk.format("GET", paths[at])
end
"""
DONE = """
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT [%d, %d, %d, %d, %d, %d]\\n", summary.requests, summary.duration, e.status,
    e.connect + e.read + e.write + e.timeout, latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True)
class Run:
    """One run of wrk: requests a second, latencies in milliseconds, answers that were not 2xx, requests without one."""

    rate: float
    p50: float
    p99: float
    requests: int
    wrong: int
    lost: int


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def server(command: list[str], folder: Path, path: str, **environment: str) -> Iterator[tuple[str, int]]:
    """A server as a process: its address and pid, once `path` answers."""
    port = free_port()
    plain = {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "ESTIMATOR_DATA_DIR": str(folder / "data"), "ESTIMATOR_OFFLINE": "1", "ESTIMATOR_LOG_FORMAT": "json",
        "ESTIMATOR_MAX_WAITING": "256",
    }  # fmt: skip
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port)],
            cwd=ROOT,
            env=plain | environment,
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urlopen(f"{url}{path}", timeout=30).read()
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(3)  # what is warmed up beside the first requests is done
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)


def wrk(url: str, seconds: float, *, connections: int = 4, script: str = "") -> Run:
    """Ask for so many seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script + DONE)
        file.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds:g}s",
            "--timeout",
            "60s",
            "--latency",
            "-s",
            file.name,
            url,
        ]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = re.search(r"RESULT (\[.*\])", told)
    assert result is not None, told
    requests, microseconds, wrong, lost, p50, p99 = json.loads(result[1])
    return Run(requests / (microseconds / 1e6), p50 / 1e3, p99 / 1e3, requests, wrong, lost)


def asked(folder: Path, name: str, count: int, seed: int) -> str:
    """A wrk script that asks for plans: `count` different workloads, over and over."""
    draw = random.Random(seed)
    lines = []
    for n in range(count):
        vision = (model := draw.choice(MODELS)) == "resnet50"
        size = {"images": f"{100 + n}k"} if vision else {"tokens": f"{10 + n}M"}
        method = {} if vision else {"method": draw.choice(("lora", "full") if model != "llama3-70b" else ("lora",))}
        lines.append(json.dumps({"model": model, **size, **method, "options": {"top": 3}}))
    file = folder / name
    file.write_text("\n".join(lines) + "\n")
    return POSTS % {"file": json.dumps(str(file)), "first": 0}


def cells(folder: Path, name: str, count: int, first: int = 0) -> str:
    """A wrk script that asks for cells of `count` different questions."""
    lines = [f"/v1/cell?model=llama3-8b&method=lora&tokens={10_000_000 + first + n}" for n in range(count)]
    file = folder / name
    file.write_text("\n".join(lines) + "\n")
    return GETS % {"file": json.dumps(str(file)), "first": 0}


class Memory(threading.Thread):
    """Resident memory of a process and its children, looked at twice a second, beside how many requests it has had."""

    def __init__(self, pid: int, url: str) -> None:
        super().__init__(daemon=True)
        self.pid, self.url = pid, url
        self.seen: list[tuple[float, float]] = []  # requests, MB
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(1.0):
            self.seen.append((self.requests(), rss(self.pid) / 1e6))

    def requests(self) -> float:
        text = urlopen(f"{self.url}/metrics", timeout=60).read().decode()
        return sum(
            float(line.split()[-1]) for line in text.splitlines() if line.startswith("estimator_http_requests_total")
        )

    def slope(self) -> float:
        """MB for each 10,000 requests: the least-squares line through the second half of what was seen."""
        half = self.seen[len(self.seen) // 2 :]
        if len(half) < 3:
            return float("nan")
        line = statistics.linear_regression([n for n, _ in half], [mb for _, mb in half])
        return line.slope * 10_000


def rss(pid: int) -> float:
    """Bytes of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in (pid, *map(int, children))]
    return float(sum(pages) * os.sysconf("SC_PAGE_SIZE"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the sustained run of plans")
    parser.add_argument("--each", type=float, default=8.0, help="length of every other run")
    parser.add_argument("--workers", type=int, default=1)
    said = parser.parse_args()
    each = said.each
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "hello.py").write_text(HELLO)
        hello = ["uvicorn", "hello:app", "--no-access-log", "--workers", str(said.workers)]
        ours = ["estimator", "serve", "--workers", str(said.workers)]
        with server(hello, folder, "/") as (there, _), server(ours, folder, "/healthz") as (url, pid):
            rows: list[tuple[str, Run]] = []
            bare = wrk(f"{there}/", each)
            rows.append(("hello (plain FastAPI)", bare))
            rows.append(("GET /healthz", wrk(f"{url}/healthz", each)))
            rows.append(("GET /v1/offers, 100 rows", wrk(f"{url}/v1/offers?cloud=aws", each)))
            rows.append(("GET /v1/gpus, 20 rows", wrk(f"{url}/v1/gpus?limit=20", each)))
            rows.append(("GET /v1/cell, new question each", wrk(url, each, script=cells(folder, "new", 100_000))))
            wrk(url, 4, script=cells(folder, "few", 50, first=500_000))
            rows.append(("GET /v1/cell, 50 questions", wrk(url, each, script=cells(folder, "few", 50, first=500_000))))
            rows.append(("POST /v1/plan, distinct", wrk(url, each, script=asked(folder, "distinct", 100_000, 1))))
            bare_again = wrk(f"{there}/", each)
            rows.append(("hello once more", bare_again))
            memory = Memory(pid, url)
            mixed = asked(folder, "mixed", 200, 2)
            wrk(url, min(20.0, said.seconds), script=mixed)
            memory.start()
            sustained = wrk(url, said.seconds, script=mixed)
            memory.over.set()
            memory.join()
            rows.append((f"POST /v1/plan, 200 workloads, {said.seconds:g} s", sustained))
            reference = (bare.rate + bare_again.rate) / 2
            report(rows, reference, memory)
    return 0


def report(rows: list[tuple[str, Run]], reference: float, memory: Memory) -> None:
    """The table, and the ratios that matter."""
    print("| what | requests/s | of hello | p50 ms | p99 ms | p99/p50 | requests | not 2xx | lost |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, run in rows:
        print(
            f"| {name} | {run.rate:.1f} | 1/{reference / max(run.rate, 1e-9):.1f} | {run.p50:.1f} | {run.p99:.1f} |"
            f" {run.p99 / max(run.p50, 1e-9):.1f} | {run.requests} | {run.wrong} | {run.lost} |"
        )
    found = dict(rows)
    cached, new = found["GET /v1/cell, 50 questions"].rate, found["GET /v1/cell, new question each"].rate
    print(f"\na cell from memory: {cached / new:.1f} times the rate of a new one")
    first, last = memory.seen[0], memory.seen[-1]
    print(
        f"memory: {first[1]:.0f} MB after {first[0]:.0f} requests, {last[1]:.0f} MB after {last[0]:.0f};"
        f" slope {memory.slope():.2f} MB for each 10,000 requests"
    )


if __name__ == "__main__":
    raise SystemExit(main())
