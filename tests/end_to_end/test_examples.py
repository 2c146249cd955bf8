"""Every example runs as its own comment says, and answers in the shape of the contract."""

from __future__ import annotations

import itertools
import math
import re
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, CommandLine, environment

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
PLANS = [path for path in EXAMPLES if "estimator plan" in path.read_text(encoding="utf-8")]
SWEEPS = [path for path in EXAMPLES if "estimator sweep" in path.read_text(encoding="utf-8")]
PLAN_KEYS = {
    "rank", "cloud", "region", "zone", "instance_type", "market", "nodes", "gpu", "gpus", "layout", "throughput", "mfu",
    "bound_by", "breakdown_ms", "hours", "cost_usd", "price", "memory_gib", "evidence", "pareto", "warnings",
}  # fmt: skip
LAYOUT_KEYS = {
    "micro_batch", "grad_accum", "data", "tensor", "pipeline", "context", "expert", "sharding",
    "activation_checkpointing",
}  # fmt: skip
BOUNDS = {"compute", "memory-bandwidth", "launch", "communication", "pipeline", "input"}
EVIDENCE = {"own", "group", "lab", "unseen-model", "unseen-gpu", "unseen-lab"}


def said_command(path: Path) -> list[str]:
    match = re.search(r"^# Run: estimator (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert match, f"{path.name} does not say how to run it"
    return shlex.split(match[1])


def check_entry(entry: dict[str, Any]) -> None:
    """What holds for every plan and estimate, whatever was asked."""
    layout = entry["layout"]
    assert set(layout) >= LAYOUT_KEYS
    assert layout["data"] * layout["tensor"] * layout["pipeline"] * layout["context"] == max(1, entry["gpus"])
    assert entry["throughput"]["value"] > 0
    assert entry["throughput"]["unit"] in ("tokens/s", "samples/s")
    assert entry["mfu"] is None or 0 < entry["mfu"] < 1
    assert entry["bound_by"] in BOUNDS
    assert all(math.isfinite(part) and part >= 0 for part in entry["breakdown_ms"].values())
    assert 0 < entry["hours"]["p10"] <= entry["hours"]["p50"] <= entry["hours"]["p90"]
    memory = entry["memory_gib"]
    assert memory["verdict"] in ("yes", "tight", "no", "unknown")
    if memory["verdict"] == "yes":
        assert 0 < memory["used"] <= memory["capacity"]
    assert entry["evidence"]["kind"] in EVIDENCE


def memory_adds_up(memory: dict[str, Any]) -> bool:
    return math.isclose(memory["used"], sum(memory["parts"].values()), rel_tol=1e-6)


def check_plan(entry: dict[str, Any]) -> None:
    assert set(entry) >= PLAN_KEYS
    check_entry(entry)
    price, cost, hours = entry["price"], entry["cost_usd"], entry["hours"]
    assert price["usd_per_hour"] == pytest.approx(price["usd_per_hour_instance"] * entry["nodes"])
    assert price["state"] in ("live", "stale", "snapshot", "own")
    assert price["source"]
    assert 0 <= cost["p10"] <= cost["p50"] <= cost["p90"]
    assert cost["p50"] == pytest.approx(sum(entry["cost_parts"].values()))
    assert hours["p50"] == pytest.approx(sum(entry["hours_parts"].values()))
    assert entry["step_ms"] == pytest.approx(sum(entry["breakdown_ms"].values()))
    assert memory_adds_up(entry["memory_gib"])
    if price["state"] != "own":
        assert price["usd_per_hour"] > 0
        assert datetime.fromisoformat(price["observed_at"]).tzinfo is not None
        assert price["age_hours"] >= 0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_who_asks_what(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Who asks: ")
    assert "\n# Asks: " in text


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_example_answers_with_ranked_plans(path: Path, estimator: CommandLine) -> None:
    document = estimator.json(*said_command(path))
    assert (document["version"], document["currency"], document["binding"]) == ("1", "USD", None)
    assert [entry["rank"] for entry in document["plans"]] == list(range(1, len(document["plans"]) + 1))
    assert document["plans"], document["rejected"]
    for entry in document["plans"]:
        check_plan(entry)
    costs = [entry["cost_usd"]["p50"] for entry in document["plans"]]
    assert costs == sorted(costs)
    assert any(entry["pareto"] for entry in document["plans"])


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_example_has_a_plan_in_every_cell(path: Path, estimator: CommandLine, tmp_path: Path) -> None:
    command, spec, *_ = said_command(path)
    done = estimator(command, spec, "-o", str(tmp_path / "out.parquet"), "--jobs", "1")
    cells, _, rows = done.stderr.partition(" cells: ")
    assert rows.startswith(f"{cells} rows in ")


@pytest.mark.parametrize("path", sorted({*EXAMPLES} - {*PLANS} - {*SWEEPS}), ids=lambda path: path.stem)
def test_a_comparison_example_answers_for_each_gpu(path: Path, estimator: CommandLine) -> None:
    arguments = said_command(path)
    asked = [value for flag, value in itertools.pairwise(arguments) if flag == "--gpu"]
    entries = estimator.json(*arguments)["estimates"]
    assert [entry["gpu"] for entry in entries] == asked
    for entry in entries:
        check_entry(entry)
    slow, fast = entries
    assert fast["throughput"]["value"] > slow["throughput"]["value"]


def test_the_lora_example_has_plans_from_all_three_clouds(estimator: CommandLine) -> None:
    plans = estimator.json("plan", "examples/lora-llama3-8b.yaml")["plans"]
    assert {entry["cloud"] for entry in plans} == {"aws", "gcp", "azure"}
    assert all(entry["hours"]["p50"] <= 24 and entry["cost_usd"]["p50"] <= 500 for entry in plans)


def test_the_own_machine_is_ranked_beside_the_clouds(estimator: CommandLine) -> None:
    plans = estimator.json("plan", "examples/own-rtx3090s.yaml")["plans"]
    own = [entry for entry in plans if entry["market"] == "own"]
    assert len({entry["cloud"] for entry in plans}) > 1
    assert own
    assert own[0]["gpu"] == "RTX-3090"
    assert own[0]["price"]["usd_per_hour"] == pytest.approx(0.40)


def test_fp32_costs_more_than_mixed_precision(estimator: CommandLine) -> None:
    mixed, single = (
        estimator.json("plan", f"examples/resnet50-imagenet-{name}.yaml")["plans"][0]["cost_usd"]["p50"]
        for name in ("mixed", "fp32")
    )
    assert single > mixed


def test_the_library_example_prints_three_plans(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "examples/library.py"],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 3
    assert "$" in done.stdout


def test_the_http_example_gets_a_plan(server: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "examples/http.sh", server],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert '"plans":[{' in done.stdout.replace(" ", "")
