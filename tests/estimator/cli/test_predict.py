"""`estimator predict`: tables as spreadsheets of all countries write them, and what in them cannot be read."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from estimator.cli.main import run

ROWS = [
    {"model": "llama3-8b", "gpu": "H100-SXM5-80GB", "gpus": "8", "precision": "bf16", "micro_batch": "2",
     "seq_len": "4096", "params_m": "8030.5", "notes": "a, b; c"},
    {"model": "resnet50", "gpu": "T4", "gpus": "1", "precision": "fp16", "micro_batch": "64", "seq_len": "",
     "params_m": "25.6", "notes": ""},
]  # fmt: skip
NAMES = list(ROWS[0])


def table(delimiter: str = ",", end: str = "\n", names: list[str] = NAMES, *, comma: bool = False) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerow(names)
    for row in ROWS:
        writer.writerow([cell.replace(".", ",") if comma and name != "notes" else cell for name, cell in row.items()])
    return text.getvalue()


def predicted(path: Path, content: str | bytes, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[str, str]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run(["predict", str(path), *flags]) == 0
    told = capsys.readouterr()
    return told.out, told.err


def read(text: str, delimiter: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


@pytest.fixture
def plain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return read(predicted(tmp_path / "plain.csv", table(), capsys)[0], ",")


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        (table(";"), ";"),
        (table("\t", "\r\n"), "\t"),
        (table("|"), "|"),
        ("\ufeff" + table(",", "\r\n"), ","),
        ("sep=;\r\n" + table(";", "\r\n"), ";"),
        (table("\t", "\r\n").encode("utf-16"), "\t"),
        ("\n" + table(), ","),
    ],
)
def test_a_table_reads_the_same_whatever_separates_its_cells(
    content: str | bytes,
    delimiter: str,
    plain: list[dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, _ = predicted(tmp_path / "rows.csv", content, capsys)
    assert read(out, delimiter) == plain


def test_decimal_commas_are_read_and_written(
    plain: list[dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = predicted(tmp_path / "rows.csv", table(";", comma=True), capsys)
    assert [row["predicted_throughput"].replace(",", ".") for row in read(out, ";")] == [
        row["predicted_throughput"] for row in plain
    ]
    assert any("," in row["predicted_throughput"] for row in read(out, ";"))


def test_headers_may_differ_in_case_spaces_and_marks_and_come_back_as_they_were(
    plain: list[dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    titles = ["Model", "GPU ", "GPUs", "PRECISION", "Micro-Batch", "seq len", "Params_M", "Notes"]
    rows = read(predicted(tmp_path / "rows.csv", table(names=titles), capsys)[0], ",")
    assert list(rows[0])[: len(titles)] == [title.strip() for title in titles]
    assert [row["predicted_throughput"] for row in rows] == [row["predicted_throughput"] for row in plain]


def test_columns_that_are_missing_or_nearly_named_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, told = predicted(tmp_path / "rows.csv", "modle,GPU,micro_bath,throughput\nllama3-8b,H100,2,1\n", capsys)
    assert "there is no column model" in told
    assert "'modle' is not read (did you mean model?)" in told
    assert "'micro_bath' is not read (did you mean micro_batch?)" in told
    assert "throughput" not in told
    assert read(out, ",")[0]["error"].startswith("model: no model named")


def test_words_that_count_as_blank_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "model,gpu,sharding,act_ckpt\n" + "llama3-8b,H100,magic,True\n" * 3
    out, told = predicted(tmp_path / "rows.csv", rows, capsys)
    assert told.count("magic") == 1
    assert "'magic' of 3 rows is not known and counts as blank" in told
    assert "True" not in told
    assert all(row["error"] == "" for row in read(out, ","))


def test_a_file_in_another_encoding_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("model,gpu,notes\nllama3-8b,H100,café\n".encode("latin-1"))
    assert run(["predict", str(path)]) == 2
    assert "save it as CSV UTF-8" in capsys.readouterr().err
