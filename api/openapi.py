"""What does the OpenAPI document say beyond what the framework sees? Keys, and an example for every operation."""

from __future__ import annotations

from typing import Any

from api import examples, problems

SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "an API key, `est_...`"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "an API key, `est_...`"},
}


def described(document: dict[str, Any]) -> dict[str, Any]:
    """The framework's document with security schemes, and with the parameters of `examples.QUERIES`."""
    document.setdefault("components", {})["securitySchemes"] = SECURITY
    document["security"] = [{}, {"bearer": []}, {"header": []}]  # none is needed on the server's own machine
    for item in document["paths"].values():
        for operation in item.values():
            shown = examples.QUERIES.get(operation["operationId"], {})
            for parameter in operation.get("parameters", []):
                if parameter["name"] in shown:
                    parameter["example"] = shown[parameter["name"]]
            for response in operation["responses"].values():
                content = response.get("content", {})
                if problems.MEDIA_TYPE in content:  # what the framework says of its own kind is true of ours alone
                    content[problems.MEDIA_TYPE] = content.pop("application/json", content[problems.MEDIA_TYPE])
            if operation["operationId"] in examples.ANSWERS:
                for content in operation["responses"]["200"].get("content", {}).values():
                    content["example"] = examples.ANSWERS[operation["operationId"]]
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                if kind == "text/csv":
                    body["example"] = examples.SHEET
    return document
