"""How much does one machine serve, and does it stay even? Loads real servers on loopback with wrk, and says ratios.

usage: python benchmarks/load.py                       short: 10 s for each line
       python benchmarks/load.py --write docs/operations.md      and write the table of capacity there
       python benchmarks/load.py --seconds 300         the sustained run of POST /v1/plan takes this long
       python benchmarks/load.py --workers 2           as many processes of each server

Needs wrk (Debian: apt-get install wrk). The reference is a FastAPI application that says hello, served in the same way
on the same machine, measured in turn with what it is compared with. Plans are asked over the whole snapshot, in three
ways: models never seen before (another shape, length or batch in each request: nothing comes from memory), one model
with ever other tokens, deadlines and budgets (what people change most: step times come from memory), and 200 workloads
over and over (whole plans come from memory).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

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


def new_models(count: int, seed: int) -> list[dict[str, Any]]:
    """As many workloads, none with the step times of another: models of the tables, and shapes that no table has."""
    draw = random.Random(seed)
    found = []
    for n in range(count):
        if n % 2:
            width, layers = 128 * draw.randint(6, 64), draw.randint(8, 80)
            shape = {"layers": layers, "hidden": width, "heads": width // 128, "vocab": 32_000 + n, "max_seq_len": 8192}
            model: dict[str, Any] = {"architecture": shape}
        else:
            model = {"model": draw.choice(MODELS)}
        batch = {"global_batch": 8 * (1 + n // 29)}
        if model.get("model") == "resnet50":
            found.append({**model, **batch, "images": f"{100 + n}k", "image_size": 128 + 16 * (n % 29)})
            continue
        method = draw.choice(("lora", "full") if model.get("model") != "llama3-70b" else ("lora",))
        found.append({**model, **batch, "method": method, "tokens": f"{10 + n}M", "seq_len": 64 + 16 * (n % 29)})
    return found


def other_limits(count: int, seed: int) -> list[dict[str, Any]]:
    """As many workloads of one model, with other tokens, deadlines and budgets each."""
    draw = random.Random(seed)
    return [
        {
            "model": "llama3-8b",
            "method": "lora",
            "tokens": f"{10 + n}M",
            "constraints": draw.choice((
                {}, {"deadline": f"{draw.randint(2, 90)}h"}, {"budget": draw.randint(10, 900)},
                {"deadline": f"{draw.randint(2, 90)}h", "budget": draw.randint(10, 900)},
            )),
        }
        for n in range(count)
    ]  # fmt: skip


def mixed(count: int, seed: int) -> list[dict[str, Any]]:
    """As many workloads of the usual models."""
    draw = random.Random(seed)
    found = []
    for n in range(count):
        vision = (model := draw.choice(MODELS)) == "resnet50"
        size = {"images": f"{100 + n}k"} if vision else {"tokens": f"{10 + n}M"}
        method = {} if vision else {"method": draw.choice(("lora", "full") if model != "llama3-70b" else ("lora",))}
        found.append({"model": model, **size, **method})
    return found


def asked(folder: Path, name: str, workloads: list[dict[str, Any]]) -> str:
    """A wrk script that asks for plans of these workloads, over and over."""
    file = folder / name
    file.write_text("".join(json.dumps({**one, "options": {"top": 3}}) + "\n" for one in workloads))
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
    parser.add_argument("--write", type=Path, help="a document whose table of capacity is written anew")
    said = parser.parse_args()
    each = said.each
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "hello.py").write_text(HELLO)
        hello = ["uvicorn", "hello:app", "--no-access-log", "--workers", str(said.workers)]
        ours = ["estimator", "serve", "--workers", str(said.workers)]
        with server(hello, folder, "/") as (there, _), server(ours, folder, "/healthz") as (url, _):
            rows: list[tuple[str, Run]] = []
            bare = wrk(f"{there}/", each)
            rows.append(("hello (plain FastAPI)", bare))
            rows.append(("GET /healthz", wrk(f"{url}/healthz", each)))
            for path in ("/v1/offers?cloud=aws", "/v1/gpus?limit=20"):
                urlopen(f"{url}{path}", timeout=60).read()
            rows.append(("GET /v1/offers, 100 rows", wrk(f"{url}/v1/offers?cloud=aws", each)))
            rows.append(("GET /v1/gpus, 20 rows", wrk(f"{url}/v1/gpus?limit=20", each)))
            rows.append(("GET /v1/cell, new question each", wrk(url, each, script=cells(folder, "new", 100_000))))
            wrk(url, 4, script=cells(folder, "few", 50, first=500_000))
            rows.append(("GET /v1/cell, 50 questions", wrk(url, each, script=cells(folder, "few", 50, first=500_000))))
            for name, workloads in (
                ("POST /v1/plan, models never seen", new_models(20_000, 1)),
                ("POST /v1/plan, other tokens and limits", other_limits(50_000, 1)),
            ):
                rows.append((name, wrk(url, each, script=asked(folder, "plans", workloads))))
            bare_again = wrk(f"{there}/", each)
            rows.append(("hello once more", bare_again))
            reference = (bare.rate + bare_again.rate) / 2
        with server(ours, folder, "/healthz") as (url, pid):  # a new one: the memory of the runs before is not its
            memory = Memory(pid, url)
            few = asked(folder, "mixed", mixed(200, 2))
            once(url, folder / "mixed")
            memory.start()
            sustained = wrk(url, said.seconds, script=few)
            memory.over.set()
            memory.join()
            rows.append((f"POST /v1/plan, 200 workloads, {said.seconds:g} s", sustained))
            lines = report(rows, reference, memory)
    lines += database_lines()
    print("\n".join(lines))
    if said.write is not None:
        write(said.write, lines, said.workers)
    return 0


def once(url: str, file: Path) -> None:
    """Ask for each plan of a file once, so that the sustained run finds the server as it is after its first minute."""
    for line in file.read_text().splitlines():
        request = Request(f"{url}/v1/plan", line.encode(), {"content-type": "application/json"})
        urlopen(request, timeout=120).read()


def database_lines() -> list[str]:
    """How often one PostgreSQL answers what workers ask of it, at the full size of a market."""
    from sqlalchemy.exc import SQLAlchemyError

    sys.path.insert(0, str(ROOT))
    from pricing.offers import Market
    from pricing.store import Store
    from pricing.store_keys import Scope, add_key, find_key
    from tests.pricing.conftest import Cluster, _binaries
    from tests.pricing.sets import price_set

    binaries = _binaries()
    if binaries is None:
        return ["", "PostgreSQL: not measured, there is none here"]
    cluster = Cluster(binaries)
    try:
        store = Store(cluster.new_database())
        now = datetime.now(UTC)
        key, _ = add_key(store, "load", [Scope.PLAN], now=now)
        for n in range(60):
            for market in (Market.ON_DEMAND, Market.SPOT):
                prices = {f"t{k}": 1.0 + k for k in range(400)}
                store.switch(price_set(prices, region=f"region-{n}", market=market, at=now))
        store.repack()
        market, keys = rate(store.current), rate(lambda: find_key(store, key.id))
        count = len(store.current().rows.usd)
        store.close()
    except SQLAlchemyError as error:
        return ["", f"PostgreSQL: not measured ({error})"]
    finally:
        cluster.stop()
    return [
        "",
        f"One PostgreSQL beside one asking process: all {count} prices are read {market:.0f} times a second, a key "
        f"{keys:.0f} times. A worker reads the prices every 2 s at most: {2 * market:.0f} workers would keep it busy.",
    ]


def rate(ask: Callable[[], object], seconds: float = 4.0) -> float:
    """How often something can be done in a second, one after the other."""
    ask()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        ask()
        count += 1
    return count / (time.perf_counter() - began)


def write(document: Path, lines: list[str], workers: int) -> None:
    """Put the table between the marks of the document."""
    text = document.read_text(encoding="utf-8")
    head, begun, rest = text.partition("<!-- measured: capacity -->\n")
    _, ended, tail = rest.partition("<!-- end measured -->")
    if not (begun and ended):
        raise SystemExit(f"{document} has no place for the table of capacity")
    load = os.getloadavg()[1]
    machine = f"{os.cpu_count()} cores of {platform.machine()}, shared with wrk, Python {platform.python_version()}"
    when = f"{machine}, {workers} worker(s); load of the machine over the last five minutes {load:.1f}:"
    document.write_text(f"{head}{begun}{when}\n\n" + "\n".join(lines) + f"\n{ended}{tail}", encoding="utf-8")


def report(rows: list[tuple[str, Run]], reference: float, memory: Memory) -> list[str]:
    """The table, and the ratios that matter."""
    lines = [
        "| what | requests/s | of hello | p50 ms | p99 ms | p99/p50 | requests | not 2xx | lost |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, run in rows:
        lines.append(
            f"| {name} | {run.rate:.1f} | 1/{reference / max(run.rate, 1e-9):.1f} | {run.p50:.1f} | {run.p99:.1f} |"
            f" {run.p99 / max(run.p50, 1e-9):.1f} | {run.requests} | {run.wrong} | {run.lost} |"
        )
    found = dict(rows)
    cached, new = found["GET /v1/cell, 50 questions"].rate, found["GET /v1/cell, new question each"].rate
    first, last = memory.seen[0], memory.seen[-1]
    return [
        *lines,
        "",
        f"A cell from memory comes {cached / new:.0f} times as often as a new one. Memory of the server: "
        f"{first[1]:.0f} MB after {first[0]:.0f} requests, {last[1]:.0f} MB after {last[0]:.0f}; "
        f"slope {memory.slope():.2f} MB for each 10,000 requests.",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
