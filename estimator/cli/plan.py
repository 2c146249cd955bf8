"""`plan` and `estimate`: the request from FILE and flags; the answer in words, a table and a derivation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from estimator.cli.errors import DONE, NO_PLAN, complain, note
from estimator.cli.flags import FormatOption, MaxAgeOption, OfflineOption, OutputOption, PlainOption, surroundings
from estimator.cli.output import as_csv, as_json, chosen_format, emit
from estimator.cli.request_flags import takes_request, workload_of

FileArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Request as YAML or JSON; - reads standard input.", show_default=False),
]


@takes_request
def plan(
    request: dict[str, Any],
    file: FileArgument = None,
    format: FormatOption = None,
    output: OutputOption = None,
    max_age: MaxAgeOption = None,
    offline: OfflineOption = False,
    no_color: PlainOption = False,
) -> int:
    """Rank the ways to train a workload: which cloud GPUs, how long, how much, does it fit, and why.

    Exit 3 when nothing satisfies the request, 4 when there is no usable price.
    """
    here = surroundings(offline=offline, no_color=no_color, output=output)
    how = chosen_format(format, output)
    workload = workload_of(file, request)

    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import offers_in_use
    from estimator.planner import plan as ranked

    offers, own = offers_in_use(workload, here, max_age), measured_rows(workload, here)
    document = ranked(workload, offers=offers, now=here.now, measured=own)
    if how == "json":
        emit(as_json(document.model_dump(mode="json")), output)
    elif how == "csv":
        from estimator.cli.plan_tables import PLAN_CSV, flat_entry

        emit(as_csv([flat_entry(entry.model_dump(mode="json")) for entry in document.plans], PLAN_CSV), output)
    else:
        from estimator.cli.plan_tables import plan_text

        emit(plan_text(document.model_dump(mode="json"), how, here, explain=workload.options.explain), output)
    if document.plans:
        return DONE
    complain(f"no plan satisfies the request; binding: {document.binding or 'unknown'}")
    for hint in document.hints:
        note(f"  {hint}")
    return NO_PLAN


@takes_request
def estimate(
    request: dict[str, Any],
    file: FileArgument = None,
    format: FormatOption = None,
    output: OutputOption = None,
    max_age: MaxAgeOption = None,
    offline: OfflineOption = False,
    no_color: PlainOption = False,
) -> int:
    """Compare hardware for one workload: give each with --gpu GPU[:COUNT], or --own.

    Exit 3 when none of it can run the workload.
    """
    here = surroundings(offline=offline, no_color=no_color, output=output)
    how = chosen_format(format, output)
    workload = workload_of(file, request)

    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import offers_in_use
    from estimator.estimates import estimate as compared

    offers, own = offers_in_use(workload, here, max_age), measured_rows(workload, here)
    document = compared(workload, offers=offers, now=here.now, measured=own)
    if how == "json":
        emit(as_json(document.model_dump(mode="json")), output)
    elif how == "csv":
        from estimator.cli.plan_tables import ESTIMATE_CSV, flat_entry

        emit(as_csv([flat_entry(entry.model_dump(mode="json")) for entry in document.estimates], ESTIMATE_CSV), output)
    else:
        from estimator.cli.plan_tables import estimate_text

        emit(estimate_text(document.model_dump(mode="json"), how, here, explain=workload.options.explain), output)
    if document.estimates:
        return DONE
    for hardware, reason in document.rejected.items():
        complain(f"{hardware}: {reason}")
    for hint in document.hints:
        note(f"  {hint}")
    return NO_PLAN
