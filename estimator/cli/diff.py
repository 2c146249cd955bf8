"""`diff A B`: two requests, trainer configs or plan JSONs side by side; exit 1 where the second costs too much more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from estimator.cli.errors import DONE, PARTLY, complain
from estimator.cli.flags import (
    FormatOption,
    MaxAgeOption,
    OfflineOption,
    OutputOption,
    OverridesOption,
    PlainOption,
    surroundings,
)
from estimator.cli.numbers import UNKNOWN, figure, hours, usd
from estimator.cli.output import Column, as_csv, as_json, as_table, chosen_format, emit, printable
from estimator.cli.request_flags import takes_request, workload_of

if TYPE_CHECKING:
    from estimator.cli.settings import Settings
    from estimator.planning.diff import DiffDocument


@takes_request
def diff(
    request: dict[str, Any],
    before: Annotated[Path, typer.Argument(metavar="A", help="Request, trainer config, or the JSON of a plan.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The same, after the change.")],
    max_increase: Annotated[
        str | None,
        typer.Option(
            "--max-increase",
            metavar="PERCENT",
            help="Exit 1 when hours or dollars grow by more: 10%.",
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
    """Compare two workloads: time, cost, memory, and why. Request flags count for both sides.

    Exit 1 when the second is dearer or slower by more than --max-increase, or no longer possible.
    """
    from estimator.planning.diff import difference

    here = surroundings(offline=offline, no_color=no_color, output=output, overrides=overrides)
    how = chosen_format(format, output)
    allowed = _share(max_increase) if max_increase is not None else None
    documents = [_document(path, request, here, max_age) for path in (before, after)]
    found = difference(*documents, max_increase=allowed)
    if how == "json":
        emit(as_json(found.model_dump(mode="json")), output)
    elif how == "csv":
        emit(as_csv(_rows(found), ("figure", "before", "after", "change", "percent")), output)
    else:
        emit(_text(found, how, here), output)
    for name in found.exceeded:
        what = "is no longer possible" if name == "feasible" else f"{name} grew by more than {max_increase}"
        complain(f"{after}: {what}")
    return PARTLY if found.exceeded else DONE


def _document(path: Path, request: dict[str, Any], here: Settings, max_age: str | None) -> dict[str, Any]:
    """The plan of a request, or the plan that a JSON file already holds."""
    from estimator.request.files import read_file, read_text

    if path.suffix.lower() == ".json":
        body = read_text(read_file(path, field=str(path)), name=str(path))
        if isinstance(body.get("plans"), list) and "workload" in body:
            return plan_document(body, path)
    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import offers_in_use, spot_history_in_use
    from estimator.planning.planner import plan

    workload = workload_of(path, request)
    offers, own = offers_in_use(workload, here, max_age), measured_rows(workload, here)
    history = spot_history_in_use(workload, here)
    return plan(workload, offers=offers, now=here.now, measured=own, history=history).model_dump(mode="json")


def plan_document(body: dict[str, Any], path: Path) -> dict[str, Any]:
    """The JSON of a plan, checked; WorkloadError names what is wrong with it."""
    from pydantic import ValidationError

    from benchmarks_db.errors import WorkloadError
    from estimator.documents import PlanDocument

    try:
        return PlanDocument.model_validate(body).model_dump(mode="json")
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise WorkloadError(
            f"{path} is not the JSON of a plan: {where} is wrong", field="plan", value=str(path)
        ) from None


def _share(text: str) -> float:
    from benchmarks_db.errors import WorkloadError
    from estimator.request.quantities import parse_count

    share = parse_count(text.strip().removesuffix("%"), field="--max-increase") / 100.0
    if share < 0:
        raise WorkloadError(f"{text} must be at least 0", field="--max-increase", value=text, nearest=("0%",))
    return share


_TITLES = {"hours": "hours", "cost_usd": "USD", "gpu_hours": "GPU-hours", "memory_gib": "GiB a GPU"}


def _rows(found: DiffDocument) -> list[dict[str, Any]]:
    return [{"figure": name, **getattr(found, name).model_dump()} for name in _TITLES]


def _text(found: DiffDocument, how: str, here: Settings) -> str:
    read = {"hours": hours, "cost_usd": usd}
    columns = (
        Column("", lambda r: _TITLES[r["figure"]]),
        Column("before", lambda r: read.get(r["figure"], figure)(r["before"]), right=True),
        Column("after", lambda r: read.get(r["figure"], figure)(r["after"]), right=True),
        Column("change", lambda r: UNKNOWN if r["percent"] is None else f"{r['percent']:+.1f}%", right=True),
    )
    parts = [_sentence(found), as_table(_rows(found), columns, how, here)]
    if found.fits_before != found.fits_after:
        parts.append(f"fits: {found.fits_before or 'no plan'} -> {found.fits_after or 'no plan'}")
    if found.reasons:
        parts.append("\n".join(["Why:", *(f"  - {printable(reason)}" for reason in found.reasons)]))
    return "\n\n".join(parts)


def _sentence(found: DiffDocument) -> str:
    if found.machine_before is None or found.machine_after is None:
        return "No comparison: one side has no feasible plan."
    time, cost = found.hours.percent, found.cost_usd
    money = "" if cost.change is None else f", {'+' if cost.change >= 0 else '-'}${usd(abs(cost.change))}"
    return f"{time:+.0f}% time{money}" if time is not None else f"time unknown{money}"
