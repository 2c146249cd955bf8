"""How is the API used? One page drawn from the OpenAPI document, without scripts or anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

STYLE = """
:root { color-scheme: light dark; --line: #8886; --quiet: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; background: var(--quiet); border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .7rem; overflow-x: auto; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
"""


POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@router.get("/docs", response_class=HTMLResponse)
def docs(request: Request) -> HTMLResponse:
    """The page of the API."""
    return HTMLResponse(page(request.app.openapi()), headers={"content-security-policy": POLICY})


def page(openapi: Mapping[str, Any]) -> str:
    """An OpenAPI document as a page of HTML."""
    title = escape(openapi["info"]["title"])
    operations = "".join(
        _operation(openapi, path, method, operation)
        for path, item in openapi["paths"].items()
        for method, operation in item.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{escape(openapi['info']['description'])}</p>"
        f'<p>Version {escape(openapi["info"]["version"])}. For programs: <a href="/openapi.json">/openapi.json</a>. '
        f"Every error is <code>application/problem+json</code> and names the field.</p>{operations}</body></html>"
    )


def _operation(openapi: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    fields = list(_parameters(operation)) or list(_fields(openapi, body.get("schema", {})))
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{_prose(text)}</td></tr>"
        for name, kind, text in fields
    )
    table = f"<table><tr><th>field</th><th>type</th><th></th></tr>{rows}</table>" if rows else ""
    heading = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    return (
        f'<section id="{escape(operation.get("operationId", path))}">{heading}'
        f"<p>{_prose(operation.get('description', ''))}</p>{_calls(path, body)}{table}</section>"
    )


def _calls(path: str, body: Mapping[str, Any]) -> str:
    """How to call an operation from a shell, once for each example of its body."""
    if not body:
        return f"<pre>curl http://127.0.0.1:8000{escape(path)}</pre>"
    call = f"curl http://127.0.0.1:8000{path} -H 'content-type: application/json' \\\n    -d "
    return "".join(
        f"<p>{escape(example['summary'])}:</p><pre>{escape(call)}'{escape(json.dumps(example['value']))}'</pre>"
        for example in body.get("examples", {}).values()
    )


def _parameters(operation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for parameter in operation.get("parameters", []):
        yield parameter["name"], _kind(parameter["schema"]), parameter["schema"].get("description", "")


def _fields(openapi: Mapping[str, Any], schema: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str, str]]:
    """Every field of a body, those of its sections as `constraints.deadline`."""
    for name, field in _resolved(openapi, schema).get("properties", {}).items():
        inner = _resolved(openapi, field)
        path = f"{above}{name}"
        yield path, _kind(inner), field.get("description") or inner.get("description", "")
        if not above:
            yield from _fields(openapi, inner, f"{path}.")


def _resolved(openapi: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself where it is only a reference, or a list of such, or one such and null."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    found = options[0] if len(options) == 1 else schema
    found = found["items"] if "$ref" in found.get("items", {}) else found
    if "$ref" in found:
        resolved: Mapping[str, Any] = openapi["components"]["schemas"][found["$ref"].rsplit("/", 1)[-1]]
        return resolved
    return found


def _prose(text: str) -> str:
    """Text with its `code` marked as such."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in a few words: `number or string`, or the words of a closed vocabulary."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(kind for kind in (_kind(option) for option in schema["anyOf"]) if kind != "null")
    return str(schema.get("type") or schema.get("$ref", "").rsplit("/", 1)[-1])
