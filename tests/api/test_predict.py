from __future__ import annotations

import math

from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.app import create_app
from api.settings import Settings

from .conftest import NOW
from .test_plan import ask
from .test_problems import problem


def test_predictions_come_back_in_order_with_an_error_where_there_is_none(client: TestClient) -> None:
    good = {"model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": 8, "micro_batch": 1, "seq_len": 4096, "mark": "a"}
    rows = ask(client, "predict", rows=[good, {"model": "no-such-model", "gpu": "H100", "mark": "b"}])["rows"]
    assert [row["mark"] for row in rows] == ["a", "b"]
    assert float(rows[0]["predicted_low"]) <= float(rows[0]["predicted_throughput"]) <= float(rows[0]["predicted_high"])
    assert rows[0]["error"] == ""
    assert rows[1]["error"]
    assert rows[1]["predicted_throughput"] == ""


def test_too_many_rows_are_refused() -> None:
    client = TestClient(create_app(Settings(now=NOW, max_predict_rows=2)))
    body = problem(client.post("/v1/predict", json={"rows": [{"model": "x"}] * 3}))
    assert (body["status"], body["field"]) == (422, "rows")


def test_a_cell_that_is_no_value_is_one_fault_that_says_what_may_stand_there(client: TestClient) -> None:
    body = problem(client.post("/v1/predict", json={"rows": [{"gpu": "T4", "gpus": [8]}, {"gpu": {}}]}))
    assert [(fault["field"], fault["message"]) for fault in body["errors"]] == [
        ("rows.0.gpus", "must be text, a number, true or false"),
        ("rows.1.gpu", "must be text, a number, true or false"),
    ]


CELLS: dict[str, list[object]] = {
    "model": ["llama3-8b", "resnet50", "bert-large", "ssd300-resnet50", "nothing", "", None],
    "gpu": ["H100-SXM5-80GB", "A100", "T4", "RTX-3090", "TPU-v4", "abacus", ""],
    "gpus": [1, 8, 1024, 0, -1, 0.5, "eight", 1e30, None],
    "nodes": [1, 4, 10**9, ""],
    "precision": ["amp-bf16", "fp32", "fp8", "fp7", ""],
    "micro_batch": [1, 64, 0, 10**12, ""],
    "global_batch": [64, 1, -5, ""],
    "seq_len": [2048, 0, 10**9, "long"],
    "image_size": [224, 1, ""],
    "params_m": [8030, -1, 1e308, ""],
    "tp": [1, 8, 3, 0],
    "pp": [1, 16, -2],
    "unit": ["tokens/s", "samples/s", "s/step", "furlongs", ""],
    "scope": ["total", "per_gpu", "half"],
    "peft": ["none", "lora", "qlora"],
    "act_ckpt": ["none", "full", "sometimes"],
    "sharding": ["ddp", "zero3", "zero9"],
    "date": ["2024-01", "soon"],
    "source": ["", "NVIDIA/NeMo@x:y", "=HYPERLINK(1)"],
}


@given(
    rows=st.lists(
        st.fixed_dictionaries({}, optional={name: st.sampled_from(cells) for name, cells in CELLS.items()}),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_row_comes_back_predicted_or_with_an_error(client: TestClient, rows: list[dict[str, object]]) -> None:
    answered = ask(client, "predict", rows=rows)["rows"]
    assert len(answered) == len(rows)
    for row in answered:
        if row["error"]:
            assert row["predicted_throughput"] == ""
            continue
        low, middle, high = (float(row[f"predicted_{name}"]) for name in ("low", "throughput", "high"))
        assert 0 < low <= middle <= high
        assert math.isfinite(high)
        assert row["fits"] in ("yes", "tight", "no", "unknown")
