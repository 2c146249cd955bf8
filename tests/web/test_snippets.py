"""The same question elsewhere is the same question."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml

from api.routes.cells import KEYS
from api.web.snippets import cell_query, command, curl, formula, python, snippets
from api.web.state import as_yaml
from estimator.request.workload import Workload

FLAT = {
    "model": "llama3-8b",
    "method": "lora",
    "tokens": "50M",
    "constraints": {"deadline": "24h", "gpus": ["H100:8", "A100-80GB"], "clouds": ["aws"]},
}
DEEP = {**FLAT, "lora": {"rank": 8}, "run": {"evaluation": False}}
ODD = {"model": 'it\'s; $(rm -rf /) "x" <b>`', "tokens": 5}


@pytest.mark.parametrize("body", [FLAT, DEEP, ODD])
def test_curl_sends_the_request(body: dict[str, Any]) -> None:
    words = shlex.split(curl(body).replace("\\\n", " "))
    assert json.loads(words[words.index("-d") + 1]) == body


@pytest.mark.parametrize("body", [FLAT, DEEP, ODD])
def test_yaml_is_the_request(body: dict[str, Any]) -> None:
    assert yaml.safe_load(as_yaml(body)) == body


def test_python_makes_the_workload() -> None:
    said: list[Workload] = []
    code = python(DEEP).replace("from estimator import Workload, plan", "").partition("print")[0]
    exec(code, {"Workload": Workload, "plan": said.append})
    assert said == [Workload.model_validate(DEEP)]


def test_flags_say_the_request_where_they_can() -> None:
    words = shlex.split(command(FLAT).replace("\\\n", " "))
    assert words[:4] == ["estimator", "plan", "--model", "llama3-8b"]
    assert words[words.index("--gpus") + 1] == "H100:8,A100-80GB"
    assert command(DEEP).startswith("estimator plan - <<'YAML'\n")


def test_no_text_of_a_request_is_run_by_a_shell() -> None:
    assert shlex.split(command(ODD).replace("\\\n", " "))[3] == ODD["model"]


def test_a_cell_asks_all_markets_as_the_page_does() -> None:
    query = cell_query(FLAT, KEYS)
    assert query is not None
    assert "market=on-demand%2Cspot" in query
    assert formula(query).startswith('=WEBSERVICE("http')
    assert cell_query(DEEP, KEYS) is None


def test_a_formula_is_offered_only_where_a_cell_can_ask() -> None:
    assert [one.name for one in snippets(DEEP, KEYS)] == ["cli", "curl", "python", "yaml"]
    assert [one.name for one in snippets(FLAT, KEYS)][-1] == "formula"
