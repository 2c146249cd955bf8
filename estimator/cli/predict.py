"""`predict`: throughput, memory and interval for every row of a CSV; with --runs hours and dollars of whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from estimator.cli.csv_rows import read_sheet
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, OfflineOption, OutputOption
from estimator.cli.output import as_csv, as_json, chosen_format, emit

PREDICTED = (
    "predicted_throughput", "predicted_low", "predicted_high", "predicted_unit", "predicted_memory_gib", "fits",
    "bound_by", "evidence", "error",
)  # fmt: skip
PREDICTED_RUNS = (
    "predicted_hours_p10", "predicted_hours_p50", "predicted_hours_p90", "predicted_gpu_hours_p50",
    "predicted_cost_usd_p10", "predicted_cost_usd_p50", "predicted_cost_usd_p90", "error",
)  # fmt: skip


def predict(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.csv", help="CSV with a header; - reads standard input.")],
    output: OutputOption = None,
    runs: Annotated[bool, typer.Option("--runs", help="Rows are whole runs: predict hours and dollars.")] = False,
    format: FormatOption = None,
    offline: OfflineOption = False,
) -> None:
    """Predict every row of a CSV; a row that cannot be predicted gets an error, the others go on.

    Measured columns (throughput, mfu, memory, hours, cost) are never read.
    """
    how = chosen_format(format or (None if output and output.suffix == ".json" else "csv"), output)
    sheet = read_sheet(rows)
    names = PREDICTED_RUNS if runs else PREDICTED
    if runs:
        from estimator.rows.whole_runs import predict_runs as predicted
    else:
        from estimator.rows.predict import predict_rows as predicted
    answers = predicted([row for i, row in enumerate(sheet.rows) if i not in sheet.ragged])
    waiting = iter(answers)
    out = [
        {**row, **dict.fromkeys(names, ""), "error": sheet.ragged[i]} if i in sheet.ragged else {**row, **next(waiting)}
        for i, row in enumerate(sheet.rows)
    ]
    header = [*(name for name in sheet.header if name not in names), *names]
    emit(as_json({"version": "1", "rows": out}) if how == "json" else as_csv(out, header, verbatim=True), output)
    failed = sum(1 for row in out if row["error"])
    note(f"{len(out) - failed:,} of {len(out):,} rows predicted" + (f", {failed:,} with an error" if failed else ""))
