"""LibreOffice with a running server: 200 WEBSERVICE cells, FILTERXML, and the Basic functions, all equal to the API."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.end_to_end.conftest import server as server

SESSION = Path(__file__).with_name("office_session.py")
BASIC = Path(str(files("estimator"))) / "sheets" / "functions" / "gpu_functions.bas"
VALUES = ("cost_usd", "cost_usd_p90", "hours", "gpu_hours", "memory_gib", "fits", "instance_type", "usd_per_hour",
          "price_date", "evidence")  # fmt: skip
QUESTIONS = [
    {"model": model, "method": method, "tokens": tokens, "gpu": gpu}
    for model, method in (("llama3-8b", "lora"), ("mistral-7b", "qlora"))
    for tokens in ("50M", "120M")
    for gpu in ("H100:1", "A100-80GB:1", "L4:1", "H1000:1", "L40S:1")
]


SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="SecureURL" oor:op="fuse"><value>
<it>%s</it></value></prop></item>
<item oor:path="/org.openoffice.Office.Calc/Content/Update"><prop oor:name="Link" oor:op="fuse"><value>0</value></prop>
</item></oor:items>"""
"""What a person sets once: the folder is trusted (Options > Security), links are updated (Options > Calc > General)."""


def office_python() -> str:
    """The interpreter that can talk to LibreOffice."""
    if shutil.which("soffice") is None:
        pytest.skip("needs LibreOffice (Debian package libreoffice-calc)")
    for python in ("/usr/bin/python3", shutil.which("python3") or ""):
        if python and subprocess.run([python, "-c", "import uno"], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("needs the Python bindings of LibreOffice (Debian package python3-uno)")


def calculated(cells: dict[str, str], folder: Path, server: str, *, basic: bool = False) -> dict[str, Any]:
    """What the cells of a document show after LibreOffice has calculated it."""
    python = office_python()
    plan = folder / "plan.json"
    save = "" if basic else str(folder / "cells.ods")
    plan.write_text(json.dumps({"cells": cells, "basic": str(BASIC) if basic else None, "save": save}))
    (folder / "profile" / "user").mkdir(parents=True)
    (folder / "profile" / "user" / "registrymodifications.xcu").write_text(SETTINGS % folder.as_uri())
    pipe = f"estimator{uuid.uuid4().hex[:12]}"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8", "ESTIMATOR_URL": server,
                   "no_proxy": "127.0.0.1"}  # fmt: skip
    with (folder / "office.log").open("wb") as log:
        office = subprocess.Popen(
            ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore",
             "--nologo", f"--accept=pipe,name={pipe};urp;"],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            done = subprocess.run(
                [python, str(SESSION), pipe, str(plan)],
                env=environment, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
        finally:
            office.terminate()
            office.wait(timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_two_hundred_cells_show_what_the_api_says(server: str, tmp_path: Path) -> None:
    asked = {
        f"{'ABCDEFGHIJ'[column]}{row}": {**question, "value": value}
        for row, question in enumerate(QUESTIONS, start=1)
        for column, value in enumerate(VALUES)
    }
    assert len(asked) == 200
    formulas = {name: f'=WEBSERVICE("{server}/v1/cell?{urlencode(keys)}")' for name, keys in asked.items()}
    assert all(len(formula) < 2048 for formula in formulas.values())
    shown = calculated(formulas, tmp_path, server)["cells"]
    with httpx.Client(timeout=60) as client:
        said = {name: client.get(f"{server}/v1/cell", params=keys).text for name, keys in asked.items()}
    different = {name: (shown[name], said[name]) for name in asked if str(shown[name]) != said[name]}
    assert not different
    assert sum(text.startswith("#ERROR: unknown GPU 'H1000'") for text in said.values()) == 40


def test_figures_are_picked_from_the_xml_twin_and_become_numbers(server: str, tmp_path: Path) -> None:
    keys = QUESTIONS[0]
    url = f"{server}/v1/cell.xml?{urlencode(keys)}"
    cells = {
        "A1": f'=VALUE(FILTERXML(WEBSERVICE("{url}");"/cell/cost_usd"))',
        "A2": f'=FILTERXML(WEBSERVICE("{url}");"/cell/instance_type")',
        "A3": f'=VALUE(WEBSERVICE("{server}/v1/cell?{urlencode({**keys, "value": "hours"})}"))*2',
    }
    shown = calculated(cells, tmp_path, server)["cells"]
    said = {v: httpx.get(f"{server}/v1/cell", params={**keys, "value": v}).text for v in VALUES}
    assert shown["A1"] == pytest.approx(float(said["cost_usd"]), rel=1e-12)
    assert shown["A2"] == said["instance_type"]
    assert shown["A3"] == pytest.approx(2 * float(said["hours"]), rel=1e-12)


def test_the_basic_functions_ask_the_same_server(server: str, tmp_path: Path) -> None:
    lora = '"llama3-8b";"lora";"50M";"H100:1"'
    cells = {
        "A1": f"=GPU_COST({lora})",
        "A2": f"=GPU_HOURS({lora})",
        "A3": f"=GPU_FITS({lora})",
        "A4": f'=GPU_VALUE("instance_type";{lora})',
        "A5": '=GPU_COST("resnet50";"pretrain";"1281167 images";"A100-80GB:8";"epochs=90; market=spot")',
        "A6": '=GPU_COST("llama3-8bb";"lora";"50M";"H100:1")',
    }
    shown = calculated(cells, tmp_path, server, basic=True)["cells"]
    keys = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "gpu": "H100:1"}
    images = {"model": "resnet50", "method": "pretrain", "images": "1281167", "gpu": "A100-80GB:8", "epochs": "90",
              "market": "spot"}  # fmt: skip

    def said(value: str, keys: dict[str, str]) -> str:
        return httpx.get(f"{server}/v1/cell", params={**keys, "value": value}).text

    assert shown["A1"] == pytest.approx(float(said("cost_usd", keys)), rel=1e-12)
    assert shown["A2"] == pytest.approx(float(said("hours", keys)), rel=1e-12)
    assert (shown["A3"], shown["A4"]) == (said("fits", keys), said("instance_type", keys))
    assert shown["A5"] == pytest.approx(float(said("cost_usd", images)), rel=1e-12)
    assert str(shown["A6"]).startswith("#ERROR: unknown model 'llama3-8bb'")
