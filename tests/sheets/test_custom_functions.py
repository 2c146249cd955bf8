"""Custom functions of Google Sheets and Excel, run in Node under a stub of their host, against a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as Xml
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.conftest import server as server

FUNCTIONS = Path(str(files("estimator"))) / "sheets" / "functions"
STUB = Path(__file__).with_name("stub_host.cjs")
LORA = ["llama3-8b", "lora", "50M", "H100:1"]
IMAGES = ["resnet50", "pretrain", "1,281,167 images", "A100-80GB:8", "epochs=90; market=spot"]


def cell(server: str, **keys: str) -> str:
    return httpx.get(f"{server}/v1/cell", params=keys, timeout=60).text


def node(host: str, server: str, file: Path, calls: list[list[object]], folder: Path, key: str = "") -> dict[str, Any]:
    if shutil.which("node") is None:
        pytest.skip("needs Node.js (Debian package nodejs)")
    (folder / "calls.json").write_text(json.dumps(calls))
    done = subprocess.run(
        ["node", str(STUB), host, server, str(file), str(folder / "calls.json")],
        capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"STUB_KEY": key},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def lora(server: str) -> dict[str, str]:
    keys = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "gpu": "H100:1"}
    return {name: cell(server, **keys, value=name) for name in ("cost_usd", "hours", "fits", "instance_type")}


def test_google_sheets_gets_what_the_server_says(server: str, lora: dict[str, str], tmp_path: Path) -> None:
    calls: list[list[object]] = [
        ["GPU_COST", *LORA],
        ["GPU_HOURS", *LORA],
        ["GPU_FITS", *LORA],
        ["GPU_VALUE", "instance_type", *LORA],
        ["GPU_COST", *IMAGES],
        ["GPU_COST", "llama3-8bb", "lora", "50M", "H100:1"],
        ["GPU_COST", "", "lora", "50M"],
    ]
    answers = node("google", server, FUNCTIONS / "gpu_functions.gs", calls, tmp_path)["answers"]
    assert answers[:2] == [float(lora["cost_usd"]), float(lora["hours"])]
    assert answers[2:4] == [lora["fits"], lora["instance_type"]]
    spot = cell(
        server, model="resnet50", method="pretrain", images="1281167", gpu="A100-80GB:8", epochs="90", market="spot"
    )
    assert answers[4] == float(spot)
    assert answers[5]["error"].strip().startswith("unknown model 'llama3-8bb', did you mean llama3-8b")
    assert answers[6] == ""


def test_a_range_is_one_batch_and_asks_each_question_once(server: str, lora: dict[str, str], tmp_path: Path) -> None:
    models = [["llama3-8b"], ["llama3-8b"], ["llama3-8bb"], [""], ["mistral-7b"]]
    call: list[object] = ["GPU_COST", models, [["lora"]] * 5, "50M", "H100:1"]
    found = node("google", server, FUNCTIONS / "gpu_functions.gs", [call, call], tmp_path)
    first, second = found["answers"]
    assert first == second
    assert [row[0] for row in first[:2]] == [float(lora["cost_usd"])] * 2
    assert first[2][0].startswith("#ERROR: unknown model")
    assert first[3] == [""]
    assert found["batches"] == [3, 1]  # the error is asked again, the rest comes from the cache


def test_the_key_is_sent_and_a_wrong_one_is_said(server: str, tmp_path: Path) -> None:
    script = tmp_path / "functions.js"
    script.write_text(httpx.get(f"{server}/office/functions.js").text)
    for host, file, name in (("google", FUNCTIONS / "gpu_functions.gs", "GPU_COST"), ("office", script, "COST")):
        (answer,) = node(host, server, file, [[name, *LORA]], tmp_path, key="no-such-key")["answers"]
        assert "the API key is not known" in answer["error"]


def test_excel_gets_what_the_server_says(server: str, lora: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "functions.js"
    script.write_text(httpx.get(f"{server}/office/functions.js").text)
    calls: list[list[object]] = [
        ["COST", *LORA], ["HOURS", *LORA], ["FITS", *LORA], ["VALUE", "instance_type", *LORA], ["COST", *LORA],
        ["COST", "llama3-8bb", "lora", "50M", "H100:1"], ["COST", "", "lora"], ["COST", *IMAGES],
    ]  # fmt: skip
    found = node("office", server, script, calls, tmp_path)
    assert found["answers"][:2] == [float(lora["cost_usd"]), float(lora["hours"])]
    assert found["answers"][2:5] == [lora["fits"], lora["instance_type"], float(lora["cost_usd"])]
    assert found["answers"][5]["code"] == "#VALUE!"
    assert "did you mean llama3-8b" in found["answers"][5]["error"]
    assert found["answers"][6] == ""
    assert isinstance(found["answers"][7], float)
    assert found["requests"] == 6
    assert found["most"] <= 6


def test_the_add_in_names_its_server_and_declares_what_it_defines(server: str) -> None:
    manifest = httpx.get(f"{server}/office/manifest.xml")
    root = Xml.fromstring(manifest.text)
    assert [child.tag.rpartition("}")[2] for child in root] == [  # the schema has them in this order
        "Id", "Version", "ProviderName", "DefaultLocale", "DisplayName", "Description", "AppDomains", "Hosts",
        "Requirements", "DefaultSettings", "Permissions", "VersionOverrides",
    ]  # fmt: skip
    named = {found.get("id") for found in root.iter() if found.get("id")}
    assert {found.get("resid") for found in root.iter() if found.get("resid")} == named
    assert f'"{server}/office/functions.js"' in manifest.text
    assert "{{" not in manifest.text
    declared = {function["id"] for function in httpx.get(f"{server}/office/functions.json").json()["functions"]}
    script = httpx.get(f"{server}/office/functions.js").text
    assert declared == {"COST", "HOURS", "FITS", "VALUE"}
    assert all(f"CustomFunctions.associate('{name}'" in script for name in declared)
    assert httpx.get(f"{server}/office/passwd").status_code == 404
    page = httpx.get(f"{server}/office/functions.html")
    assert "https://appsforoffice.microsoft.com" in page.headers["content-security-policy"]
