"""A measurement in words: what it says, what it leaves open, and how a wrong one is answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.request.measured_text import EXAMPLE, cells_of, is_text, listed_measurements
from estimator.request.workload import Workload


def test_the_example_says_a_rate_a_card_and_a_batch() -> None:
    assert cells_of(EXAMPLE) == {
        "throughput": "3100",
        "unit": "tokens/s",
        "gpu": "RTX-3090",
        "gpus": "1",
        "micro_batch": "4",
    }


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("3.1k tok/s on RTX 3090", {"throughput": "3100", "unit": "tokens/s", "gpu": "RTX-3090", "gpus": "1"}),
        ("1,200 images per second on 8xV100-16GB", {"throughput": "1200", "unit": "samples/s", "gpus": "8"}),
        ("400 img/s/gpu on V100-16GB:4", {"scope": "per_gpu", "unit": "samples/s", "gpus": "4"}),
        ("2.5 it/s on RTX-3090", {"throughput": "0.4", "unit": "s/step"}),
        ("850 ms/step on RTX-3090", {"throughput": "850", "unit": "ms/step"}),
        ("9k tokens/s on 2x8xA100-80GB, zero3", {"gpus": "16", "nodes": "2", "sharding": "zero3"}),
        ("9k tokens/s on 2 nodes of 8xA100-80GB", {"gpus": "16", "nodes": "2"}),
        ("9 samples/s on RTX-3090, seq_len=4096; global batch of 64", {"seq_len": "4096", "global_batch": "64"}),
        ("9 samples/s on RTX-3090, 2048 seq-len, fp16, qlora, compiled", {"precision": "fp16", "method": "qlora"}),
    ],
)
def test_there_is_more_than_one_way_to_write_it(text: str, cells: dict[str, str]) -> None:
    found = cells_of(text)
    assert {name: found.get(name) for name in cells} == cells


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3100 furlongs on RTX-3090", "'furlongs' is no unit of throughput"),
        ("3100 tokens/s on RTX-3091x", "unknown GPU 'RTX-3091x' (did you mean RTX-3090"),
        ("3100 tokens/s on RTX-3090, batch 4", "whose batch"),
        ("3100 tokens/s on RTX-3090, micro-btch 4", "did you mean micro-batch"),
        ("3100 tokens/s on RTX-3090, bf17", "'bf17' is not understood"),
        ("0 tokens/s on RTX-3090", "must be above 0"),
        ("3100 tokens/s on RTX-3090, fp16, bf16", "fp16 and bf16 are both given"),
        ("3100 on RTX-3090", "does not read as RATE UNIT on"),
    ],
)
def test_what_does_not_read_is_named_with_what_would(text: str, said: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        cells_of(text)
    assert caught.value.field == "measured"
    assert said in str(caught.value)


def test_a_path_is_no_text_and_a_text_keeps_its_commas() -> None:
    assert not any(is_text(path) for path in ("mine.csv", "runs on a3.csv", "2026/on/x.csv", "3 runs on a3.csv"))
    assert listed_measurements("a.csv, b.csv") == ["a.csv", "b.csv"]
    request = Workload(model="llama3-8b", measured=["a.csv", EXAMPLE])  # type: ignore[arg-type]
    assert request.measured == ("a.csv", EXAMPLE)
    assert Workload(model="llama3-8b", measured=EXAMPLE).measured == (EXAMPLE,)  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_no_text_is_more_than_bad_input(text: str) -> None:
    try:
        cells_of(f"{text} tokens/s on RTX-3090, {text}")
    except WorkloadError as error:
        assert error.field == "measured" or error.field is None  # noqa: PT017
