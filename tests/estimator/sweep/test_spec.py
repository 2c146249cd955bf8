"""The file of a sweep: which cells it has, and what is said of a value that no cell can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.sweep.cells import check
from estimator.sweep.spec import Spec, path_of, read_spec, spec_of
from tests.estimator.sweep.conftest import GRID, question_of


def spec(grid: dict[str, Any], **base: Any) -> Spec:
    return spec_of({**base, "grid": grid}, Path())


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_every_combination_is_one_cell_and_the_last_axis_varies_fastest(sizes: list[int]) -> None:
    keys = ("seq_len", "global_batch", "micro_batch", "image_size")
    found = spec({key: list(range(1, size + 1)) for key, size in zip(keys, sizes, strict=False)})
    cells = [tuple(found.varied(cell).values()) for cell in range(len(found))]
    assert len(set(cells)) == len(cells) == len(found)
    assert cells == sorted(cells)


def test_limits_vary_fastest_wherever_they_stand() -> None:
    found = spec({"deadline": ["1h", "2h"], "seq_len": [1, 2], "budget": [5]}, model="llama3-8b")
    assert [axis.name for axis in found.axes] == ["seq_len", "deadline", "budget"]


def test_keys_that_belong_together_vary_together() -> None:
    projects = [{"name": "chat", "model": "llama3-8b", "tokens": "50M"}, {"name": "eyes", "model": "resnet50"}]
    found = spec({"project": projects, "epochs": [1, 2]})
    assert len(found) == 4
    assert found.varied(2) == {"name": "eyes", "model": "resnet50", "epochs": 1}


def test_a_key_of_the_request_that_is_a_mapping_stays_one() -> None:
    found = spec({"lora": [{"rank": 8}, {"rank": 16}]}, model="llama3-8b", method="lora", tokens="1M")
    workload = found.workload(found.varied(1))
    assert workload.lora is not None
    assert workload.lora.rank == 16


def test_a_cell_is_the_cheapest_plan_unless_the_file_asks_for_more() -> None:
    grid = {"seq_len": [1024]}
    one, three = (spec(grid, model="llama3-8b", tokens="1M", options=options) for options in ({}, {"top": 3}))
    assert (one.workload(one.varied(0)).options.top, three.workload(three.varied(0)).options.top) == (1, 3)


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, "grid: say what varies"),
        ({"seq_len": 2048}, "grid.seq_len: an axis is a list of values"),
        ({"seq_len": []}, "grid.seq_len: an axis needs at least one value"),
        ({"seq_len": [1, 1]}, "grid.seq_len: 1 stands here twice"),
        ({"seq_len": [1, None]}, "grid.seq_len.1: a value is missing"),
        ({"cloud": ["aws"], "constraints.clouds": ["gcp"]}, "grid.constraints.clouds: .* is set by 'cloud' too"),
        ({"measured": ["mine.csv"]}, "grid.measured: measurements belong beside the grid"),
        ({"accelerators": ["gpu", "any"]}, "grid.accelerators: one kind of accelerators a sweep"),
        ({"epochs": list(range(1, 32_001)), "seq_len": list(range(1, 32_001))}, "1,024,000,000 cells are more"),
    ],
)
def test_a_grid_that_cannot_be_one_is_refused(grid: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        spec(grid, model="llama3-8b")


@pytest.mark.parametrize(
    ("axis", "values", "place", "near"),
    [
        ("model", ["llama3-8b", "llama3-8bb"], "grid.model.1", "llama3-8b"),
        ("precision", ["bf61"], "grid.precision.0", "bf16"),
        ("cloud", ["aws", "asw"], "grid.cloud.1", "aws"),
        ("regions", ["us-*", ["us-east-1", "us-esat-1"]], "grid.regions.1", "us-east-1"),
        ("gpu", ["H100:8", "H1000"], "grid.gpu.1", "H100"),
        ("seq_length", [2048], "grid.seq_length.0", "seq_len"),
        ("deadline", ["24h", "soon"], "grid.deadline.1", ""),
        ("lora.rank", [8, -1], "grid.lora.rank.1", ""),
        ("case", [{"seq_len": 8}, {"seq_len": 8, "cloud": "asw"}], "grid.case.1.cloud", "aws"),
    ],
)
def test_a_value_that_no_cell_can_use_is_named_with_the_nearest(
    axis: str, values: list[Any], place: str, near: str
) -> None:
    base = {key: value for key, value in GRID.items() if key != "grid"}
    if axis != "model":
        base["model"] = "llama3-8b"
    with pytest.raises(WorkloadError) as refused:
        check(question_of({**base, "grid": {axis: values}}))
    assert refused.value.field == place
    assert any(near in name for name in refused.value.nearest or ("",))


def test_files_are_named_relative_to_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}', encoding="utf-8")
    (tmp_path / "sweep.yaml").write_bytes(b"\xef\xbb\xbfgrid:\r\n  hf_config: [config.json]\r\nmeasured: mine.csv\r\n")
    found = read_spec(tmp_path / "sweep.yaml")
    assert found.varied(0)["hf_config"]["hidden_size"] == 64
    assert found.shown(0)["hf_config"] == "config.json"
    assert found.base["measured"] == [str(tmp_path / "mine.csv")]


@pytest.mark.parametrize(("key", "path"), [("gpu", "constraints.gpus"), ("top", "options.top"), ("as_of", "as_of")])
def test_a_key_has_one_place(key: str, path: str) -> None:
    assert path_of(key) == path
