"""The packed files say the same as the readable ones, and a row added by hand is seen at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks_db import columns, measurements, models, pack, runs, schema
from benchmarks_db.tables import DATA, plain, read


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the data folder that the readers use."""
    copy = tmp_path / "data"
    shutil.copytree(DATA, copy)
    for module in (pack, columns, measurements, runs):
        monkeypatch.setattr(module, "DATA", copy)
    caches = (pack._packed, pack.gpu_table, pack.model_table, models.models, models._sizes, measurements.load)
    for cached in caches:
        cached.cache_clear()
    yield copy
    for cached in caches:
        cached.cache_clear()


def test_the_packed_files_were_built_from_the_readable_files_of_this_tree() -> None:
    hint = "run: python -m benchmarks_db.pack"
    names = pack.packed_name_sources()
    assert names == pack.digests(names), hint
    for packed in (measurements.PACKED, runs.PACKED):
        sources = columns.packed_sources(DATA / packed)
        assert sources == pack.digests(sources), hint


def test_packing_keeps_every_cell_of_every_row() -> None:
    for load, files, table in [
        (measurements.load, measurements.FILES, schema.MEASUREMENT),
        (runs.load, runs.FILES, schema.RUN),
    ]:
        loaded = load()
        figures = set(schema.names(table, figures=True))
        rows = loaded.rows()
        readable = [row for name in files for row in read(DATA / name)]
        assert len(rows) == len(readable) == len(loaded)
        for said, row in zip(rows, readable, strict=True):
            for name, cell in row.items():
                expected = plain(float(cell)) if name in figures and cell else cell
                assert said[name] == expected, (row["id"], name)


def test_packed_names_hold_what_the_readable_tables_hold() -> None:
    for packed, built in [(pack.gpu_table(), pack.build_gpus()), (pack.model_table(), pack.build_models())]:
        assert packed.names == built.names
        assert packed.keys == built.keys
        assert [list(packed.rows(name)) for name in packed.names] == [list(built.rows(name)) for name in built.names]


def test_a_model_added_to_the_readable_table_is_found_without_packing(unpacked: Path) -> None:
    with (unpacked / "models" / "transformers.csv").open("a", encoding="utf-8") as stream:
        stream.write("my-own-9b,decoder,9000" + "," * 25 + ",me\n")
    assert models.resolve_model("My Own 9B").model.params_m == 9000


def test_a_measurement_added_to_the_readable_table_is_loaded_without_packing(unpacked: Path) -> None:
    before = len(columns.from_files(measurements.FILES, schema.MEASUREMENT))
    path = unpacked / "measurements" / "small.csv"
    row = next(iter(read(path))) | {"id": "small-added", "throughput": "12.5"}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(",".join(f'"{cell}"' for cell in row.values()) + "\n")
    loaded = measurements.load()
    assert len(loaded) == before + 1
    assert 12.5 in loaded["throughput"]


def test_packing_twice_writes_the_same_bytes(unpacked: Path) -> None:
    first = measurements.pack().read_bytes()
    assert measurements.pack().read_bytes() == first


def test_a_packed_file_of_another_format_is_passed_over(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "FORMAT", -1)
    assert columns.read_packed(unpacked / measurements.PACKED) is None
    assert len(measurements.load()) > 10_000


def test_columns_are_figures_with_nan_for_the_unknown_and_texts_by_code() -> None:
    table = measurements.load()
    assert table.number("throughput").dtype == np.float64
    assert np.isnan(table.number("seq_len")).any()
    codes, vocabulary = table.codes("gpu")
    assert (vocabulary[codes] == table["gpu"]).all()
    chosen = table.where("gpu", "L4")
    assert set(table["gpu"][chosen]) == {"L4"}
    index = np.flatnonzero(chosen)[:3]
    assert [row["gpu"] for row in table.rows(index.tolist())] == ["L4"] * 3


def test_the_fingerprint_belongs_to_the_readable_files(unpacked: Path) -> None:
    before = measurements.fingerprint()
    with (unpacked / "measurements" / "small.csv").open("a", encoding="utf-8") as stream:
        stream.write("\n")
    assert measurements.fingerprint() != before
