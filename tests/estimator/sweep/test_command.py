"""`estimator sweep` as a person types it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from estimator.cli.main import run

SPEC = """\
model: llama3-8b
method: lora
tokens: 20M
grid:
  seq_len: [1024, 2048]
  as_of: [2026-11-01]
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ESTIMATOR_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ESTIMATOR_NOW", "2026-11-15")
    (tmp_path / "sweep.yaml").write_text(SPEC, encoding="utf-8")
    return str(tmp_path / "sweep.yaml")


def test_a_sweep_is_written_and_counted(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.parquet"
    assert run(["sweep", spec, "-o", str(output), "--jobs", "1"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"2 cells: 2 rows in {output}\n"
    table = pq.read_table(output)
    assert table["status"].to_pylist() == ["ok", "ok"]
    assert table.schema.metadata[b"estimator.cells"] == b"2"
    assert [path.name for path in tmp_path.glob("out*")] == ["out.parquet"]


def test_a_dry_run_counts_and_writes_nothing(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", spec, "-o", str(tmp_path / "out.parquet"), "--dry-run"]) == 0
    assert capsys.readouterr().err == "2 cells: 2 seq_len x 1 as_of\n"
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "out.csv"], "--output: a sweep is written as Parquet (did you mean out.parquet?)"),
        (["-o", "out.parquet", "--jobs", "2", "--scheduler", "tcp://x:1"], "--jobs: the cluster has its own"),
        (["-o", "out.parquet", "--as-of", "2026-10-01"], "--as-of: the grid names its dates itself"),
    ],
)
def test_what_cannot_be_done_is_named(
    spec: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(spec).parent)
    assert run(["sweep", spec, *words]) == 2
    assert said in capsys.readouterr().err


def test_a_date_that_is_none_is_named(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(spec).write_text(SPEC.replace("2026-11-01", "soon"), encoding="utf-8")
    assert run(["sweep", spec, "-o", str(tmp_path / "out.parquet")]) == 2
    assert "grid.as_of: 'soon' is not a date" in capsys.readouterr().err
