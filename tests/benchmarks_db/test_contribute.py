"""A user's own measurements are checked cell by cell and kept whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks_db.contribute import OWN_FILE, add, load_own, own_rows, read_measurements
from benchmarks_db.errors import WorkloadError

GOOD = "model,gpu,throughput,unit,precision,seq_len\nLlama 3 8B,RTX 3090:8,1234.5,tokens/s,bf16,2048\n"


def _file(tmp_path: Path, text: str, name: str = "mine.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_measurement_is_kept_under_canonical_names_with_its_count(tmp_path: Path) -> None:
    assert add(_file(tmp_path, GOOD), tmp_path / "data") == (1, 0)
    (row,) = own_rows(tmp_path / "data")
    assert (row["model"], row["gpu"], row["gpus"], row["scope"]) == ("llama3-8b", "RTX-3090", "8", "total")
    assert row["quality"] == "ok"
    table = load_own(tmp_path / "data")
    assert table.number("throughput").tolist() == [1234.5]
    assert np.isnan(table.number("nodes")).all()


def test_adding_a_file_twice_adds_nothing(tmp_path: Path) -> None:
    path = _file(tmp_path, GOOD)
    add(path, tmp_path / "data")
    before = (tmp_path / "data" / OWN_FILE).read_bytes()
    assert add(path, tmp_path / "data") == (0, 1)
    assert (tmp_path / "data" / OWN_FILE).read_bytes() == before


def test_an_ambiguous_card_keeps_its_bare_name(tmp_path: Path) -> None:
    (row,) = read_measurements(_file(tmp_path, GOOD.replace("RTX 3090:8", "A100:4")))
    assert (row["gpu"], row["gpus"]) == ("A100", "4")


@pytest.mark.parametrize(
    ("old", "new", "field", "said"),
    [
        ("Llama 3 8B", "Lama 3 8B", "model", "llama3-8b"),
        ("RTX 3090:8", "RTX 3099:8", "gpu", "RTX-3090"),
        ("RTX 3090:8", "gaudi2", "gpu", "cannot be planned"),
        ("1234.5", "fast", "throughput", "must be a number"),
        ("1234.5", "-3", "throughput", "must be between"),
        ("1234.5", "nan", "throughput", "must be between"),
        ("1234.5", "", "throughput", "must not be empty"),
        ("tokens/s", "token/s", "unit", "tokens/s"),
        ("bf16,2048", "bf61,2048", "precision", "bf16"),
        ("bf16,2048", "bf16,2048,9", "row", "7 cells under 6 columns"),
        ("seq_len", "seqlen", "seqlen", "seq_len"),
        ("throughput", "speed", "throughput", "missing"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line_and_what_would_be_right(
    tmp_path: Path, old: str, new: str, field: str, said: str
) -> None:
    path = _file(tmp_path, GOOD.replace(old, new))
    with pytest.raises(WorkloadError) as caught:
        add(path, tmp_path / "data")
    assert caught.value.field == field
    assert said in str(caught.value)
    assert "mine.csv line " in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_counts_that_disagree_are_refused(tmp_path: Path) -> None:
    text = GOOD.replace("seq_len", "gpus").replace("2048", "4")
    with pytest.raises(WorkloadError, match="4 GPUs here, 8 in `gpu`"):
        read_measurements(_file(tmp_path, text))


def test_a_missing_or_unreadable_file_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot read"):
        read_measurements(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"model,gpu,throughput,unit\n\xff\xfe,1,2,3\n")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        read_measurements(tmp_path / "bytes.csv")
    with pytest.raises(WorkloadError, match="line"):
        read_measurements(_file(tmp_path, 'model,gpu,throughput,unit\n"a"b,c,d,e\n'))


def test_columns_of_the_users_own_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    text = "operator," + GOOD.replace("\nLlama", "\n\nme,Llama")
    (row,) = read_measurements(_file(tmp_path, text))
    assert "operator" not in row


def test_nothing_is_kept_of_a_file_with_one_bad_row(tmp_path: Path) -> None:
    add(_file(tmp_path, GOOD), tmp_path / "data")
    bad = GOOD + "llama2-7b,T4,oops,tokens/s,fp16,512\n"
    with pytest.raises(WorkloadError, match=r"line 3"):
        add(_file(tmp_path, bad, "bad.csv"), tmp_path / "data")
    assert len(own_rows(tmp_path / "data")) == 1


def test_no_temporary_file_is_left_behind(tmp_path: Path) -> None:
    add(_file(tmp_path, GOOD), tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == [OWN_FILE]
