"""`plan` and `estimate`: the request from FILE and flags; the answer in words, a table and a derivation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import WorkloadError
from estimator.cli.errors import DONE, NO_PLAN, complain, note
from estimator.cli.flags import (
    FormatOption,
    MaxAgeOption,
    OfflineOption,
    OutputOption,
    OverridesOption,
    PlainOption,
    surroundings,
)
from estimator.cli.output import XLSX, as_csv, chosen_format, emit, emit_workbook
from estimator.cli.request_flags import takes_request, workload_of

if TYPE_CHECKING:
    from estimator.cli.settings import Settings
    from estimator.documents import EstimateDocument, PlanDocument, SolveDocument
    from estimator.request.workload import Workload

FileArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Request as YAML or JSON; - reads standard input.", show_default=False),
]


@takes_request
def plan(
    request: dict[str, Any],
    file: FileArgument = None,
    solve_for: Annotated[
        str | None,
        typer.Option(
            "--solve-for",
            metavar="WHAT",
            help="Turn the question round: tokens, deadline, budget, gpus, context or model.",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
    max_age: MaxAgeOption = None,
    overrides: OverridesOption = None,
    offline: OfflineOption = False,
    no_color: PlainOption = False,
) -> int:
    """Rank the ways to train a workload: which cloud GPUs, how long, how much, does it fit, and why.

    Exit 3 when nothing satisfies the request, 4 when there is no usable price.
    """
    here = surroundings(offline=offline, no_color=no_color, output=output, overrides=overrides)
    how = chosen_format(format, output, also=() if solve_for is not None else XLSX)
    workload = workload_of(file, request)
    if solve_for is not None:
        return _solved(workload, solve_for, here, how, max_age, output)

    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import offers_in_use, spot_history_in_use
    from estimator.planning.planner import plan as ranked

    offers, own = offers_in_use(workload, here, max_age), measured_rows(workload, here)
    document = ranked(workload, offers=offers, now=here.now, measured=own, history=spot_history_in_use(workload, here))
    if how == "xlsx" and output is not None:
        from estimator.sheets.output import write_bytes
        from estimator.sheets.workbook import plan_workbook

        write_bytes(output, plan_workbook(document))
    else:
        emit(_shown(document, here, how, explain=workload.options.explain), output)
    return DONE if document.plans else _nothing(document, said=how == "table" and output is None)


@takes_request
def estimate(
    request: dict[str, Any],
    file: FileArgument = None,
    format: FormatOption = None,
    output: OutputOption = None,
    max_age: MaxAgeOption = None,
    overrides: OverridesOption = None,
    offline: OfflineOption = False,
    no_color: PlainOption = False,
) -> int:
    """Compare hardware for one workload: give each with --gpu GPU[:COUNT], or --own.

    Exit 3 when none of it can run the workload.
    """
    here = surroundings(offline=offline, no_color=no_color, output=output, overrides=overrides)
    how = chosen_format(format, output, also=XLSX)
    workload = workload_of(file, request)

    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import offers_in_use, spot_history_in_use
    from estimator.planning.estimates import estimate as compared

    offers, own = offers_in_use(workload, here, max_age), measured_rows(workload, here)
    document = compared(
        workload, offers=offers, now=here.now, measured=own, history=spot_history_in_use(workload, here)
    )
    if how == "xlsx":
        from estimator.flat import ESTIMATE_CSV

        emit_workbook("Estimates", document.records(), ESTIMATE_CSV, output)
    else:
        emit(_compared(document, here, how, explain=workload.options.explain), output)
    if document.estimates:
        return DONE
    for hardware, reason in document.rejected.items():
        complain(f"{hardware}: {reason}")
    if how != "table" or output is not None:  # else standard output has told what would help
        _hints(document.hints)
    return NO_PLAN


def _solved(workload: Workload, what: str, here: Settings, how: str, max_age: str | None, output: Path | None) -> int:
    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import offers_in_use, spot_history_in_use
    from estimator.planning.solve import SolveFor, solve

    names = [name.value for name in SolveFor]
    if what.strip().casefold() not in names:
        raise WorkloadError(f"{what!r} is not one of {', '.join(names)}", field="--solve-for", value=what)
    found = solve(
        workload,
        SolveFor(what.strip().casefold()),
        offers=offers_in_use(workload, here, max_age),
        now=here.now,
        measured=measured_rows(workload, here),
        history=spot_history_in_use(workload, here),
    )
    emit(_answer(found, here, how), output)
    return DONE if found.plan is not None else _nothing(found)


def _shown(document: PlanDocument, here: Settings, how: str, *, explain: bool) -> str:
    if how == "json":
        return document.model_dump_json(indent=2)
    from estimator.cli.plan_tables import plan_text
    from estimator.flat import PLAN_CSV, flat_entry

    if how == "csv":
        return as_csv([flat_entry(entry.model_dump(mode="json")) for entry in document.plans], PLAN_CSV)
    return plan_text(document.model_dump(mode="json"), how, here, explain=explain)


def _compared(document: EstimateDocument, here: Settings, how: str, *, explain: bool) -> str:
    if how == "json":
        return document.model_dump_json(indent=2)
    from estimator.cli.plan_tables import estimate_text
    from estimator.flat import ESTIMATE_CSV, flat_entry

    if how == "csv":
        return as_csv([flat_entry(entry.model_dump(mode="json")) for entry in document.estimates], ESTIMATE_CSV)
    return estimate_text(document.model_dump(mode="json"), how, here, explain=explain)


def _answer(found: SolveDocument, here: Settings, how: str) -> str:
    if how == "json":
        return found.model_dump_json(indent=2)
    from estimator.cli.plan_tables import solve_text
    from estimator.flat import PLAN_CSV, flat_entry

    if how == "csv":
        entries = [] if found.plan is None else [flat_entry(found.plan.model_dump(mode="json"))]
        head = {"solve_for": found.solve_for, "value": found.value, "unit": found.unit}
        return as_csv([head | entry for entry in entries or [{}]], [*head, *PLAN_CSV])
    return solve_text(found.model_dump(mode="json"), how, here)


def _nothing(document: PlanDocument | SolveDocument, *, said: bool = False) -> int:
    """Why there is no plan, for whoever reads standard error; `said`: standard output has told what would help."""
    complain(f"no plan satisfies the request; binding: {document.binding or 'unknown'}")
    if not said:
        _hints(document.hints)
    return NO_PLAN


def _hints(hints: Sequence[str]) -> None:
    from estimator.cli.plan_tables import flagged

    for hint in hints:
        note(f"  {flagged(hint)}")
