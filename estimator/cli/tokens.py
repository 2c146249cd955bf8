"""`tokens FILE`: samples and tokens of a data file, as the data part of a request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from estimator.cli.flags import FormatOption, OutputOption
from estimator.cli.output import as_json, emit


def tokens(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, JSON, CSV, TSV, Parquet or text (.gz too).")
    ],
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="PATH", help="A tokenizer.json, to count exactly.", show_default=False),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME", help="Field or column that holds text (repeat).", show_default=False),
    ] = None,
    seq_len: Annotated[
        str | None,
        typer.Option("--seq-len", metavar="INT", help="Cut samples at this length.", show_default=False),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Count the samples and tokens of a data file and print the data part of a request (YAML).

    Without a tokenizer the tokens are estimated from the characters, and the range is printed.
    """
    from benchmarks_db.errors import WorkloadError
    from estimator.request.quantities import parse_count
    from estimator.request.tokens import count_tokens, request_yaml

    how = (format or ("json" if output and output.suffix == ".json" else "yaml")).strip().lower()
    if how not in ("yaml", "table", "json"):
        raise WorkloadError(f"{format!r} is not one of yaml, json", field="--format", value=format, nearest=("yaml",))
    length = parse_count(seq_len, field="seq_len") if seq_len is not None else None
    if length is not None and (length != int(length) or not 1 <= length <= 2**24):
        raise WorkloadError(f"{seq_len} is not a length in tokens", field="seq_len", value=seq_len, nearest=("2048",))
    count = count_tokens(
        file, tokenizer=tokenizer, fields=tuple(field or ()), seq_len=int(length) if length is not None else None
    )
    if how == "json":
        emit(as_json({"version": "1", "file": str(file), **asdict(count), "counted": count.counted}), output)
    else:
        emit(request_yaml(count, source=str(file), seq_len=int(length) if length is not None else None), output)
