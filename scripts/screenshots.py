"""Draw the page as people of the field see it, into docs/img: the pictures of docs/page.md.

usage: python scripts/screenshots.py [FOLDER]      starts its own server on loopback; needs Chromium and playwright
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.page import FLAGS, await_server, free_port  # noqa: E402

TUNED = {"model": "llama3-8b", "method": "lora", "amount": "50M", "unit": "tokens", "deadline": "24h"}
PRETRAINED = {
    "model": "llama2-7b", "method": "pretrain", "amount": "2T", "unit": "tokens", "seq_len": "4096",
    "gpu": "H100:512", "deadline": "90 days", "budget": "3M",
}  # fmt: skip
COMPARED = {
    "model": "llama2-70b", "method": "lora", "amount": "50k", "unit": "samples", "epochs": "3", "deadline": "48h",
    "gpu": "H100:8,A100-80GB:8", "cloud": ["aws", "gcp"],
}  # fmt: skip
TOO_LARGE = {"model": "llama3-8b", "method": "full", "amount": "50M", "unit": "tokens", "gpu": "T4:8", "max_nodes": "1"}
PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "page-a": ("/", TUNED),
    "page-b": ("/", PRETRAINED),
    "page-d": ("/", COMPARED),
    "page-nothing": ("/", TOO_LARGE),
    "page-accuracy": ("/accuracy", {}),
    "page-catalogue": ("/catalogue", {"table": "prices", "gpu": "H100"}),
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1360, "height": 1000}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1360, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
}
WHOLE = ("page-d-light", "page-nothing-light")  # from top to bottom


def main(arguments: list[str]) -> int:
    """Start a server, draw each picture."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        print("needs Chromium", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else ROOT / "docs" / "img"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        environment = os.environ | {
            "ESTIMATOR_OFFLINE": "1",
            "ESTIMATOR_DATA_DIR": data,
            "ESTIMATOR_NOW": "2026-09-01T00:00:00Z",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "uvicorn", "api.app:app", "--port", str(port), "--log-level", "warning"]
        server = subprocess.Popen(command, cwd=ROOT, env=environment)
        try:
            await_server(f"{url}/")
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            for name, (path, state) in PICTURES.items():
                for look, how in LOOKS.items():
                    if look != "light" and name in ("page-accuracy", "page-catalogue", "page-nothing"):
                        continue
                    page = browser.new_page(**how)
                    query = f"?{urlencode(state, doseq=True)}" if state else ""
                    page.goto(url + path + query + ("#answer" if look == "phone" else ""))
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(1200)  # the methods come after the answer
                    page.screenshot(path=folder / f"{name}-{look}.png", full_page=f"{name}-{look}" in WHOLE)
                    page.close()
            browser.close()
        finally:
            server.terminate()
            server.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
