"""The tools of an assistant, asked by the client of the protocol's own kit over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks_db.contribute import add

mcp = pytest.importorskip("mcp", reason="needs the extra `mcp`")

ROOT = Path(__file__).resolve().parents[2]
LORA = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "constraints": {"gpus": ["H100:8"]}}


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One conversation with a real process: what was listed, and the answer to each call."""
    folder = tmp_path_factory.mktemp("assistant")
    (folder / "mine.csv").write_text(
        "model,gpu,gpus,throughput,unit,precision,micro_batch\nvgg16,T4,1,60,samples/s,fp16,32\n"
    )
    add(folder / "mine.csv", folder)
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "measured": ("estimate", {"request": {"model": "vgg16", "images": "50k", "constraints": {"gpus": ["T4"]}}}),
        "plan": ("plan", {"request": LORA | {"options": {"top": 2}}}),
        "estimate": ("estimate", {"request": {"model": "resnet50", "images": "50k", "constraints": {"gpus": ["T4"]}}}),
        "explain": ("explain", {"request": LORA}),
        "offers": ("offers", {"gpu": "H100*", "market": "spot", "limit": 3}),
        "counted": ("offers", {"gpu": "H100:8", "limit": 3}),
        "refused": ("offers", {"gpu": "Gaudi2"}),
        "unknown": ("plan", {"request": LORA | {"model": "llama3-8bb"}}),
        "shape": ("plan", {"request": LORA | {"tokenz": 5}}),
        "file": ("plan", {"request": {"hf_config": "/etc/passwd", "tokens": "1M"}}),
        "nothing": ("explain", {"request": LORA | {"constraints": {"budget": 0.001}}}),
    }

    async def talk() -> dict[str, Any]:
        process = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-c", "from estimator.cli import main; main()", "mcp", "--offline"],
            cwd=str(ROOT),
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "ESTIMATOR_DATA_DIR": str(folder),
                "ESTIMATOR_NOW": "2026-09-15T12:00:00Z",
                "OMP_NUM_THREADS": "1",
            },
        )
        async with mcp.Client(process) as client:
            tools = await client.list_tools()
            answers = {key: await client.call_tool(name, asked) for key, (name, asked) in calls.items()}
        return {"tools": {tool.name: tool for tool in tools.tools}, **answers}

    return asyncio.run(asyncio.wait_for(talk(), 240))


def document(answer: Any) -> dict[str, Any]:
    assert not answer.is_error, answer.content
    found: dict[str, Any] = answer.structured_content
    return found


def refusal(answer: Any) -> str:
    assert answer.is_error
    return " ".join(part.text for part in answer.content)


def test_the_users_own_measurements_weigh_here_too(conversation: dict[str, Any]) -> None:
    (found,) = document(conversation["measured"])["estimates"]
    assert found["evidence"]["kind"] == "own"


def test_four_tools_say_what_they_take_and_what_they_give(conversation: dict[str, Any]) -> None:
    tools = conversation["tools"]
    assert set(tools) == {"plan", "estimate", "explain", "offers"}
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema["properties"]
    request = tools["plan"].input_schema
    assert "tokens" in str(request["$defs"]["Workload"]["properties"])


def test_a_plan_is_typed(conversation: dict[str, Any]) -> None:
    from estimator.documents import PlanDocument

    plans = PlanDocument.model_validate(document(conversation["plan"])).plans
    assert [entry.rank for entry in plans] == [1, 2]
    assert {entry.gpu for entry in plans} == {"H100-SXM5-80GB"}


def test_an_estimate_is_typed(conversation: dict[str, Any]) -> None:
    from estimator.documents import EstimateDocument

    (entry,) = EstimateDocument.model_validate(document(conversation["estimate"])).estimates
    assert (entry.gpu, entry.hours.p10 <= entry.hours.p50 <= entry.hours.p90) == ("T4", True)


def test_an_explanation_adds_up(conversation: dict[str, Any]) -> None:
    found = document(conversation["explain"])
    assert found["derivation"]
    assert sum(found["hours_parts"].values()) == pytest.approx(found["hours"]["p50"])


def test_offers_are_the_cheapest_first(conversation: dict[str, Any]) -> None:
    found = document(conversation["offers"])
    prices = [offer["price_usd_per_hour"] for offer in found["offers"]]
    assert len(prices) == 3 <= found["total"]
    assert prices == sorted(prices)
    assert {offer["market"] for offer in found["offers"]} == {"spot"}


def test_a_gpu_is_named_as_people_write_it_with_its_count(conversation: dict[str, Any]) -> None:
    found = document(conversation["counted"])
    assert {(offer["gpu"][:5], offer["gpus_per_node"]) for offer in found["offers"]} == {("H100-", 8)}
    assert "Gaudi2" in conversation["refused"].content[0].text


def test_a_refusal_says_what_would_help(conversation: dict[str, Any]) -> None:
    assert "llama3-8b" in refusal(conversation["unknown"])
    assert "tokens" in refusal(conversation["shape"])
    assert "path" in refusal(conversation["file"])
    assert "root" not in refusal(conversation["file"])
    assert "budget" in refusal(conversation["nothing"])
