"""Does a change of the program leave every answer as it was? Documents of some 130 varied requests, byte for byte.

    python benchmarks/same_answers.py before.json        in the old tree: write their documents
    python benchmarks/same_answers.py before.json        in the new tree: the file is there, so compare with it

Plans, estimates and inverse questions over the shipped prices, over a made-up past of spot prices, and over 1 in 3 of
the offers: kinds of models, methods, sizes, limits, orders, policies, own machines, and what nothing satisfies. Exits
with 1 and names what differs.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks_db.errors import EstimatorError
from estimator import Workload, estimate, plan
from estimator.planning.solve import SolveFor, solve
from pricing.offers import OfferTable, current_offers
from pricing.spot_history import Steps

NOW = datetime(2026, 9, 1, tzinfo=UTC)
Request = dict[str, Any]

LORA: Request = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}
FULL: Request = {"model": "mistral-7b", "method": "full", "tokens": "200M"}
LARGE: Request = {"model": "llama2-70b", "method": "pretrain", "tokens": "1T", "seq_len": 4096}
VISION: Request = {"model": "resnet50", "images": "90M"}
ENCODER: Request = {"model": "bert-base", "method": "full", "tokens": "1B"}
OWN: Request = {"name": "desk", "gpu": "RTX-4090:2", "nodes": 2, "usd_per_hour": 0.8}

MODELS: tuple[Request, ...] = (
    LORA, FULL, LARGE, VISION, ENCODER,
    {"model": "llama3-70b", "method": "qlora", "tokens": "20M"},
    {"model": "mixtral-8x7b", "method": "full", "tokens": "2B"},
    {"model": "qwen2.5-7b", "method": "lora", "tokens": "3B", "lora": {"rank": 64}},
    {"model": "gpt2", "method": "pretrain", "tokens": "10B"},
    {"model": "vit-b16", "images": "300M"},
    {"model": "t5-base", "method": "full", "tokens": "1B"},
    {"model": "phi-3-mini", "method": "lora", "tokens": "5M", "compiled": True},
    {"model": "llama3-8b", "method": "full", "tokens": "1B", "seq_len": 65536},
    {"model": "llama3-8b", "method": "pretrain", "tokens": "15T", "precision": "fp8", "software": "tuned"},
    {"custom": {"params_m": 350, "flops_per_sample": "2e12"}, "samples": "10M"},
)  # fmt: skip
LIMITS: tuple[Request, ...] = (
    {"constraints": {"deadline": "24h"}},
    {"constraints": {"budget": 50}},
    {"constraints": {"deadline": "12h", "budget": 200, "confidence": 0.9}},
    {"constraints": {"deadline": "48h", "confidence": 0.3}},
    {"constraints": {"max_usd_per_hour": 5}},
    {"constraints": {"deadline": "10m"}},
    {"constraints": {"budget": 0.01, "confidence": 0.95}},
    {"constraints": {"deadline": "30h", "max_usd_per_hour": 40, "markets": ["on-demand"]}},
    {"constraints": {"markets": ["spot"]}},
    {"constraints": {"clouds": ["gcp", "azure"], "regions": ["eu-*", "europe-*"]}},
    {"constraints": {"gpus": ["H100:8", "A100-80GB"]}},
    {"constraints": {"quotas": [{"cloud": "aws", "max_gpus": 8}], "max_nodes": 4}},
    {"constraints": {"min_nodes": 2, "max_gpus": 64}},
    {"options": {"sort": "time", "top": 3}},
    {"options": {"sort": "expected", "top": 20}},
    {"options": {"sort": "value", "top": 5}},
    {"options": {"sort": "gpus", "top": 7}},
    {"options": {"sort": "cost", "top": 400}},
    {"options": {"top": 1, "explain": True}},
    {"spot": {"policy": "fallback", "fallback_after": 1}},
    {"spot": {"save_on_notice": True}},
    {"spot": {"elastic": True, "hazard_per_hour": 0.5}},
    {"spot": {"interruptions": False}, "run": {"failures": False}},
    {"spot": {"azure_eviction": "20+", "wait": "2h"}},
    {"run": {"checkpoints": False}},
    {"run": {"checkpoint_interval": "1h", "attempts": 1.5, "trials": 3}, "bill": {"tax_percent": 19}},
    {"run": {"start_up": False, "evaluation": False}, "bill": {"storage": False}},
    {"bill": {"data_in": "aws/us-east-1", "energy": True, "currency": "EUR=0.92", "egress_gb": 100}},
    {"own": [OWN]},
    {"own": [OWN], "constraints": {"clouds": ["own"]}},
)  # fmt: skip
REFUSED: tuple[Request, ...] = (
    {"model": "llama3-70b", "method": "full", "tokens": "1B", "constraints": {"gpus": ["T4:1"]}},
    {"model": "llama3-8b", "method": "full", "tokens": "1B", "global_batch": 7, "constraints": {"gpus": ["H100:8"]}},
    {"model": "llama3-8b", "tokens": "1B", "precision": "fp8", "constraints": {"gpus": ["A100-80GB"]}},
    {"model": "llama3-8b", "tokens": "1B", "constraints": {"gpus": ["H100:3"]}},
    {"model": "nothing-at-all", "tokens": "1B"},
)


def requests() -> Iterator[Request]:
    """Every model as it is, every limit with a model or two, formats, what is refused, and 40 drawn at random."""
    yield from MODELS
    for number, limit in enumerate(LIMITS):
        yield {**LORA, **limit}
        yield {**MODELS[1 + number % (len(MODELS) - 1)], **limit}
    yield {**LORA, "constraints": {"precisions": ["bf16", "fp8"]}}
    yield {**FULL, "micro_batch": 2, "tensor_parallel": 2, "global_batch": 128}
    yield {**FULL, "measured": ["2100 tokens/s on A100-80GB:1"]}
    yield {**LORA, "constraints": {"accelerators": "any"}}
    yield from REFUSED
    draw = random.Random(8)
    for _ in range(40):
        one, two = draw.sample(LIMITS, 2)
        size = {"tokens": f"{draw.uniform(1, 5000):.1f}M"}
        model = draw.choice(MODELS)
        body = {**model, **(size if "tokens" in model else {})}
        for part in (one, two):
            for key, value in part.items():
                body[key] = {**body.get(key, {}), **value} if isinstance(value, dict) else value
        yield body


def past(market: OfferTable) -> dict[tuple[str, str, str, str], Steps]:
    """Made-up steps of every third spot price over 60 days."""
    found = {}
    draw = np.random.default_rng(3)
    names, end = market.names, NOW.timestamp()
    columns = ("cloud", "region", "zone", "zone_id", "instance_type")
    for row in np.flatnonzero(market.where("market", lambda name: name == "spot"))[::3]:
        cloud, region, zone, zone_id, kind = (names[column][market.codes[column][row]] for column in columns)
        since = np.sort(end - 86400.0 * 60 * draw.random(12))
        levels = float(market.usd_per_hour[row]) * np.exp(0.3 * draw.standard_normal(12))
        found[cloud, region, zone or zone_id, kind] = Steps(since, levels, end)
    return found


def documents() -> Iterator[tuple[str, str]]:
    """(what was asked, the answer as JSON or the words of a refusal)."""
    market = current_offers(now=NOW)
    everything = current_offers(now=NOW, accelerators="any")
    third = market.select(np.arange(len(market)) % 3 == 1)
    history = past(market)

    def answer(what: str, body: Request, ask: Any) -> tuple[str, str]:
        name = f"{what} {json.dumps(body)}"
        try:
            return name, ask(Workload.model_validate(body)).model_dump_json()
        except EstimatorError as error:
            return name, f"{type(error).__name__}: {error}"

    for number, body in enumerate(requests()):
        offers = everything if "accelerators" in str(body) else market
        yield answer("plan", body, lambda w, o=offers: plan(w, offers=o, now=NOW))
        if number % 3 == 0:
            yield answer("plan with a past", body, lambda w: plan(w, offers=market, now=NOW, history=history))
        if number % 5 == 0:
            yield answer("plan over a third", body, lambda w: plan(w, offers=third, now=NOW))
        if number % 6 == 0:
            gpus = ["H100:8", "A100-80GB:1", "L4:4", "RTX-4090"]
            yield answer("estimate", body, lambda w, g=gpus: estimate(w, gpus=g, offers=market, now=NOW))
    within = {"constraints": {"deadline": "24h", "budget": 50, "confidence": 0.9}}
    for body in ({**LORA, **within}, {**VISION, "constraints": {"budget": 500}}):
        for what in SolveFor:
            yield answer(what.value, body, lambda w, k=what: solve(w, k, offers=market, now=NOW))


def main() -> int:
    file = Path(sys.argv[1])
    found = dict(documents())
    if not file.exists():
        file.write_text(json.dumps(found))
        print(f"{len(found)} answers written")
        return 0
    before = json.loads(file.read_text())
    wrong = [name for name in {**before, **found} if before.get(name) != found.get(name)]
    for name in wrong:
        print("DIFFERS", name)
        one, two = before.get(name, ""), found.get(name, "")
        at = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
        print("   before ...", one[max(0, at - 80) : at + 80])
        print("   now    ...", two[max(0, at - 80) : at + 80])
    print(f"{len(found)} answers, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
