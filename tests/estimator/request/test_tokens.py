from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.request.tokens import count_tokens, request_yaml
from estimator.request.workload import Workload

RECORDS = [{"text": "hello world, this is a sample"}, {"text": "short"}, {"text": "another line of text here"}]


def jsonl(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def word_tokenizer(folder: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the tokenizers package")
    words = {word: i for i, word in enumerate(["[UNK]", "hello", "world", "this", "is", "a", "sample", "short"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_without_a_tokenizer_the_count_is_an_estimate_with_a_range(tmp_path: Path) -> None:
    count = count_tokens(jsonl(tmp_path / "d.jsonl", RECORDS))
    assert count.samples == 3
    assert not count.counted
    assert count.low < count.tokens < count.high
    assert count.low <= sum(len(record["text"]) for record in RECORDS) / 4 <= count.high
    assert count.fields == ("text",)


def test_with_a_tokenizer_tokens_are_counted(tmp_path: Path) -> None:
    count = count_tokens(jsonl(tmp_path / "d.jsonl", RECORDS), tokenizer=word_tokenizer(tmp_path))
    assert count.counted
    assert count.tokens == 6 + 1 + 5
    assert (count.p50, count.longest) == (5, 6)
    assert count_tokens(tmp_path / "d.jsonl", tokenizer=tmp_path).tokens == count.tokens


def test_every_kind_of_file_holds_the_same_samples(tmp_path: Path) -> None:
    expected = count_tokens(jsonl(tmp_path / "d.jsonl", RECORDS)).tokens
    (tmp_path / "d.json").write_text(json.dumps(RECORDS))
    (tmp_path / "lines.json").write_text("\n".join(json.dumps(record) for record in RECORDS))
    (tmp_path / "d.txt").write_text("\n\n".join(record["text"] for record in RECORDS))
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([i, record["text"]] for i, record in enumerate(RECORDS))])
    with (tmp_path / "d.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([["text"], *([record["text"]] for record in RECORDS)])
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress((tmp_path / "d.jsonl").read_bytes()))
    names = ["d.json", "lines.json", "d.txt", "d.csv", "d.tsv", "d.jsonl.gz"]
    assert {name: count_tokens(tmp_path / name).tokens for name in names} == dict.fromkeys(names, expected)


def test_parquet_is_read_in_batches(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    parquet.write_table(pyarrow.table({"text": ["a b c"] * 1000, "n": range(1000)}), tmp_path / "d.parquet")
    assert count_tokens(tmp_path / "d.parquet").samples == 1000
    (tmp_path / "bad.parquet").write_text("not parquet")
    with pytest.raises(WorkloadError, match=r"bad\.parquet is not Parquet"):
        count_tokens(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("record", "fields", "text"),
    [
        ({"instruction": "add", "input": "1 2", "output": "3"}, ("instruction", "input", "output"), "add\n1 2\n3"),
        ({"instruction": "add", "output": "3"}, ("instruction", "output"), "add\n3"),
        (
            {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]},
            ("messages",),
            "hi\nyo",
        ),
        ({"conversations": [{"from": "human", "value": "hi"}]}, ("conversations",), "hi"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, ("messages",), "hi"),
        ({"title": "one", "n": 3, "abstract": "two"}, ("title", "abstract"), "one\ntwo"),
    ],
)
def test_the_text_of_usual_records_is_found(tmp_path: Path, record: Any, fields: tuple[str, ...], text: str) -> None:
    count = count_tokens(jsonl(tmp_path / "d.jsonl", [record]))
    assert count.fields == fields
    assert count.characters == len(text)


def test_a_field_can_be_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "d.jsonl", [{"text": "long " * 50, "summary": "abcd"}])
    assert count_tokens(path, fields=("summary",)).characters == 4
    with pytest.raises(WorkloadError, match="line 1: there is no field 'summry'") as caught:
        count_tokens(path, fields=("summry",))
    assert caught.value.nearest == ("summary",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", b'{"text": "a"}\n{"text": \n', "line 2: not JSON, column"),
        ("d.jsonl", b'{"text": "a"}\n\n[1]\n', "line 3: a record is"),
        ("d.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', "line 2: not UTF-8"),
        ("d.jsonl", b'{"n": 1}\n', "line 1: no field holds text"),
        ("d.jsonl", b"[" * 200_000, "line 1: "),
        ("d.json", b'[{"text": "a"},\n{"text" 5}]', "line 2: not JSON, column"),
        ("d.csv", b"text\na\nb,c\n", "line 3: 2 cells under 1 headers"),
        ("d.csv", b"text\n\xe9\n", "line 2: not UTF-8"),
        ("d.jsonl", b"", "holds no samples"),
        ("d.csv", b"text\n", "holds no samples"),
        ("d.txt", b"\n\n", "holds no samples"),
        ("d.jsonl", b'{"text": ""}\n', "without any text"),
        ("d.docx", b"x", "kind of file is not known"),
        ("d", b"x", "kind of file is not known"),
        ("d.jsonl.gz", b"not gzip", "cannot be read"),
    ],
)
def test_what_cannot_be_read_names_file_and_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WorkloadError, match=message) as caught:
        count_tokens(tmp_path / name)
    assert caught.value.field == "FILE"


def test_a_missing_file_or_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="there is no file"):
        count_tokens(tmp_path / "no.jsonl")
    path = jsonl(tmp_path / "d.jsonl", RECORDS)
    with pytest.raises(WorkloadError, match="there is no tokenizer"):
        count_tokens(path, tokenizer=tmp_path / "tokenizer.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(WorkloadError, match="is not a tokenizer"):
        count_tokens(path, tokenizer=tmp_path / "bad.json")


def test_the_printed_part_is_the_data_part_of_a_request(tmp_path: Path) -> None:
    count = count_tokens(jsonl(tmp_path / "d.jsonl", RECORDS))
    request = Workload.from_yaml("model: llama3-8b\n" + request_yaml(count, source="d\n.jsonl", seq_len=128))
    assert request.samples == 3
    assert request.seq_len == 128
    assert request.mean_tokens_per_sample == pytest.approx(count.mean, rel=1e-4)


def test_samples_beyond_the_length_are_cut_in_the_mean(tmp_path: Path) -> None:
    count = count_tokens(jsonl(tmp_path / "d.jsonl", [{"text": "x" * 4000}, {"text": "x" * 40}]), seq_len=100)
    assert count.cut == 1
    assert count.mean == pytest.approx((100 + 10) / 2)
    assert "1 samples are longer than 100" in request_yaml(count, source="d", seq_len=100)


@given(st.lists(st.text(alphabet="ab \né漢😀", max_size=40), min_size=1, max_size=20))
def test_any_texts_are_counted_within_their_range(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = jsonl(tmp_path_factory.mktemp("texts") / "d.jsonl", [{"text": text} for text in texts])
    if not any(texts):
        with pytest.raises(WorkloadError):
            count_tokens(path)
        return
    count = count_tokens(path)
    assert count.samples == len(texts)
    assert count.characters == sum(map(len, texts))
    assert 0 < count.low <= count.tokens <= count.high
