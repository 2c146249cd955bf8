"""`benchmarks`: the measurements behind every estimate, the fit on them, and how well it predicts unseen ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from estimator.cli.flags import FormatOption, OutputOption, PlainOption, surroundings
from estimator.cli.numbers import UNKNOWN, figure
from estimator.cli.output import Column, chosen_format, emit

benchmarks = typer.Typer(
    help="Measurements: list them, add your own, fit the model on them, evaluate it.", no_args_is_help=True
)

FIELDS = (
    "id", "source", "date", "model", "task", "params_m", "gpu", "gpus", "nodes", "precision", "micro_batch",
    "global_batch", "seq_len", "image_size", "framework", "throughput", "unit", "scope", "quality", "notes",
)  # fmt: skip
_NUMBERS = ("params_m", "gpus", "nodes", "micro_batch", "global_batch", "seq_len", "image_size", "throughput")
_COLUMNS = (
    Column("model", lambda r: r["model"] or UNKNOWN),
    Column("GPUs", lambda r: f"{figure(r['gpus'])} x {r['gpu'] or UNKNOWN}"),
    Column("precision", lambda r: r["precision"] or UNKNOWN),
    Column("batch", lambda r: figure(r["global_batch"], 6), right=True),
    Column("length", lambda r: figure(r["seq_len"] or r["image_size"], 6), right=True),
    Column("throughput", lambda r: figure(r["throughput"], 5), right=True),
    Column("unit", lambda r: f"{r['unit'] or UNKNOWN}{' per GPU' if r['scope'] == 'per_gpu' else ''}"),
    Column("date", lambda r: r["date"] or UNKNOWN),
    Column("source", lambda r: (r["source"] or UNKNOWN)[:70], spare=1),
)


@benchmarks.command("list")
def list_measurements(
    model: Annotated[str | None, typer.Option("--model", "-m", help="Name or pattern.", show_default=False)] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", "-g", metavar="GPU[:COUNT]", help="Name or pattern.", show_default=False)
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Pattern.", show_default=False)] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="Name or pattern.", show_default=False)] = None,
    task: Annotated[str | None, typer.Option("--task", help="Name or pattern.", show_default=False)] = None,
    own: Annotated[bool, typer.Option("--own", help="Only what `benchmarks add` has kept.")] = False,
    top: Annotated[int, typer.Option("--top", "-n", min=0, help="At most this many; 0 = all.")] = 0,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """List measured training throughputs with their sources."""
    from estimator.cli.catalogue import listing
    from estimator.request.sections import split_gpu

    card, count = split_gpu(gpu) if gpu is not None else (None, None)
    wanted = {"model": model, "gpu": card, "source": source, "precision": precision, "task": task}
    given = {key: value for key, value in wanted.items() if value is not None}
    rows = [row for row in (_own(given) if own else _measured(given)) if count in (None, row["gpus"])]
    listing("benchmarks", rows[:top] if top else rows, _COLUMNS, format, output, no_color, fields=FIELDS)


def _measured(wanted: dict[str, str]) -> list[dict[str, Any]]:
    from fnmatch import fnmatchcase

    import numpy as np

    from benchmarks_db.errors import UnknownName
    from benchmarks_db.gpus import cards_named, is_pattern, resolve_gpu
    from benchmarks_db.measurements import load

    table = load()
    keep = np.ones(len(table), bool)
    for key, pattern in wanted.items():
        codes, vocabulary = table.codes(key)
        text = pattern.strip().casefold()
        names = [str(word).casefold() for word in vocabulary]
        if key == "gpu" and not is_pattern(text):
            resolve_gpu(pattern, field="--gpu")  # refuses what is no GPU
            cards = cards_named(pattern)
            keep &= np.isin(codes, [i for i, word in enumerate(vocabulary) if cards & cards_named(str(word))])
            continue
        hits = [i for i, name in enumerate(names) if name == text or fnmatchcase(name, text)]
        hits = hits or [i for i, name in enumerate(names) if text and text in name]
        if not hits:
            raise UnknownName(key, pattern, [str(word) for word in vocabulary if word], field=f"--{key}")
        keep &= np.isin(codes, hits)
    rows = table.rows(np.flatnonzero(keep).tolist())
    return [_typed(row) for row in rows]


def _own(wanted: dict[str, str]) -> list[dict[str, Any]]:
    from fnmatch import fnmatchcase

    from estimator.cli.measured import kept_rows

    return [
        _typed(row)
        for row in kept_rows(surroundings())
        if all(fnmatchcase(row[key].casefold(), pattern.strip().casefold()) for key, pattern in wanted.items())
    ]


def _typed(row: Mapping[str, str]) -> dict[str, Any]:
    """A row with the columns of a listing: figures as numbers, what is not stated as None."""
    cells = {name: row.get(name) or None for name in FIELDS}
    return {name: float(cell) if cell and name in _NUMBERS else cell for name, cell in cells.items()}


@benchmarks.command()
def add(
    rows: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ROWS.csv]", help="CSV with the columns of predict, and throughput.", show_default=False
        ),
    ] = None,
    from_log: Annotated[
        Path | None,
        typer.Option(
            "--from-log",
            metavar="LOG",
            help="Log of a run: Hugging Face, Lightning, Composer (llm-foundry), or any with timed steps.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="What the log's run trained.", show_default=False)
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", "-g", metavar="GPU[:COUNT]", help="On what the log's run ran.", show_default=False),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="COLUMN=VALUE",
            help="What the log leaves open: seq_len=2048, precision=bf16, peft=lora.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the rows and keep nothing.")] = False,
) -> None:
    """Keep your own measurements: plans and estimates on this computer then lean on them most.

    Needed: model, gpu, throughput, unit; the better the rest is stated (precision, batch, length), the more it helps.
    """
    from benchmarks_db.errors import WorkloadError

    if (rows is None) == (from_log is None):
        raise WorkloadError("give a CSV of measurements or --from-log LOG", field="ROWS")
    said = {"model": model, "gpu": gpu}
    if from_log is not None:
        from estimator.cli.logs import as_csv_file

        with as_csv_file(from_log, {name: value for name, value in said.items() if value}, set_ or ()) as file:
            _keep(file, dry_run)
        return
    if model or gpu or set_:
        raise WorkloadError("these say what a log leaves open; a CSV has columns", field="--from-log")
    if rows is not None:
        _keep(rows, dry_run)


def _keep(rows: Path, dry_run: bool) -> None:
    from benchmarks_db.errors import WorkloadError
    from estimator.cli.errors import note
    from estimator.cli.measured import keep_rows, read_measured
    from estimator.planning.own_measurements import UNUSUAL_UTILISATION, disagreements

    measured, shares = read_measured(rows)
    if not measured:
        raise WorkloadError(f"{rows} holds no measurements", field="ROWS", value=str(rows))
    for number, (row, share) in enumerate(zip(measured, shares, strict=True), start=1):
        told = "MFU unknown" if share is None else f"MFU {share:.1%}"
        sane = "" if share is None or share <= UNUSUAL_UTILISATION else " - more than labs publish: check it"
        note(f"row {number}: {row['model']} on {row['gpus']} x {row['gpu']}: {told}{sane}")
    for warning in disagreements(measured):
        note(warning)
    if dry_run:
        note(f"{len(measured)} rows can be used; nothing was kept")
        return
    added, known, where = keep_rows(rows, surroundings())
    note(f"{added} new rows kept in {where}" + (f", {known} known already" if known else ""))


@benchmarks.command()
def fit(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the constants here and not into the package.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Constants and residuals alone, no intervals.")] = False,
    runs: Annotated[bool, typer.Option("--runs", help="Whole runs alone: their factors and intervals.")] = False,
) -> None:
    """Fit the performance model on the measurements; needs the extra `fit` (scipy) and some minutes."""
    from estimator.cli.errors import note
    from estimator.threads import one_thread

    one_thread()  # how many share a sum changes its last digits, and the fit is the same bit for bit everywhere
    from estimator.evaluation.whole_runs import write_kinds

    if runs:
        note(f"wrote {write_kinds(output)}")
        return
    _need_scipy()
    from estimator.fitting.run import run
    from estimator.performance.constants import PARAMETERS

    document = run(intervals=not quick, path=output or PARAMETERS)
    note(f"wrote {output or PARAMETERS}; data {str(document['fingerprint'])[:12]}")
    if output is None:  # whole runs rest on the fit that has just changed
        note(f"wrote {write_kinds()}")


@benchmarks.command()
def evaluate(
    runs: Annotated[bool, typer.Option("--runs", help="Whole published runs, by kind of run.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Memory: errors on unseen rows, and the publicly stated cases.")
    ] = False,
    plots: Annotated[
        Path | None,
        typer.Option(
            "--plots",
            metavar="DIR",
            help="Draw predicted against measured and the residuals by kind as SVG.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Cross-validate on held-out models, GPUs and sources, beside a constant utilisation, and print the errors.

    Needs the extra `fit` (scipy) and some minutes; with --runs neither.
    """
    if runs + memory > 1 or (plots and (runs or memory)):
        from benchmarks_db.errors import WorkloadError

        raise WorkloadError("give one of --runs, --memory and --plots", field="evaluate")
    from estimator.threads import one_thread

    one_thread()
    if runs:
        _evaluate_runs(format, output)
        return
    _need_scipy()
    if memory:
        from estimator.cli.evaluate_memory import evaluate_memory

        evaluate_memory(format, output)
        return
    from estimator.evaluation.evaluate import FORMATS
    from estimator.evaluation.evaluate import evaluate as report

    how = chosen_format(format, output)
    emit(FORMATS.get(how, FORMATS["markdown"])(report()), output)
    if plots is not None:
        _draw(plots)


