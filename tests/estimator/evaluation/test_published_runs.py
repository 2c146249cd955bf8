"""Runs that everybody knows: what is answered must be believable at a glance (each within a factor of its source)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from estimator import Workload, estimate

NOW = datetime(2026, 9, 1, tzinfo=UTC)
LLM = {"method": "pretrain", "packing": True}
COCO = {"images": "118k", "epochs": 300, "global_batch": 64, "image_size": 640}
LAION = {"samples": "400M", "epochs": 32}

# name: request, GPUs, GPU-hours published, source
PUBLISHED = {
    "Llama 2 7B (arXiv:2307.09288, table 2)": (
        LLM | {"model": "llama2-7b", "tokens": "2T", "seq_len": 4096, "global_batch": 1024},
        "A100-80GB:1024",
        184_320,
    ),
    "Llama 2 70B (arXiv:2307.09288, table 2)": (
        LLM | {"model": "llama2-70b", "tokens": "2T", "seq_len": 4096, "global_batch": 1024},
        "A100-80GB:2048",
        1_720_320,
    ),
    "Llama 3.1 405B (its model card)": (
        LLM | {"model": "llama3.1-405b", "tokens": "15.6T", "seq_len": 8192, "global_batch": 2048},
        "H100:8192",
        30_840_000,
    ),
    "GPT-2 124M (karpathy/nanoGPT README: 4 days on 8 A100 40GB)": (
        LLM | {"model": "gpt2", "tokens": "300B", "seq_len": 1024, "global_batch": 480, "compiled": True},
        "A100-SXM4-40GB:8",
        4 * 24 * 8,
    ),
    "YOLOv5s (ultralytics/yolov5 README: 2 days on a V100)": (COCO | {"model": "yolov5s"}, "V100-16GB:1", 48),
    "YOLOv5x (ultralytics/yolov5 README: 8 days on a V100)": (COCO | {"model": "yolov5x"}, "V100-16GB:1", 192),
    "CLIP ViT-B/32 (mlfoundations/open_clip: 36 h on 128 A100)": (
        LAION | {"model": "clip-vit-b32-laion400m", "global_batch": 32768},
        "A100-SXM4-40GB:128",
        36 * 128,
    ),
    "CLIP ViT-L/14 (mlfoundations/open_clip: 127 h on 400 A100)": (
        LAION | {"model": "clip-vit-l14-laion400m", "global_batch": 38400},
        "A100-SXM4-40GB:400",
        127 * 400,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_run_is_answered_within_a_factor_of_two(name: str) -> None:
    request, gpus, published = PUBLISHED[name]
    [entry] = estimate(Workload.model_validate(request), gpus=[gpus], now=NOW).estimates
    assert published / 2 < entry.gpu_hours < published * 2


@pytest.mark.parametrize("gpu", ["A100-80GB", "H100"])
@pytest.mark.parametrize("model", ["llama2-7b", "llama3-8b", "qwen2.5-7b", "gpt-neox-20b"])
def test_a_language_model_on_one_node_runs_at_a_utilisation_that_people_see(model: str, gpu: str) -> None:
    asked = LLM | {"model": model, "tokens": "1B", "seq_len": 2048, "global_batch": 256}
    [entry] = estimate(Workload.model_validate(asked), gpus=[f"{gpu}:8"], now=NOW).estimates
    assert entry.mfu is not None
    assert 0.25 < entry.mfu < 0.65
