"""How many samples and tokens does a data file hold? JSON lines, JSON, CSV, TSV, Parquet or text, read as a stream.

With a `tokenizer.json` (and the `tokenizers` package) tokens are counted; without, they are estimated from the
characters, with a stated range. One line of JSON lines, one row of a table, one non-empty line of a text is a sample.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from benchmarks_db.errors import WorkloadError

# Characters a token of a byte-pair vocabulary of 32k to 200k entries: (low, middle, high) characters. English text and
# code lie between 3 and 5 (OpenAI's rule of thumb is 4: help.openai.com/en/articles/4936856); other alphabets near 2;
# Chinese, Japanese and Korean near 1. An estimate by class, not a count: the range is what the user is shown.
ASCII_CHARACTERS = (3.0, 4.0, 5.0)
ALPHABET_CHARACTERS = (1.2, 2.0, 3.5)
IDEOGRAPH_CHARACTERS = (0.7, 1.1, 1.8)

TEXT_KEYS = (
    ("text",), ("content",), ("messages",), ("conversations",), ("instruction", "input", "output"),
    ("prompt", "completion"), ("prompt", "response"), ("prompt", "chosen", "rejected"), ("question", "answer"),
    ("question", "response"), ("input", "output"), ("source", "target"), ("body",), ("document",), ("code",),
)  # fmt: skip
BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """What a data file holds. `low` and `high` bound an estimate; they equal `tokens` where tokens were counted."""

    samples: int
    tokens: float
    low: float
    high: float
    characters: int
    empty: int  # samples without text, counted in `samples`
    fields: tuple[str, ...]  # what was read of each record; () = whole lines
    method: str
    p50: float  # tokens of a sample
    p95: float
    p99: float
    longest: float
    cut: int  # samples longer than seq_len, when one was given
    mean: float  # tokens of a sample, cut at seq_len when one was given

    @property
    def counted(self) -> bool:
        """Were tokens counted by a tokenizer?"""
        return self.low == self.high


def count_tokens(
    path: Path, *, tokenizer: Path | None = None, fields: Sequence[str] = (), seq_len: int | None = None
) -> TokenCount:
    """Count the samples and tokens of `path`; WorkloadError names the file, the line and what is wrong there."""
    if seq_len is not None and seq_len < 1:
        raise WorkloadError(f"{seq_len} must be above 0", field="seq_len", value=seq_len, nearest=("2048",))
    lengths_of = _tokenizer(tokenizer) if tokenizer else None
    reader = _Reader(path, tuple(fields))
    lengths: Counter[float] = Counter()
    characters = [0, 0, 0]
    samples = empty = 0
    texts = iter(reader)
    while batch := list(islice(texts, BATCH)):
        samples += len(batch)
        for text in batch:
            empty += not text.strip()
            classes = _classes(text)
            for i, number in enumerate(classes):
                characters[i] += number
            if lengths_of is None:
                lengths[float(math.ceil(_estimate(classes, 1)))] += 1
        if lengths_of is not None:
            lengths.update(float(n) for n in lengths_of(batch))
    if not samples:
        raise WorkloadError(f"{path} holds no samples", field="FILE", value=str(path))
    tokens = math.fsum(length * number for length, number in lengths.items())
    exact = lengths_of is not None
    cut = sum(number for length, number in lengths.items() if seq_len and length > seq_len)
    kept = math.fsum(min(length, seq_len or length) * number for length, number in lengths.items())
    if tokens <= 0:
        raise WorkloadError(f"{path} holds {samples} samples without any text", field="FILE", value=str(path))
    return TokenCount(
        samples=samples,
        tokens=tokens,
        low=tokens if exact else min(tokens, _estimate(characters, 2)),
        high=tokens if exact else max(tokens, _estimate(characters, 0)),
        characters=sum(characters),
        empty=empty,
        fields=reader.used,
        method=f"counted with {tokenizer}" if exact else "estimated from the characters",
        p50=_percentile(lengths, samples, 0.50),
        p95=_percentile(lengths, samples, 0.95),
        p99=_percentile(lengths, samples, 0.99),
        longest=max(lengths),
        cut=cut,
        mean=kept / samples,
    )


def request_yaml(count: TokenCount, *, source: str, seq_len: int | None = None) -> str:
    """The data part of a request as YAML, with what it rests on as comments."""
    spread = "" if count.counted else f", between {count.low:,.0f} and {count.high:,.0f}"
    lines = [
        f"# {' '.join(source.split())}: {count.samples:,} samples, {count.tokens:,.0f} tokens {count.method}{spread}",
        f"# tokens a sample: median {count.p50:,.0f}, 95% {count.p95:,.0f}, 99% {count.p99:,.0f}, "
        f"longest {count.longest:,.0f}",
    ]
    if count.fields:
        lines.append(f"# read: {', '.join(count.fields)}")
    if count.empty:
        lines.append(f"# {count.empty:,} samples have no text")
    if count.cut:
        lines.append(f"# {count.cut:,} samples are longer than {seq_len:,} tokens and will be cut")
    lines += [f"samples: {count.samples}", f"mean_tokens_per_sample: {max(1.0, count.mean):.6g}"]
    if seq_len is not None:
        lines.append(f"seq_len: {seq_len}")
    lines.append("packing: false  # true: several samples share a sequence and nothing is padded")
    return "\n".join(lines) + "\n"


def _classes(text: str) -> tuple[int, int, int]:
    """Characters in ASCII, in other alphabets, and from the CJK blocks up."""
    if text.isascii():
        return len(text), 0, 0
    ascii_ = ideographs = 0
    for character in text:
        if character < "\x80":
            ascii_ += 1
        elif character >= "\u2e80":
            ideographs += 1
    return ascii_, len(text) - ascii_ - ideographs, ideographs


def _estimate(classes: Sequence[int], which: int) -> float:
    rates = (ASCII_CHARACTERS[which], ALPHABET_CHARACTERS[which], IDEOGRAPH_CHARACTERS[which])
    return math.fsum(number / rate for number, rate in zip(classes, rates, strict=True))


def _percentile(lengths: Counter[float], samples: int, share: float) -> float:
    seen, target = 0, share * samples
    for length in sorted(lengths):
        seen += lengths[length]
        if seen >= target:
            return length
    return max(lengths)


def _tokenizer(path: Path) -> Callable[[list[str]], list[int]]:
    from estimator.request.files import is_there

    file = path / "tokenizer.json" if is_there(path) and path.is_dir() else path
    if not is_there(file) or not file.is_file():
        raise WorkloadError(f"there is no tokenizer file {file}", field="--tokenizer", value=str(path))
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise WorkloadError(
            "counting needs the tokenizers package: pip install 'gpu-cost-estimator[tokens]'", field="--tokenizer"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises plain Exception for a file that it cannot read
        raise WorkloadError(f"{file} is not a tokenizer: {error}", field="--tokenizer", value=str(path)) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: [len(code.ids) for code in tokenizer.encode_batch(texts, add_special_tokens=False)]


class _Reader:
    """The texts of a data file in order; `used` says which fields they came from."""

    def __init__(self, path: Path, fields: tuple[str, ...]) -> None:
        self.path, self.fields, self.used = path, fields, fields
        suffixes = [suffix.lower() for suffix in path.suffixes]
        self.packed = bool(suffixes) and suffixes[-1] == ".gz"
        self.kind = (suffixes[-2:-1] if self.packed else suffixes[-1:] or [""])[0] if suffixes else ""

    def __iter__(self) -> Iterator[str]:
        readers: dict[str, Callable[[], Iterator[str]]] = {
            ".jsonl": self._json_lines, ".ndjson": self._json_lines, ".json": self._json, ".csv": self._csv,
            ".tsv": self._csv, ".parquet": self._parquet, ".pq": self._parquet, ".txt": self._text, ".text": self._text,
            ".md": self._text,
        }  # fmt: skip
        try:
            if not self.path.exists():
                raise WorkloadError(f"there is no file {self.path}", field="FILE", value=str(self.path))
            if self.kind not in readers:
                raise WorkloadError(
                    f"{self.path}: the kind of file is not known by its ending {self.kind!r}",
                    field="FILE",
                    value=str(self.path),
                    nearest=(".jsonl", ".csv", ".parquet"),
                )
            yield from readers[self.kind]()
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise WorkloadError(f"{self.path} cannot be read: {reason}", field="FILE", value=str(self.path)) from None

    def _wrong(self, line: int, reason: str, nearest: Iterable[str] = ()) -> WorkloadError:
        return WorkloadError(f"{self.path} line {line}: {reason}", field="FILE", value=str(self.path), nearest=nearest)

    def _lines(self) -> Iterator[tuple[int, str]]:
        with self._open() as file:
            for number, raw in enumerate(file, start=1):
                try:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise self._wrong(number, f"not UTF-8 text (byte {error.start + 1})") from None

    def _open(self) -> IO[bytes]:
        return gzip.open(self.path, "rb") if self.packed else self.path.open("rb")  # type: ignore[return-value]

    def _text(self) -> Iterator[str]:
        for _, line in self._lines():
            if line.strip():
                yield line.rstrip("\r\n")

    def _json_lines(self) -> Iterator[str]:
        for number, line in self._lines():
            if line.strip():
                yield self._text_of(self._parsed(line, number), number)

    def _parsed(self, line: str, number: int) -> Any:
        try:
            return json.loads(line)
        except json.JSONDecodeError as error:
            raise self._wrong(number, f"not JSON, column {error.colno}: {error.msg}") from None
        except RecursionError:
            raise self._wrong(number, "JSON that is nested too deeply") from None

    def _json(self) -> Iterator[str]:
        """A list of records (read whole), or JSON lines under the wrong ending."""
        with self._open() as file:
            head = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        if not head.startswith(b"["):
            yield from self._json_lines()
            return
        with self._open() as file:
            try:
                records = json.loads(file.read().decode("utf-8-sig"))
            except json.JSONDecodeError as error:
                raise self._wrong(error.lineno, f"not JSON, column {error.colno}: {error.msg}") from None
            except UnicodeDecodeError as error:
                raise self._wrong(1, f"not UTF-8 text (byte {error.start + 1})") from None
            except RecursionError:
                raise self._wrong(1, "JSON that is nested too deeply") from None
        for number, record in enumerate(records, start=1):
            yield self._text_of(record, number)

    def _csv(self) -> Iterator[str]:
        import csv

        csv.field_size_limit(2**31 - 1)
        rows = csv.reader((line for _, line in self._lines()), delimiter="\t" if self.kind == ".tsv" else ",")
        try:
            header = next(rows, None)
            if header is None:
                return
            for row in rows:
                if not row:
                    continue
                if len(row) > len(header):
                    raise self._wrong(rows.line_num, f"{len(row)} cells under {len(header)} headers")
                yield self._text_of(dict(zip(header, row, strict=False)), rows.line_num)
        except csv.Error as error:
            raise self._wrong(rows.line_num, str(error)) from None

    def _parquet(self) -> Iterator[str]:
        try:
            import pyarrow.parquet as parquet
            from pyarrow import ArrowException
        except ImportError:
            raise WorkloadError(
                "Parquet needs the pyarrow package: pip install 'gpu-cost-estimator[tokens]'", field="FILE"
            ) from None
        try:
            with self.path.open("rb") as raw, parquet.ParquetFile(raw) as file:
                number = 0
                for batch in file.iter_batches(batch_size=BATCH):
                    for record in batch.to_pylist():
                        number += 1
                        yield self._text_of(record, number)
        except ArrowException as error:
            reason = str(error).splitlines()[0]
            raise WorkloadError(f"{self.path} is not Parquet: {reason}", field="FILE", value=str(self.path)) from None

    def _text_of(self, record: Any, line: int) -> str:
        if isinstance(record, str):
            return record
        if not isinstance(record, dict):
            raise self._wrong(line, f"a record is a text or an object, not {type(record).__name__}")
        if not self.used:
            self.used = _guessed(record)
            if not self.used:
                raise self._wrong(line, "no field holds text; name one with --field", list(map(str, record))[:3])
        if self.fields and (missing := [name for name in self.fields if name not in record]):
            raise self._wrong(line, f"there is no field {missing[0]!r}", _near(missing[0], record))
        return "\n".join(part for name in self.used if (part := _flatten(record.get(name))))


def _guessed(record: dict[str, Any]) -> tuple[str, ...]:
    """The fields that hold the text to train on: a usual set, else everything that is text."""
    for names in TEXT_KEYS:
        required = names if names != ("instruction", "input", "output") else ("instruction", "output")
        if all(name in record for name in required):
            return tuple(name for name in names if name in record)
    return tuple(name for name, value in record.items() if isinstance(value, str))


def _flatten(value: Any) -> str:
    """Text of a field; of a list of chat turns, their contents."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(part for item in value if (part := _flatten(item)))
    if isinstance(value, dict):
        for key in ("content", "value", "text"):
            if key in value:
                return _flatten(value[key])
        return "\n".join(part for item in value.values() if (part := _flatten(item)))
    return ""


def _near(name: str, record: dict[str, Any]) -> list[str]:
    from difflib import get_close_matches

    names = [str(key) for key in record]
    return get_close_matches(name, names, n=2, cutoff=0.4) or names[:3]
