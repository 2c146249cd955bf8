"""Three ways to ask, one answer: the command line, the library and the HTTP server give identical numbers."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
import yaml

from estimator import Workload, estimate, plan
from pricing.offers import current_offers

from .conftest import NOW, ROOT, CommandLine

MOMENT = datetime.fromisoformat(NOW)
PLANNED = ("lora-llama3-8b", "resnet50-imagenet-mixed", "own-rtx3090s", "qlora-llama3-70b")
COMPARED = ("gtx1080ti-or-rtx3080", "v100-or-a100")


def request(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    return document


def post(server: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(f"{server}/v1/{path}", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_is_the_same_from_every_face(name: str, estimator: CommandLine, server: str) -> None:
    command_line = estimator.json("plan", f"examples/{name}.yaml")
    library = json.loads(plan(Workload(**request(name)), now=MOMENT).model_dump_json())
    assert command_line["plans"]
    assert command_line == library
    assert post(server, "plan", request(name)) == library


@pytest.mark.parametrize("name", COMPARED)
def test_an_estimate_is_the_same_from_every_face(name: str, estimator: CommandLine, server: str) -> None:
    gpus = {"gtx1080ti-or-rtx3080": ["GTX-1080Ti", "RTX-3080"], "v100-or-a100": ["V100-SXM2-16GB", "A100-SXM4-40GB"]}[
        name
    ]
    body = request(name) | {"constraints": {"gpus": gpus}}
    flags = [flag for gpu in gpus for flag in ("--gpu", gpu)]
    command_line = estimator.json("estimate", f"examples/{name}.yaml", *flags)
    library = json.loads(estimate(Workload(**body), now=MOMENT).model_dump_json())
    assert [entry["gpu"] for entry in command_line["estimates"]] == gpus
    assert command_line["estimates"] == library["estimates"]
    assert post(server, "estimate", body)["estimates"] == library["estimates"]


def test_flags_say_the_same_as_a_file(estimator: CommandLine) -> None:
    flags = ["--method", "lora", "--tokens", "50M", "--seq-len", "2048", "--global-batch", "64", "--packing"]
    limits = ["--precision", "bf16", "--deadline", "24h", "--budget", "500"]
    by_flags = estimator.json("plan", "--model", "llama3-8b", *flags, *limits)
    assert by_flags["plans"] == estimator.json("plan", "examples/lora-llama3-8b.yaml")["plans"]


@pytest.mark.parametrize("listing", ["gpus", "models", "instances", "offers"])
def test_a_listing_is_the_same_from_the_command_line_and_http(
    listing: str, estimator: CommandLine, server: str
) -> None:
    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = httpx.get(f"{server}/v1/{listing}", params={"limit": "1000", **cursor}, timeout=60).json()
        rows += page[listing]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}

    def order(row: dict[str, Any]) -> str:
        return json.dumps(row, sort_keys=True)

    command_line = estimator.json(listing)
    assert command_line["version"] == page["version"] == "1"
    assert sorted(command_line[listing], key=order) == sorted(rows, key=order)


def test_the_server_plans_with_the_offers_that_it_lists(server: str) -> None:
    entry = post(server, "plan", request("lora-llama3-8b"))["plans"][0]
    filters = {name: entry[name] for name in ("cloud", "region", "instance_type", "market")}
    offers = httpx.get(f"{server}/v1/offers", params=filters, timeout=60).json()["offers"]
    assert entry["price"]["usd_per_hour_instance"] in [offer["price_usd_per_hour"] for offer in offers]
    assert len(current_offers(now=MOMENT)) > 0
