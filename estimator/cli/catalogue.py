"""`gpus`, `models` and `instances`: what is known, filtered by name, with the facts and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks_db.errors import UnknownName
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, OutputOption, PlainOption, surroundings
from estimator.cli.numbers import UNKNOWN, count, figure
from estimator.cli.output import XLSX, Column, as_csv, as_json, as_table, chosen_format, emit, emit_workbook

NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="A name or a pattern: h100, A100*.", show_default=False)
]


def gpus(
    name: NameArgument = None,
    vendor: Annotated[
        str | None, typer.Option("--vendor", help="nvidia, amd, google, aws.", show_default=False)
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """List accelerators with their datasheet rates (dense), memory and links."""
    from benchmarks_db.gpus import gpus as table

    rows = [asdict(gpu) for gpu in table().values()]
    if name is not None:
        rows = _cards(rows, name)
    if vendor is not None:
        vendors = {row["vendor"].casefold() for row in map(asdict, table().values())}
        if vendor.strip().casefold() not in vendors:
            raise UnknownName("vendor", vendor, vendors, field="--vendor")
        rows = [row for row in rows if row["vendor"].casefold() == vendor.strip().casefold()]
    columns = (
        Column("GPU", lambda r: r["name"]),
        Column("vendor", lambda r: r["vendor"]),
        Column("year", lambda r: str(r["launch_year"] or UNKNOWN), right=True),
        Column("GiB usable", lambda r: figure(r["usable_gib"]), right=True),
        Column("GB/s", lambda r: figure(r["memory_bandwidth_gbps"]), right=True),
        *(
            Column(f"{name} TFLOP/s", lambda r, key=f"{name}_tflops": figure(r[key]), right=True)  # type: ignore[misc]
            for name in ("fp32", "tf32", "fp16", "bf16", "fp8")
        ),
        Column("NVLink GB/s", lambda r: figure(r["nvlink_gbps"]), right=True),
        Column("W", lambda r: figure(r["tdp_w"]), right=True),
    )
    listing("gpus", rows, columns, format, output, no_color)


def models(
    name: NameArgument = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="decoder, moe, encoder, encoder-decoder, vision or profiled.", show_default=False),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """List the models that a request can name, with their shapes."""
    from benchmarks_db.models import models as table
    from benchmarks_db.models import resolve_model

    rows = [asdict(model) for model in table().values()]
    if name is not None:
        rows = _named(rows, "name", name) or [asdict(resolve_model(name).model)]
    if kind is not None:
        kinds = sorted({row["kind"] for row in rows})
        if kind.strip().casefold() not in kinds:
            raise UnknownName("kind", kind, kinds, field="--kind")
        rows = [row for row in rows if row["kind"] == kind.strip().casefold()]
    columns = (
        Column("model", lambda r: r["name"]),
        Column("kind", lambda r: r["kind"]),
        Column("parameters", lambda r: count(r["params_m"] * 1e6 if r["params_m"] else None), right=True),
        Column("layers", lambda r: figure(r["layers"]), right=True),
        Column("hidden", lambda r: figure(r["hidden"], 6), right=True),
        Column("heads", lambda r: figure(r["heads"]), right=True),
        Column("context", lambda r: figure(r["max_seq_len"], 7), right=True),
        Column("image", lambda r: figure(r["image_size"]), right=True),
        Column("GMACs", lambda r: figure(r["forward_gmacs"]), right=True),
        Column("source", lambda r: r["source"][:60], spare=1),
    )
    listing("models", rows, columns, format, output, no_color)


def instances(
    name: NameArgument = None,
    cloud: Annotated[str | None, typer.Option("--cloud", help="aws, gcp or azure.", show_default=False)] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="GPU[:COUNT]", show_default=False)] = None,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """List the clouds' machine types with their GPUs, host and network."""
    from benchmarks_db.gpus import resolve_gpu
    from pricing.instances import instance_types
    from pricing.regions import resolve_cloud

    rows = [asdict(shape) for shape in instance_types().values()]
    if name is not None:
        found = _named(rows, "instance_type", name)
        if not found:
            raise UnknownName("instance type", name, {row["instance_type"] for row in rows}, field="NAME")
        rows = found
    if cloud is not None:
        wanted = resolve_cloud(cloud)
        rows = [row for row in rows if row["cloud"] == wanted]
    if gpu is not None:
        match = resolve_gpu(gpu)
        names = (match.gpu.name, *match.alternatives)
        rows = [row for row in rows if row["gpu"] in names and match.count in (None, row["gpus"])]
    columns = (
        Column("cloud", lambda r: r["cloud"]),
        Column("instance", lambda r: r["instance_type"]),
        Column("GPUs", lambda r: f"{figure(r['gpus'])} x {r['gpu'] or UNKNOWN}"),
        Column("GiB/GPU", lambda r: figure(r["gpu_mem_gib"]), right=True),
        Column("vCPUs", lambda r: figure(r["vcpus"], 4), right=True),
        Column("RAM GiB", lambda r: figure(r["mem_gib"], 5), right=True),
        Column("network Gbit/s", lambda r: figure(r["network_gbps"], 4), right=True),
        Column("fabric", lambda r: r["rdma"] or UNKNOWN),
        Column("GPU links", lambda r: r["gpu_interconnect"] or UNKNOWN),
    )
    listing("instances", rows, columns, format, output, no_color)


def listing(
    what: str,
    rows: list[dict[str, Any]],
    columns: tuple[Column, ...],
    format: str | None,
    output: Path | None,
    no_color: bool,
    fields: Iterable[str] | None = None,
) -> None:
    """Print rows as a table, or whole as CSV or as `{"version": "1", what: [...]}`."""
    here = surroundings(no_color=no_color, output=output)
    how = chosen_format(format, output, also=XLSX)
    names = list(fields) if fields is not None else list(rows[0]) if rows else []
    if how == "xlsx":
        emit_workbook(what.capitalize(), rows, names, output)
    elif how == "json":
        emit(as_json({"version": "1", what: rows}), output)
    elif how == "csv":
        emit(as_csv(rows, names), output)
    else:
        emit(as_table(rows, columns, how, here), output)
        if not rows:
            note(f"no {what} match")


def _cards(rows: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The cards that a text names as everywhere, else those whose names hold it; UnknownName with the nearest."""
    from benchmarks_db.gpus import gpus_named

    try:
        named = {gpu.name for gpu in gpus_named(text)}
    except UnknownName:
        if held := _named(rows, "name", text):
            return held
        raise
    return [row for row in rows if row["name"] in named]


def _named(rows: list[dict[str, Any]], key: str, pattern: str) -> list[dict[str, Any]]:
    """Rows whose `key` is `pattern`, matches it where it holds wildcards, or contains it where nothing is equal."""
    wanted = pattern.strip().casefold()

    def value(row: Mapping[str, Any]) -> str:
        return str(row[key]).casefold()

    if any(sign in wanted for sign in "*?["):
        return [row for row in rows if fnmatchcase(value(row), wanted)]
    return [row for row in rows if value(row) == wanted] or [row for row in rows if wanted and wanted in value(row)]
