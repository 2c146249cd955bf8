"""How is the same question asked elsewhere? On the command line, with curl, in Python, as YAML, in a spreadsheet."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any
from urllib.parse import urlencode

from api.web.state import MARKETS, as_yaml
from estimator.request.workload import Workload

ADDRESS = "http://127.0.0.1:8000"  # the page puts its own address here
FLAT = ("constraints", "options")


@dataclass(frozen=True)
class Snippet:
    """A piece of text to copy."""

    name: str
    title: str
    text: str


def snippets(body: Mapping[str, Any], keys: tuple[str, ...] = ()) -> list[Snippet]:
    """The request in every form in which it can be asked; `keys` are the parameters of a cell."""
    found = [
        Snippet("cli", "Command line", command(body)),
        Snippet("curl", "curl", curl(body)),
        Snippet("python", "Python", python(body)),
        Snippet("yaml", "YAML", as_yaml(body)),
    ]
    query = cell_query(body, keys)
    if query is not None:
        found.append(Snippet("formula", "Spreadsheet", formula(query)))
    return found


def command(body: Mapping[str, Any]) -> str:
    """The request as flags; as a file on standard input where flags cannot say it."""
    flat = flat_of(body)
    if flat is None:
        return f"estimator plan - <<'YAML'\n{as_yaml(body)}YAML"
    flags = [f"--{key.replace('_', '-')} {shlex.quote(_joined(value))}" for key, value in flat.items()]
    one = " ".join(["estimator plan", *flags])
    return one if len(one) <= 72 else "estimator plan \\\n  " + " \\\n  ".join(flags)


def curl(body: Mapping[str, Any]) -> str:
    """The request as a call of the API from a shell."""
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f"curl -s {ADDRESS}/v1/plan \\\n  -H 'content-type: application/json' \\\n  -d {text}"


def python(body: Mapping[str, Any]) -> str:
    """The request as a call of the library."""
    plain = json.loads(json.dumps(body))
    arguments = "".join(f"    {key}={_indented(value)},\n" for key, value in plain.items())
    return f"from estimator import Workload, plan\n\nanswer = plan(Workload(\n{arguments}))\nprint(answer.plans[0])"


def _indented(value: object) -> str:
    return pformat(value, width=88, sort_dicts=False).replace("\n", "\n    ")


def formula(query: str) -> str:
    """The cost as a formula; Excel reads an address of at most 255 characters inside quotes, and doubles quotes."""
    return f'=WEBSERVICE("{ADDRESS}/v1/cell?{query}&value=cost_usd")'


def flat_of(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The request as flat keys, or None where a part of it has no flat form."""
    flat: dict[str, Any] = {}
    for key, value in body.items():
        inner = value.items() if key in FLAT and isinstance(value, Mapping) else [(key, value)]
        for name, one in inner:
            many = isinstance(one, list | tuple) and all(isinstance(part, str) for part in one)
            if isinstance(one, bool) or not (isinstance(one, str | int | float) or many):
                return None
            flat[name] = one
    return flat


def cell_query(body: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The request as the query of a cell, or None where a cell cannot ask it."""
    flat = flat_of(body)
    singular = {plural: single for single, plural in Workload.SINGULAR.items() if single != "max_cost"}
    named = {} if flat is None else {singular.get(key, key): _joined(value) for key, value in flat.items()}
    named.pop("sort", None)
    named.setdefault("market", ",".join(MARKETS))  # a cell asks on-demand prices only, unless told
    if flat is None or not set(named) <= set(keys):
        return None
    return urlencode(named)


def _joined(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)
