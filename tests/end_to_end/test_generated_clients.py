"""Typed clients that others generate from the OpenAPI document compile, and get answers from a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

TYPESCRIPT = Path(__file__).with_name("typescript")

ASK = """
import sys
from generated.client import Client
from generated.api.catalogue import list_offers
from generated.api.plan import batch, plan
from generated.models import BatchIn, BatchInWorkloadsItem, Constraints, Market, Method, PlanDocument, Problem, Workload

client = Client(base_url=sys.argv[1])
asked = Workload(model="llama3-8b", method=Method.LORA, tokens="50M", constraints=Constraints(gpus=["H100:8"]))
found = plan.sync(client=client, body=asked)
assert isinstance(found, PlanDocument), found
assert found.plans[0].rank == 1 and found.plans[0].cost_usd.p50 > 0
page = list_offers.sync(client=client, gpu="H100*", market=Market.SPOT, limit=3)
assert len(page.offers) == 3 and page.offers[0].market == Market.SPOT, page
item = BatchInWorkloadsItem.from_dict({"model": "llama3-8b", "tokens": "50M"})
answers = batch.sync(client=client, body=BatchIn(workloads=[item]))
assert answers.answered == 1, answers
print(found.plans[0].gpu)
"""


def ran(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_python_client_that_is_generated_compiles_and_gets_answers(server: str, tmp_path: Path) -> None:
    generator = shutil.which("openapi-python-client")
    if generator is None:
        pytest.skip("needs openapi-python-client on the PATH, in an environment of its own")
    (tmp_path / "openapi.json").write_bytes(httpx.get(f"{server}/openapi.json", timeout=60).content)
    (tmp_path / "config.json").write_text('{"post_hooks": []}')
    generate = [generator, "generate", "--path", "openapi.json"]
    ran([*generate, "--meta", "none", "--output-path", "generated", "--config", "config.json"], tmp_path)
    ran([sys.executable, "-W", "error", "-m", "compileall", "-q", "generated"], tmp_path)
    (tmp_path / "ask.py").write_text(ASK)
    assert ran([sys.executable, "ask.py", server], tmp_path).strip() == "H100-SXM5-80GB"


def test_the_typescript_client_that_is_generated_compiles_and_gets_answers(server: str, tmp_path: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("needs node and npm")
    for name in ("package.json", "package-lock.json", "ask.ts"):
        shutil.copy(TYPESCRIPT / name, tmp_path / name)
    ran([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], tmp_path)
    tools = tmp_path / "node_modules" / ".bin"
    (tmp_path / "openapi.json").write_bytes(httpx.get(f"{server}/openapi.json", timeout=60).content)
    ran([str(tools / "openapi-typescript"), "openapi.json", "-o", "api.d.ts", "--default-non-nullable=false"], tmp_path)
    strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]
    ran([str(tools / "tsc"), *strict, "ask.ts"], tmp_path)
    found = json.loads(ran([node, "ask.js", server], tmp_path))
    assert found["cost"] > 0
    assert found["price"] > 0
    assert found["total"] > 3
    assert found["nearest"][0] == "llama3-8b"
