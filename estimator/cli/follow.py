"""`track` and `reconcile`: a running job against its plan, and what a finished one teaches."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import WorkloadError
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, OutputOption, surroundings
from estimator.cli.numbers import UNKNOWN, figure, hours, usd
from estimator.cli.output import as_csv, as_json, chosen_format, emit
from estimator.request.fields import MAX_HOURS, MAX_USD
from estimator.request.quantities import parse_count, parse_hours, parse_usd

if TYPE_CHECKING:
    from estimator.cli.settings import Settings
    from estimator.following.reconcile import Multiplier, Outcome, ReconcileDocument
    from estimator.following.track import TrackDocument

HISTORY = "reconciled.csv"
RankOption = Annotated[int, typer.Option("--rank", min=1, help="Which plan of the JSON.")]


def track(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The job's log so far; - reads standard input.")],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN.json", help="The plan it runs by (plan -f json).", show_default=False),
    ] = None,
    rank: RankOption = 1,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="COUNT", help="Steps in all.", show_default=False)
    ] = None,
    usd_per_hour: Annotated[
        str | None, typer.Option("--usd-per-hour", metavar="USD", help="Of the whole job.", show_default=False)
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Say how long and how much a running job still takes, from its log and its plan.

    Read: tqdm bars, Megatron and nanoGPT lines, "step 120/1000" with times, JSON lines with step and time.
    """
    from estimator.following.track import read_log
    from estimator.following.track import track as followed

    how = chosen_format(format, output)
    entry = _plan_entry(plan, rank) if plan is not None else None
    price = parse_usd(usd_per_hour, field="--usd-per-hour") if usd_per_hour is not None else None
    if price is None and entry is not None:
        price = entry["price"]["usd_per_hour"]
    total = parse_count(steps, field="--steps") if steps is not None else entry["steps"] if entry is not None else None
    if total is not None and total < 1:
        raise WorkloadError(f"{steps!r} must be at least 1", field="--steps", value=steps)
    spread = entry["hours"] if entry is not None else None
    found = followed(
        read_log(_text(log, "LOG").splitlines()),
        total_steps=total,
        planned_hours=(spread["p10"], spread["p50"], spread["p90"]) if spread else None,
        usd_per_hour=price,
    )
    if how == "json":
        emit(as_json(found.model_dump(mode="json")), output)
    elif how == "csv":
        row = _flat(found.model_dump(mode="json"))
        emit(as_csv([row], list(row)), output)
    else:
        emit(_track_text(found), output)


