"""Requests that a reader can send as they are: shown in the OpenAPI document and on `/docs`, sent by a test."""

from __future__ import annotations

from typing import Any


def _body(**examples: dict[str, Any]) -> dict[str, Any]:
    """Examples of a JSON body as an addition to an operation of the OpenAPI document."""
    return {"requestBody": {"content": {"application/json": {"examples": examples}}}}


PLAN = _body(
    lora={
        "summary": "LoRA fine-tuning of an 8B model within a day",
        "value": {
            "model": "llama3-8b",
            "method": "lora",
            "tokens": "50M",
            "seq_len": 2048,
            "global_batch": 64,
            "constraints": {"deadline": "24h"},
        },
    },
    resnet={
        "summary": "90 epochs of ImageNet on one machine, own ones included",
        "value": {
            "model": "resnet50",
            "method": "pretrain",
            "images": 1281167,
            "epochs": 90,
            "precision": "fp16",
            "own": [{"name": "lab", "gpu": "RTX-3090", "gpus_per_node": 8, "usd_per_hour": 0.4}],
            "constraints": {"max_nodes": 1},
        },
    },
)

ESTIMATE = _body(
    cards={
        "summary": "GTX 1080 Ti or RTX 3080?",
        "value": {"model": "resnet50", "images": "50k", "constraints": {"gpus": ["GTX-1080Ti", "RTX-3080"]}},
    },
)

PREDICT = _body(
    row={
        "summary": "One configuration, as a row of measurements without its result",
        "value": {
            "rows": [{"model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": 8, "micro_batch": 1, "seq_len": 4096}]
        },
    },
)

BATCH = _body(
    two={
        "summary": "Two workloads in one request; the second one is wrong, the first one is answered all the same",
        "value": {
            "workloads": [
                {"model": "llama3-8b", "method": "lora", "tokens": "50M", "options": {"top": 1}},
                {"model": "llama3-8bb", "tokens": "50M"},
            ]
        },
    },
)

FLAT: dict[str, str | int | float | bool] = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "gpu": "H100:8"}

QUERIES: dict[str, dict[str, str | int | float | bool]] = {
    "list_gpus": {"name": "A100*", "limit": 10},
    "list_models": {"name": "llama3*", "limit": 10},
    "list_instances": {"cloud": "aws", "gpu": "H100*", "limit": 10},
    "list_offers": {"gpu": "H100*", "market": "spot", "region": "us-*", "limit": 10},
    "list_benchmarks": {"model": "llama*", "gpu": "H100*", "limit": 10},
    "price_history": {"instance_type": "p5.48xlarge", "market": "spot", "days": 30},
    "cell": FLAT | {"value": "cost_usd"},
    "cell_xml": FLAT | {"value": "hours"},
    "plan_csv": FLAT | {"top": 3},
    "estimate_csv": FLAT,
    "offers_csv": {"cloud": "gcp", "gpu": "L4"},
}
"""Parameters of each operation that takes some, by its id; a test sends them."""

SHEET = "name,model,method,tokens,gpu,gpus\nsupport bot,llama3-8b,lora,50M,H100,8\n"
"""A sheet as CSV; XLSX and ODS hold the same cells."""

ANSWERS: dict[str, object] = {
    "health": {"status": "ok"},
    "readiness": {"status": "ready", "offers": 2930},
    "workload_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Workload"},
    "metrics": "# TYPE estimator_http_requests_total counter\n",
}
"""What operations without parameters answer, shortened."""
