"""What does a request look like, for an editor or a validator? The JSON Schema of a workload."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

from fastapi import APIRouter, Request, Response

from estimator import Workload

router = APIRouter(prefix="/v1", tags=["schema"])

MEDIA_TYPE = "application/schema+json"
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "JSON Schema, draft 2020-12", "content": {MEDIA_TYPE: {"schema": {"type": "object"}}}},
    304: {"description": "the ETag still holds"},
}


@cache
def workload_schema() -> tuple[bytes, str]:
    """The schema as JSON, and its ETag."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:estimator:schema:workload:1",
        **Workload.model_json_schema(),
    }
    body = json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


@router.get("/schema/workload", operation_id="workload_schema", response_class=Response, responses=ANSWER)
def get_workload_schema(request: Request) -> Response:
    """The JSON Schema of a request, for editors, validators and generators."""
    body, tag = workload_schema()
    headers = {"etag": tag, "cache-control": "public, max-age=3600"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=MEDIA_TYPE, headers=headers)
