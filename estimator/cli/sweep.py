"""`sweep`: a grid of requests into one Parquet file, on all cores or on a Dask cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks_db.errors import WorkloadError
from estimator.cli.errors import DONE, PARTLY, note
from estimator.cli.flags import MaxAgeOption, OfflineOption, OverridesOption, surroundings
from estimator.cli.offers import AsOfOption, date_of

if TYPE_CHECKING:
    from estimator.cli.settings import Settings
    from estimator.request.workload import Workload
    from estimator.sweep.cells import Question
    from estimator.sweep.engines import Engine
    from estimator.sweep.run import Progress, Report
    from estimator.sweep.spec import Spec

ENDING = ".parquet"


def sweep(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="A request with the keys that vary under `grid` (YAML).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.parquet", help="The table to write.")],
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes; all cores when left out.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler: tcp://host:8786.", show_default=False),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Throw away what an earlier run has left.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file and count its cells.")] = False,
    as_of: AsOfOption = None,
    max_age: MaxAgeOption = None,
    overrides: OverridesOption = None,
    offline: OfflineOption = False,
) -> int:
    """Plan every cell of a grid: models x sequence lengths x methods x clouds x dates x deadlines ...

    A killed run is taken up where it stopped by the same command. A cell that cannot be planned says why in its column
    `error`; the exit code is still 0, and the count is on standard error.
    """
    from estimator.sweep.cells import check
    from estimator.sweep.parts import Parts
    from estimator.sweep.run import manifest_of
    from estimator.sweep.run import sweep as swept
    from estimator.sweep.spec import read_spec
    from estimator.sweep.table import arrow

    if output.suffix.lower() != ENDING:
        raise WorkloadError(
            "a sweep is written as Parquet", field="--output", value=str(output), nearest=(f"{output.stem}{ENDING}",)
        )
    if jobs is not None and scheduler is not None:
        raise WorkloadError("the cluster has its own number of processes", field="--jobs", value=jobs)
    here = surroundings(offline=offline, overrides=overrides)
    asked = read_spec(spec)
    if dry_run:
        check(_question(asked, here, as_of, max_age))
        note(f"{len(asked):,} cells: {' x '.join(f'{len(axis.choices)} {axis.name}' for axis in asked.axes)}")
        return DONE
    arrow()
    parts = Parts(output)
    with parts.claimed():
        begun = None if restart else parts.manifest()
        if begun is not None:  # ages count to the moment at which the sweep was begun
            here = replace(here, now=datetime.fromisoformat(begun.now))
        question = _question(asked, here, as_of, max_age)
        manifest = manifest_of(question, here.now.isoformat())
        try:
            with _shown(len(asked)) as progress:
                engine = _engine(jobs, scheduler, manifest.cells)
                report = swept(question, manifest, parts, engine, restart=restart, progress=progress)
        except KeyboardInterrupt:
            note(f"stopped; what is done is kept in {parts.folder}, and the same command goes on from there")
            raise
    return _told(report, output)


def _question(spec: Spec, here: Settings, as_of: str | None, max_age: str | None) -> Question:
    """The spec with the prices of each date that it names, and the user's own measurements."""
    from estimator.cli.measured import measured_rows
    from estimator.cli.prices_in_use import market_in_use, spot_history_in_use
    from estimator.sheets.answers import market_at
    from estimator.sweep.cells import Question

    beside = _beside(spec)
    kind = beside.constraints.accelerators.value
    markets, histories = {}, {}
    if as_of and spec.dates() != ("",):
        raise WorkloadError("the grid names its dates itself", field="--as-of", value=as_of)
    for text in spec.dates():
        moment = date_of(text, "grid.as_of") if text else date_of(as_of, "--as-of") if as_of else None
        offers = market_in_use(here, accelerators=kind, as_of=moment, max_age=max_age)
        for warning in offers.warnings:
            note(f"warning: {warning}")
        markets[text] = market_at(offers, moment or here.now)
        history = spot_history_in_use(beside, here if moment is None else replace(here, now=moment))
        if history is not None:
            histories[text] = history
    return Question(spec, markets, measured_rows(beside, here), histories)


def _beside(spec: Spec) -> Workload:
    """What no cell changes: the files of measurements and the kind of accelerators. The model is a filler."""
    from estimator.request.workload import Workload

    limits = spec.base.get("constraints")
    kind = limits.get("accelerators") if isinstance(limits, Mapping) else None
    given = {"measured": spec.base.get("measured"), "constraints": {"accelerators": kind} if kind else None}
    return Workload.model_validate({"model": "llama3-8b", **{key: v for key, v in given.items() if v is not None}})


def _engine(jobs: int | None, scheduler: str | None, cells: int) -> Engine:
    from estimator.sweep import engines

    if scheduler is not None:
        return engines.cluster(scheduler)
    processes = min(jobs or _cores(), cells)
    return engines.here if processes == 1 else engines.pool(processes)


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _shown(cells: int) -> Iterator[Progress]:
    """A progress bar on standard error where somebody watches."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    if not sys.stderr.isatty():
        yield lambda done, whole: None
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cells", total=cells)
        yield lambda done, whole: bar.update(task, completed=done)


def _told(report: Report, output: Path) -> int:
    from estimator.sweep.cells import FAULT, OK

    rows = sum(report.by_status.values())
    others = ", ".join(f"{count:,} {status}" for status, count in report.by_status.items() if status != OK)
    before = f", {report.taken_up:,} of them by an earlier run" if report.taken_up else ""
    note(f"{report.cells:,} cells{before}: {rows:,} rows{f' ({others})' if others else ''} in {output}")
    return PARTLY if report.by_status.get(FAULT) else DONE
