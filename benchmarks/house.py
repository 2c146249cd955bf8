"""What the benchmarks of operations share: servers as processes, a price source on loopback, and a load that checks.

The source is an Azure Retail Prices API whose prices carry the number of the fetch in their decimals, so that whoever
reads a price anywhere can tell whether it was ever served, and when.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parent.parent
SIZES = {
    "Standard_NC4as_T4_v3": 0.526, "Standard_NC24ads_A100_v4": 3.673, "Standard_NC48ads_A100_v4": 7.346,
    "Standard_NC40ads_H100_v5": 6.98, "Standard_ND96asr_v4": 27.197, "Standard_ND96isr_H100_v5": 98.32,
    "Standard_NV36ads_A10_v5": 3.2, "Standard_NC6s_v3": 3.06,
}  # fmt: skip
SPOT = 0.5  # of the on-demand price
STEP = 1e-4  # a later fetch is dearer by so much of the price
REGIONS = ("eastus", "westeurope", "southcentralus")
Answer = tuple[int, Any]


def price(size: str, market: str, step: int) -> float:
    """What the source says in its n-th state."""
    return round(SIZES[size] * (SPOT if market == "spot" else 1.0) * (1 + STEP * step), 6)


def step_of(size: str, market: str, usd: float) -> int | None:
    """Of which state a price is; None for one that was never served."""
    step = round((usd / (SIZES[size] * (SPOT if market == "spot" else 1.0)) - 1) / STEP)
    return step if 0 <= step < 5000 and abs(price(size, market, step) - usd) < 2e-6 else None


class Source:
    """Azure's price API on loopback; `mode` is how it behaves: good, hang, garbage, tenfold, zero, gone."""

    def __init__(self) -> None:
        source = self
        self.mode = "good"
        self.step = 0
        self.asked = 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                source.asked += 1
                body = source.reply(self.path)
                if body is None:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:  # who asked has gone: that is what some faults are about
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/retail/prices"

    def reply(self, path: str) -> bytes | None:
        """The body of a page; None breaks the connection off."""
        if self.mode == "hang":
            time.sleep(120)
        if self.mode == "gone":
            return None
        if self.mode == "garbage":
            return b'{"Items": [{"retailPrice": "cheap", "armSkuName": 7}, null, [[[]]]], "NextPage\xff'
        found = re.search(r"armRegionName eq '(\w+)'", parse_qs(urlsplit(path).query).get("$filter", [""])[0])
        regions = REGIONS if found is None else [name for name in REGIONS if name == found[1]]
        items = [item for region in regions for size in SIZES for item in self._items(region, size)]
        return json.dumps({"Items": items, "NextPageLink": None, "Count": len(items)}).encode()

    def _items(self, region: str, size: str) -> Iterator[dict[str, Any]]:
        for market in ("on-demand", "spot"):
            usd = price(size, market, self.step) * {"tenfold": 10.0, "zero": 0.0}.get(self.mode, 1.0)
            name = size.removeprefix("Standard_").replace("_", " ") + (" Spot" if market == "spot" else "")
            yield {
                "currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": usd, "unitPrice": usd,
                "armRegionName": region, "location": "Somewhere", "effectiveStartDate": "2024-01-01T00:00:00Z",
                "meterId": f"{region}-{name}", "meterName": name, "productId": "DZH318Z0", "skuId": f"{region}-{name}",
                "productName": "Virtual Machines N Series", "skuName": name, "serviceName": "Virtual Machines",
                "serviceId": "DZH313Z7MMC8", "serviceFamily": "Compute", "unitOfMeasure": "1 Hour",
                "type": "Consumption", "isPrimaryMeterRegion": True, "armSkuName": size,
            }  # fmt: skip


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def asked(url: str, body: object = None, timeout: float = 90.0, **headers: str) -> Answer:
    """Status and JSON of an answer; status 0 where there was none."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"content-type": "application/json", **headers}), timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode("utf-8", "replace")
    except OSError as error:
        return 0, str(error)


@dataclass
class House:
    """One folder, one source of prices, and the commands and servers that work on them."""

    folder: Path
    source: Source
    environment: dict[str, str] = field(default_factory=dict)
    code: Path = ROOT

    def variables(self, **more: str) -> dict[str, str]:
        """What every process sees."""
        return {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(self.code), "HOME": str(self.folder), "OMP_NUM_THREADS": "1",
            "ESTIMATOR_DATA_DIR": str(self.folder / "data"), "ESTIMATOR_AZURE_RETAIL_URL": self.source.url,
            "ESTIMATOR_LOG_FORMAT": "json", "ESTIMATOR_RATE_PER_MINUTE": "0", "NO_COLOR": "1",
            **self.environment, **more,
        }  # fmt: skip

    def run(self, *arguments: str, timeout: float = 300, **more: str) -> subprocess.CompletedProcess[str]:
        """A command of the program, to its end."""
        command = [sys.executable, "-m", "estimator", *arguments]
        return subprocess.run(
            command,
            cwd=self.code,
            env=self.variables(**more),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def refresh(self, **more: str) -> subprocess.CompletedProcess[str]:
        """Fetch the three regions."""
        regions = [word for region in REGIONS for word in ("--region", region)]
        return self.run("prices", "refresh", "--cloud", "azure", *regions, "--deadline", "5s", **more)

    @contextmanager
    def serve(self, *flags: str, **more: str) -> Iterator[Served]:
        """A server, once it is alive."""
        port = free_port()
        log = self.folder / f"log-{port}"
        with log.open("w") as stream:
            command = [sys.executable, "-m", "estimator", "serve", "--port", str(port), *flags]
            process = subprocess.Popen(command, cwd=self.code, env=self.variables(**more), stdout=stream, stderr=stream)
        served = Served(f"http://127.0.0.1:{port}", process, log)
        try:
            served.until(lambda: asked(f"{served.url}/healthz")[0] == 200, 90)
            yield served
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass
class Served:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def until(self, test: Any, seconds: float) -> float:
        """Wait for something; how many seconds it took, infinity where it did not come."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if test():
                return time.monotonic() - began
            time.sleep(0.1)
        return float("inf")

    def children(self) -> list[int]:
        """Pids of the worker processes."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split() if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]

    def says(self, words: str) -> bool:
        """Whether the log has a line with these words."""
        return words in self.log.read_text()

    def reload(self) -> None:
        """Renew the workers one by one."""
        self.process.send_signal(signal.SIGHUP)


class Load(threading.Thread):
    """Asks servers in turn and holds every answer against what the source ever said."""

    def __init__(self, urls: list[str], source: Source, pause: float = 0.02, **headers: str) -> None:
        super().__init__(daemon=True)
        self.urls, self.source, self.pause, self.headers = urls, source, pause, headers
        self.good = self.refused = self.cut = 0
        self.wrong: list[str] = []
        self.steps: set[int] = set()
        self.over = threading.Event()

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def run(self) -> None:
        """Until it is over: two listings, then a plan that nobody has asked for yet."""
        n = 0
        while not self.over.wait(self.pause):
            n += 1
            url = self.urls[n % len(self.urls)]
            if n % 3:
                path = f"/v1/offers?cloud=azure&region={REGIONS[n % 3]}&limit={200 + n % 50}"
                self._listing(*asked(url + path, **self.headers))
            else:
                workload = {"model": "llama3-8b", "method": "lora", "tokens": f"{10 + n % 500}M",
                            "constraints": {"clouds": ["azure"], "regions": list(REGIONS)}}  # fmt: skip
                self._plan(*asked(f"{url}/v1/plan", workload, **self.headers))

    def _listing(self, status: int, body: Any) -> None:
        if self._answered(status, body):
            for offer in body["offers"]:
                self._price(offer["instance_type"], offer["market"], offer["price_usd_per_hour"], offer["source"])

    def _plan(self, status: int, body: Any) -> None:
        if self._answered(status, body):
            for entry in body["plans"]:
                stated = entry["price"]
                self._price(entry["instance_type"], entry["market"], stated["usd_per_hour_instance"], stated["source"])
                if stated["age_hours"] is not None and stated["age_hours"] < 0:
                    self.wrong.append(f"age {stated['age_hours']}")

    def _price(self, size: str, market: str, usd: float | None, source: str) -> None:
        """A fetched price must be one that the source has said; a shipped one is not of this source."""
        if source != "azure:retail" or usd is None or size not in SIZES:
            return
        step = step_of(size, market, usd)
        if step is None or step > self.source.step:
            self.wrong.append(f"{size} {market} {usd}")
        else:
            self.steps.add(step)

    def _answered(self, status: int, body: Any) -> bool:
        if status == 200:
            self.good += 1
        elif status in (429, 503) and isinstance(body, dict) and str(body.get("type", "")).startswith("urn:estimator"):
            self.refused += 1
        elif status == 0:
            self.cut += 1
        else:
            self.wrong.append(f"status {status}: {str(body)[:200]}")
        return status == 200