def _draw(folder: Path) -> None:
    from benchmarks_db.errors import WorkloadError
    from estimator.cli.errors import note
    from estimator.evaluation.plots import write_plots

    try:
        written = write_plots(folder)
    except OSError as error:
        raise WorkloadError(
            f"{folder} cannot be written: {error.strerror or error}", field="--plots", value=str(folder)
        ) from None
    note(f"{len(written)} drawings in {folder}")


def _evaluate_runs(format: str | None, output: Path | None) -> None:
    from estimator.cli.catalogue import listing
    from estimator.evaluation.whole_runs import as_rows, evaluate_runs

    columns = (
        Column("kind of run", lambda r: str(r["kind"])),
        Column("runs", lambda r: str(r["runs"]), right=True),
        Column("groups", lambda r: str(r["groups"]), right=True),
        Column("median / p90 error %", lambda r: _errors(r, ""), right=True),
        Column("80% interval holds, x/÷", lambda r: _interval(r, ""), right=True),
        Column("source not measured: error %", lambda r: _errors(r, "unseen_source_"), right=True),
        Column("interval holds, x/÷", lambda r: _interval(r, "unseen_source_"), right=True),
        Column("with dollars", lambda r: str(r["dollar_runs"]), right=True),
        Column("their interval holds %", lambda r: figure(r["dollar_interval_holds_percent"]), right=True),
    )
    listing("runs", as_rows(evaluate_runs()), columns, format, output, False)


def _errors(row: Mapping[str, Any], which: str) -> str:
    return f"{figure(row[f'{which}median_error_percent'])} / {figure(row[f'{which}p90_error_percent'])}"


def _interval(row: Mapping[str, Any], which: str) -> str:
    return f"{figure(row[f'{which}interval_holds_percent'])}%, {row[f'{which}interval_factor']:.2f}"


def _need_scipy() -> None:
    from importlib.util import find_spec

    from benchmarks_db.errors import WorkloadError

    if find_spec("scipy") is None:
        raise WorkloadError("fitting needs its extra: pip install 'gpu-cost-estimator[fit]'", field="benchmarks")
