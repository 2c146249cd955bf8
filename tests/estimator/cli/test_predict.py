"""`estimator predict`: tables as spreadsheets of all countries write them, and what in them cannot be read."""

from __future__ import annotations

import csv
import io
import json
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


@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252"])
def test_a_file_in_a_western_encoding_is_read_and_said(
    encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "model,gpu,notes\nllama3-8b,H100,café\n"
    out, told = predicted(tmp_path / "rows.csv", text.encode(encoding), capsys)
    assert "is not UTF-8: read as windows-1252, written as UTF-8" in told
    assert out == predicted(tmp_path / "rows.csv", text, capsys)[0]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_known_without_its_mark(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = predicted(tmp_path / "rows.csv", table().encode(encoding), capsys)
    assert out == predicted(tmp_path / "rows.csv", table(), capsys)[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04\0\0", "is a workbook or an archive; save the sheet as CSV UTF-8"),
        (b"PAR1\0", "is Parquet"),
        (b"\x89PNG\r\n\x1a\n\0", "is no text (byte 0)"),
        (b'[{"model": "llama3-8b"}]', "is JSON, not CSV"),
        (b"", "has no header"),
        (b"\n ,\n", "has no header"),
        (b'model,gpu,notes\nllama3-8b,T4,x\nbert-large,T4,"open\nresnet50,T4,\n', "begins in line 3 or below it"),
        (b"model,gpu,GPU,gpu\nllama3-8b,T4,T4,L4\n", "has the column 'gpu' twice"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(
    content: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    assert run(["predict", str(path)]) == 2
    assert reason in capsys.readouterr().err


def test_columns_without_or_with_the_same_name_pass_through_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = ",model,gpu,,notes,notes\n0,llama3-8b,H100,a,b,c\n1,resnet50,T4,d,e,f\n"
    out, _ = predicted(tmp_path / "rows.csv", content, capsys)
    lines = list(csv.reader(io.StringIO(out)))
    assert [line[:6] for line in lines] == list(csv.reader(io.StringIO(content)))
    rows = json.loads(predicted(tmp_path / "rows.csv", content, capsys, "--format", "json")[0])["rows"]
    assert list(rows[0].items())[:6] == [
        ("column 1", "0"), ("model", "llama3-8b"), ("gpu", "H100"), ("column 4", "a"), ("notes", "b"), ("notes.2", "c"),
    ]  # fmt: skip


def test_comments_in_front_and_blank_cells_behind_are_no_rows_and_no_cells(
    plain: list[dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = table().splitlines()
    content = "\n".join(["# measured in May, by us", "#", lines[0], *(f"{line},," for line in lines[1:])])
    assert read(predicted(tmp_path / "rows.csv", content, capsys)[0], ",") == plain


def test_a_row_longer_than_the_header_is_told_and_the_others_go_on(
    plain: list[dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = table().splitlines()
    out, told = predicted(tmp_path / "rows.csv", "\n".join([lines[0], lines[1] + ",more", *lines[1:]]), capsys)
    rows = read(out, ",")
    assert rows[0]["error"] == "line 2: 9 cells under 8 headers"
    assert rows[1:] == plain
    assert "2 of 3 rows predicted, 1 with an error" in told


@pytest.mark.parametrize(("ending", "start"), [("md", "| model"), ("json", "{"), ("csv", "model,"), ("txt", "model,")])
def test_the_ending_of_the_file_says_how_it_is_written(
    ending: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted(tmp_path / "rows.csv", table(), capsys, "-o", str(tmp_path / f"out.{ending}"))
    assert (tmp_path / f"out.{ending}").read_text().startswith(start)


@pytest.mark.parametrize(
    ("cells", "error"),
    [
        ("1e300,2,4096", "gpus: '1e300' is beyond any real run (limit 1,000,000)"),
        ("8,1e-30,4096", "micro_batch: '1e-30' is beyond any real run (limit 0.0001)"),
        ("8,2,99999999999", "seq_len: '99999999999' is beyond any real run (limit 16,777,216)"),
    ],
)
def test_figures_beyond_any_real_run_are_refused(
    cells: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = f"model,gpu,gpus,micro_batch,seq_len\nllama3-8b,H100,{cells}\n"
    assert read(predicted(tmp_path / "rows.csv", content, capsys)[0], ",")[0]["error"] == error
