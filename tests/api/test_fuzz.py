"""Nothing that a client can send makes the server fail, and every answer is what the OpenAPI document promises."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.app import create_app
from api.settings import Settings

from .conftest import NOW

SHEETS = (
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument.spreadsheet",
)


@schemathesis.serializer(*SHEETS)
def as_it_is(_: schemathesis.SerializationContext, value: Any) -> Any:
    return value if isinstance(value, bytes) else str(value).encode()


schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(now=NOW, offline=True)))


@pytest.mark.filterwarnings("ignore:Skipped test cases with unsupported payload")  # workbooks are fuzzed elsewhere
@schema.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_operation_keeps_its_promises(case: schemathesis.Case) -> None:
    # A name that no table knows has the right shape and is refused all the same: that check has the test below.
    case.call_and_validate(excluded_checks=[positive_data_acceptance])


def texts(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


SIZE = {"type": "integer", "minimum": 1_000_000, "maximum": 10**12}
KNOWN = {
    "model": texts("llama3-8b", "llama2-7b", "mistral-7b", "meta-llama/Meta-Llama-3-8B"),
    "method": texts("full", "lora", "qlora", "pretrain"),
    "tokens": SIZE,
    "seq_len": {"type": "integer", "enum": [512, 2048, 4096]},
    "epochs": {"type": "number", "minimum": 0.1, "maximum": 10},
    "precision": texts("auto", "bf16", "fp16"),
    "optimizer": texts("adamw", "adamw-8bit"),
    "software": texts("ordinary", "tuned"),
}
LIMITS = {
    "gpus": {"type": "array", "items": texts("H100:8", "A100-80GB", "L4:1"), "minItems": 1, "maxItems": 2},
    "clouds": {"type": "array", "items": texts("aws", "gcp", "azure"), "minItems": 1, "maxItems": 2},
    "markets": {"type": "array", "items": texts("on-demand", "spot"), "minItems": 1, "maxItems": 2},
    "deadline": texts("24h", "30 days"),
    "budget": {"type": "number", "minimum": 1, "maximum": 10**6},
    "max_nodes": {"type": "integer", "minimum": 1, "maximum": 64},
}
FLAT = {name: {"type": "string", "enum": one["enum"]} for name, one in KNOWN.items() if one.get("type") == "string"} | {
    "tokens": texts("50M", "1B"), "gpu": texts("H100:8", "A100-80GB:8"), "cloud": texts("aws", "gcp"),
    "market": texts("on-demand", "spot"), "deadline": texts("24h"), "top": texts("1", "5"),
    "sort": texts("cost", "time"), "value": texts("cost_usd", "hours", "fits"), "strict": texts("0"),
    "bom": texts("0", "1"), "epochs": texts("1", "3"),
    "seq_len": texts("2048"), "budget": texts("500"), "region": texts("us-*", "*"), "as_of": texts("2026-07-01"),
}  # fmt: skip


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the names that the tables know, and only parameters that go together."""
    found = copy.deepcopy(document)
    request = closed(["model", "method", "tokens"], **KNOWN, constraints=closed([], **LIMITS),
                     options=closed([], top={"type": "integer", "minimum": 1, "maximum": 5}))  # fmt: skip
    named = copy.deepcopy(request)
    named["required"] += ["constraints"]
    named["properties"]["constraints"]["required"] = ["gpus"]
    bodies = {"plan": request, "estimate": named}
    for item in found["paths"].values():
        for operation in item.values():
            if operation["operationId"] in bodies:
                operation["requestBody"]["content"]["application/json"]["schema"] = bodies[operation["operationId"]]
            flat = operation["operationId"] in ("cell", "cell_xml", "plan_csv", "estimate_csv")
            kept = []
            for parameter in operation.get("parameters", []):
                name = parameter["name"]
                if name == "cursor" or (flat and name not in FLAT):
                    continue  # a place that only a page before can name; a key that the others exclude
                if flat or name in ("as_of", "bom"):
                    parameter["schema"] = (
                        FLAT[name] if parameter["schema"].get("type") != "boolean" else {"type": "boolean"}
                    )
                    parameter["required"] = flat and name in ("model", "tokens", "gpu")
                elif name != "market" and (
                    parameter["schema"].get("type") == "string" or "anyOf" in parameter["schema"]
                ):
                    parameter["schema"] = texts("aws", "H100*", "*", "us-*", "llama*", "p5.48xlarge")
                kept.append(parameter)
            operation["parameters"] = kept
    del found["paths"]["/v1/sheet"]  # workbooks have tests of their own
    return found


app = create_app(Settings(now=NOW, offline=True, data_dir=Path(tempfile.mkdtemp())))
known = schemathesis.openapi.from_dict(narrowed(app.openapi()))
known.app = app
known.config.generation.update(modes=[schemathesis.GenerationMode.POSITIVE])


@known.parametrize()
@settings(
    max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
def test_what_names_known_things_is_accepted(case: schemathesis.Case) -> None:
    """With every check, that of accepting valid requests included."""
    case.call_and_validate()