def reconcile(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="The plan that was followed (plan -f json).")],
    rank: RankOption = 1,
    actual_hours: Annotated[
        str | None, typer.Option("--hours", metavar="DURATION", help="What it took.", show_default=False)
    ] = None,
    cost: Annotated[str | None, typer.Option("--cost", metavar="USD", help="What it cost.", show_default=False)] = None,
    focus: Annotated[
        Path | None, typer.Option("--focus", metavar="CSV", help="A FOCUS cost export.", show_default=False)
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option("--match", metavar="KEY=PATTERN", help="Rows of the export: tag.job=lora-*.", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for this run.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare and keep nothing.")] = False,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Hold what a run really took against its plan, and learn your own multiplier from all runs so far."""
    from estimator.following.reconcile import Outcome, focus_cost, reconciled

    here = surroundings(output=output)
    how = chosen_format(format, output)
    entry = _plan_entry(plan, rank)
    took = parse_hours(actual_hours, field="--hours") if actual_hours is not None else None
    paid = parse_usd(cost, field="--cost") if cost is not None else None
    if focus is not None:
        dollars, billed = focus_cost(_text(focus, "--focus"), wanted=_pairs(match or []), name=str(focus))
        paid = dollars if paid is None else paid
        took = billed / entry["nodes"] if took is None and billed is not None else took
    if took is None and paid is None:
        raise WorkloadError(
            "say what it took: --hours, --cost or --focus", field="reconcile", nearest=("--hours 12.5",)
        )
    for field, value, limit in (("--hours", took, MAX_HOURS), ("--cost", paid, MAX_USD)):
        if value is not None and not 0 < value <= limit:
            raise WorkloadError(f"must be above 0 and at most {limit:,.0f}", field=field, value=value)
    spread, money = entry["hours"], entry["cost_usd"]
    outcome = Outcome(
        name or plan.stem, here.now.isoformat(), spread["p50"], took, None if money is None else money["p50"], paid
    )
    found = reconciled(
        outcome,
        _history(here),
        hours_interval=(spread["p10"], spread["p90"]),
        usd_interval=None if money is None else (money["p10"], money["p90"]),
    )
    if not dry_run:
        _keep(outcome, here)
    if how == "json":
        emit(as_json(found.model_dump(mode="json")), output)
    elif how == "csv":
        row = _flat(found.model_dump(mode="json"))
        emit(as_csv([row], list(row)), output)
    else:
        emit(_reconcile_text(found), output)


def _plan_entry(path: Path, rank: int) -> dict[str, Any]:
    from estimator.cli.diff import plan_document
    from estimator.request.files import read_file, read_text

    document = plan_document(read_text(read_file(path, field="PLAN.json"), name=str(path)), path)
    plans: list[dict[str, Any]] = document["plans"]
    if rank > len(plans):
        raise WorkloadError(f"{path} has {len(plans)} plans", field="--rank", value=rank, nearest=(str(len(plans)),))
    return plans[rank - 1]


def _text(path: Path, field: str) -> str:
    if str(path) == "-":
        return sys.stdin.buffer.read().decode("utf-8", errors="replace")
    try:
        return path.read_bytes().decode("utf-8", errors="replace")  # logs hold bars and whatever else jobs print
    except FileNotFoundError:
        raise WorkloadError(f"there is no file {path}", field=field, value=str(path)) from None
    except OSError as error:
        reason = error.strerror or error
        raise WorkloadError(f"{path} cannot be read: {reason}", field=field, value=str(path)) from None


def _pairs(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise WorkloadError(
                f"{text!r} is not key=pattern", field="--match", value=text, nearest=("tag.job=lora-*",)
            )
        found[key.strip()] = value.strip()
    return found


def _history(here: Settings) -> list[Outcome]:
    from estimator.following.reconcile import Outcome

    file = here.data_dir / HISTORY
    if not file.exists():
        return []
    rows = csv.DictReader(io.StringIO(_text(file, "ESTIMATOR_DATA_DIR")))
    return [
        Outcome(
            row["name"],
            row["recorded_at"],
            *(
                float(row[key]) if row[key] else None
                for key in ("planned_hours", "actual_hours", "planned_usd", "actual_usd")
            ),
        )
        for row in rows
    ]


def _keep(outcome: Outcome, here: Settings) -> None:
    from dataclasses import asdict

    from estimator.following.reconcile import COLUMNS

    file = here.data_dir / HISTORY
    part = file.with_name(f".{HISTORY}.{os.getpid()}")
    try:
        here.data_dir.mkdir(parents=True, exist_ok=True)
        part.write_text(as_csv([*map(asdict, _history(here)), asdict(outcome)], COLUMNS), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        reason = error.strerror or error
        raise WorkloadError(
            f"{file} cannot be written: {reason}", field="ESTIMATOR_DATA_DIR", value=str(file)
        ) from None
    note(f"kept in {file}")


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}_{inner}": item for inner, item in value.items()}
        else:
            flat[key] = value
    return flat


def _track_text(found: TrackDocument) -> str:
    left, whole = found.remaining_hours, found.total_hours
    lines = [
        f"{found.steps_done:,.0f} of {found.steps_total:,.0f} steps ({found.share_done:.0%}), "
        f"{figure(found.seconds_per_step.p50)} s a step",
        f"still to go: {hours(left.p50)} (80% between {hours(left.p10)} and {hours(left.p90)})",
        f"in all:      {hours(whole.p50)} (80% between {hours(whole.p10)} and {hours(whole.p90)})",
    ]
    if found.remaining_usd is not None and found.total_usd is not None:
        cost, total = found.remaining_usd, found.total_usd
        lines.append(f"still to pay: ${usd(cost.p50)} ({usd(cost.p10)} to {usd(cost.p90)}), in all ${usd(total.p50)}")
    if found.planned_hours is not None and found.pace is not None:
        planned = found.planned_hours
        lines.append(
            f"planned:     {hours(planned.p50)} ({hours(planned.p10)} to {hours(planned.p90)}); "
            f"now {found.pace:.2f} x that; the log weighs {found.weight_of_log:.0%}"
        )
    return "\n".join(lines)


def _reconcile_text(found: ReconcileDocument) -> str:
    lines = []
    for title, read, planned, actual, ratio, within in (
        ("hours", hours, found.planned_hours, found.actual_hours, found.hours_ratio, found.hours_within),
        ("dollars", usd, found.planned_usd, found.actual_usd, found.usd_ratio, found.usd_within),
    ):
        if actual is None:
            continue
        times = UNKNOWN if ratio is None else f"{ratio:.2f} x"
        inside = {True: "inside the plan's 80% interval", False: "outside the plan's 80% interval", None: "no plan"}[
            within
        ]
        lines.append(f"{title}: {read(actual)} against {read(planned)} planned, {times}, {inside}")
    for title, learned in (("hours", found.hours_multiplier), ("dollars", found.usd_multiplier)):
        if learned.runs:
            lines.append(_learned(title, learned))
    if found.usd_multiplier.runs and found.usd_multiplier.p50 > 1:
        lines.append(f"plan with it: --set run.attempts={found.usd_multiplier.p50:.2f}")
    return "\n".join(lines)


def _learned(title: str, learned: Multiplier) -> str:
    return (
        f"your multiplier of {title}: {learned.p50:.2f} (next run 80% between {learned.p10:.2f} and {learned.p90:.2f}; "
        f"{learned.runs} {'run' if learned.runs == 1 else 'runs'})"
    )
