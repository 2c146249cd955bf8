"""Requests that look right: each is planned or refused by name, whatever its combination."""

from __future__ import annotations

import math
from typing import Any

from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.app import create_app
from api.settings import Settings
from benchmarks_db.gpus import gpus
from benchmarks_db.models import models

from .conftest import NOW

CLIENT = TestClient(create_app(Settings(now=NOW, offline=True)), raise_server_exceptions=False)
DEGREES = st.sampled_from(["auto", "auto", 1, 2, 4, 8, 3, 64])
SENSIBLE = st.sampled_from([1, 1000, "50M", "1.5T tokens", 300_000_000])
EDGES = st.one_of(
    st.sampled_from([0, -1, "1e30", "many", "", 0.5, True, None, [], {}]),
    st.integers(1, 10**13),
    st.floats(allow_nan=False, allow_infinity=False),
)
NAMES = sorted(models())
LANGUAGE = [name for name in NAMES if models()[name].kind in ("decoder", "moe", "encoder", "encoder-decoder")]
CARDS = sorted(name for name, gpu in gpus().items() if gpu.kind == "gpu")
WANTED = ["H100:8", "A100", "T4:0.5", "MI300X:16", "RTX-3090", "H100:7", "L4:1024"]


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual in nine of ten draws."""
    return st.integers(0, 9).flatmap(lambda die: rare if die == 0 else usual)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request with a model and data, and a handful of other keys, sensible or on the edge."""
    language = draw(st.booleans())
    sizes = ["tokens", "samples"] if language else ["samples", "images"]
    asked: dict[str, Any] = {
        "model": draw(mostly(st.sampled_from(LANGUAGE if language else NAMES), st.text(max_size=12))),
        draw(st.sampled_from(sizes)): draw(mostly(SENSIBLE, EDGES)),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        "method": st.sampled_from(["pretrain", "full", "lora", "qlora", "sft"]),
        "precision": st.sampled_from(["auto", "fp64", "fp32", "tf32", "fp16", "bf16", "pure-bf16", "fp8", "mixed"]),
        "epochs": mostly(st.sampled_from([1, 0.1, 90, 1e6]), st.just(0)),
        "seq_len": mostly(st.sampled_from([128, 512, 2048]), st.sampled_from([1, 131072, 10**6, 10**9])),
        "image_size": st.sampled_from([1, 32, 224, 1024, 16384]),
        "global_batch": st.sampled_from([1, 3, 64, 4096, 2**24]),
        "micro_batch": mostly(st.sampled_from(["auto", 1, 2]), st.just(4097)),
        "packing": st.booleans(),
        "mean_tokens_per_sample": st.sampled_from([1, 100, 5000]),
        "optimizer": st.sampled_from(["adamw", "adamw-8bit", "sgd", "adafactor", "lion"]),
        "activation_checkpointing": st.sampled_from(["auto", "none", "selective", "full"]),
        "sharding": st.sampled_from(["auto", "none", "ddp", "zero1", "zero2", "zero3", "fsdp"]),
        "tensor_parallel": DEGREES,
        "pipeline_parallel": DEGREES,
        "context_parallel": DEGREES,
        "expert_parallel": DEGREES,
        "cpu_offload": st.booleans(),
        "software": st.sampled_from(["ordinary", "tuned"]),
        "attention": st.sampled_from(["auto", "flash", "eager"]),
        "own": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.text(min_size=1, max_size=5),
                    "gpu": mostly(st.sampled_from(CARDS), st.sampled_from(sorted(gpus()))),
                },
                optional={
                    "gpus_per_node": st.sampled_from([0.125, 1, 3, 8, 4096]),
                    "nodes": st.sampled_from([1, 5, 65536]),
                    "usd_per_hour": st.sampled_from([0, 0.4, 1e6]),
                },
            ),
            max_size=2,
        ),
        "constraints": st.fixed_dictionaries(
            {},
            optional={
                "deadline": st.sampled_from(["1s", "24h", "10 years"]),
                "budget": st.sampled_from([0.01, 500, "$1M"]),
                "clouds": mostly(st.sampled_from([["aws"], ["gcp", "azure"], ["own"], []]), st.just(["nowhere"])),
                "regions": mostly(st.sampled_from([["us-*"], ["*"]]), st.just(["moon"])),
                "gpus": st.lists(mostly(st.sampled_from(WANTED), st.sampled_from(["TPU-v5e:8", "gaudi2"])), max_size=2),
                "markets": st.lists(st.sampled_from(["on-demand", "spot", "reserved", "own"]), max_size=3),
                "max_nodes": st.sampled_from([1, 3, 512, 65536]),
                "accelerators": st.sampled_from(["gpu", "any"]),
            },
        ),
        "options": st.fixed_dictionaries(
            {}, optional={"top": st.sampled_from([1, 500]), "sort": st.sampled_from(["time", "value"])}
        ),
    }
    for name in draw(st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=6)):
        asked[name] = draw(optional[name])
    return asked


def finite(value: object) -> bool:
    """No NaN or infinity anywhere (JSON has neither; they would arrive as null or break the reader)."""
    if isinstance(value, dict):
        return all(finite(part) for part in value.values())
    if isinstance(value, list):
        return all(finite(part) for part in value)
    return not isinstance(value, float) or math.isfinite(value)


@given(asked=requests(), path=st.sampled_from(["plan", "estimate"]))
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_plausible_request_is_answered_or_refused_by_name(asked: dict[str, Any], path: str) -> None:
    if path == "estimate" and not asked.get("constraints", {}).get("gpus"):
        asked["constraints"] = {**asked.get("constraints", {}), "gpus": ["A100-SXM4-80GB:8", "T4"]}
    answer = CLIENT.post(f"/v1/{path}", json=asked)
    body = answer.json()
    assert answer.status_code in (200, 422), (asked, body)
    assert finite(body)
    if answer.status_code == 422:
        assert body["field"], (asked, body)
    elif path == "plan":
        assert body["plans"] or body["binding"], (asked, body)
        for entry in body["plans"]:
            assert 0 < entry["hours"]["p10"] <= entry["hours"]["p50"] <= entry["hours"]["p90"]
            assert 0 <= entry["cost_usd"]["p10"] <= entry["cost_usd"]["p50"] <= entry["cost_usd"]["p90"]
