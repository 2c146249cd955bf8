"""`inventory package.module:function`: what a PyTorch model costs a sample, as the model part of a request."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from estimator.cli.flags import FormatOption, OutputOption
from estimator.cli.output import as_json, emit


def inventory(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="package.module:function that builds the model.")],
    input: Annotated[
        list[str],
        typer.Option("--input", metavar="SHAPE", help="One sample: 3x224x224, or 512:int for token numbers (repeat)."),
    ],
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Global batch of the request.", show_default=False)
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Count a PyTorch model operator by operator, without a GPU, and print the model part of a request (YAML).

    Needs PyTorch. The model is built on the meta device and run forward and backward once; nothing is trained.
    """
    from benchmarks_db.errors import WorkloadError
    from estimator.request.own_model import count_target, request_of, request_yaml

    how = (format or ("json" if output and output.suffix == ".json" else "yaml")).strip().lower()
    if how not in ("yaml", "table", "json"):
        raise WorkloadError(f"{format!r} is not one of yaml, json", field="--format", value=format, nearest=("yaml",))
    counted = count_target(model, input)
    if how == "json":
        emit(as_json({"version": "1", "custom": request_of(counted), "counted": asdict(counted)}), output)
    else:
        emit(request_yaml(counted, batch=batch), output)
