"""How heavy is the page, and how soon does it answer? Bytes on the wire and milliseconds in a real Chromium.

usage: python benchmarks/page.py      starts its own server on loopback; needs Chromium and playwright

Reported: compressed bytes of the first view (document and files), when it is drawn (first contentful paint) and loaded,
over `RUNS` fresh browsers' contexts with an empty cache; then the time from a keystroke to the new answer.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNS = 7
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
LOADED = "performance.timing.loadEventEnd - performance.timing.navigationStart"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main() -> int:
    """Measure and print."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        print("needs Chromium", file=sys.stderr)
        return 2
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = os.environ | {
            "ESTIMATOR_OFFLINE": "1",
            "ESTIMATOR_DATA_DIR": folder,
            "PYTHONPATH": str(ROOT),
            "ESTIMATOR_NOW": "2026-09-01T00:00:00Z",
        }
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "api.app:app", "--port", str(port), "--log-level", "warning"],
            cwd=ROOT,
            env=environment,
        )
        try:
            await_server(url)
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            views = [first_view(browser, url) for _ in range(RUNS)]
            typed = keystrokes(browser, url)
            browser.close()
        finally:
            server.terminate()
            server.wait()
    print(f"first view: {views[0]['bytes'] / 1024:.1f} KB compressed, {views[0]['requests']} requests")
    for name, size in sorted(views[0]["files"].items(), key=lambda item: -item[1]):
        print(f"  {size / 1024:6.1f} KB  {name}")
    for name in ("paint", "loaded"):
        values = [view[name] for view in views[1:]]
        print(f"{name}: first {views[0][name]:.0f} ms, then median {statistics.median(values):.0f} ms (empty cache)")
    print(f"keystroke to new answer: median {statistics.median(typed):.0f} ms, worst {max(typed):.0f} ms")
    return 0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def await_server(url: str) -> None:
    """Until it is ready."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}readyz").read()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def first_view(browser: Any, url: str) -> dict[str, Any]:
    """Bytes, requests and times of the page with nothing in the cache."""
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: dict[str, float] = {}
    names: dict[str, str] = {}
    session.on("Network.requestWillBeSent", lambda e: names.update({e["requestId"]: e["request"]["url"]}))
    session.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]}))
    page.goto(url)
    page.wait_for_load_state("networkidle")
    files = {re.sub(r"^https?://[^/]+|\?.*", "", names[i]): size for i, size in sizes.items()}
    found = {
        "bytes": sum(sizes.values()),
        "requests": len(sizes),
        "files": files,
        "paint": page.evaluate(PAINT),
        "loaded": page.evaluate(LOADED),
    }
    context.close()
    return found


def keystrokes(browser: Any, url: str) -> list[float]:
    """Milliseconds from a change of a field to the answer that shows it, the pause before asking included."""
    from playwright.sync_api import expect

    page = browser.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    found = []
    for amount in range(60, 60 + RUNS):
        start = time.perf_counter()
        page.locator("#amount").fill(f"{amount}M")
        expect(page.locator(".eyebrow")).to_contain_text(f"{amount}M tokens")
        found.append((time.perf_counter() - start) * 1e3)
    page.close()
    return found


if __name__ == "__main__":
    raise SystemExit(main())
