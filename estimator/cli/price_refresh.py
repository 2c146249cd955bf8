"""`prices refresh`: fetch today's prices, once or again and again, alone or where many could."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.cli.database import by_the_leader
from estimator.cli.errors import PARTLY, note, report
from estimator.cli.flags import FormatOption, OfflineOption, OutputOption, PlainOption, surroundings
from estimator.cli.offers import CloudsOption, MarketOption, RegionsOption, market_name
from estimator.cli.output import as_csv, as_json, as_table, chosen_format, emit
from estimator.cli.price_alerts import interval_of, pause
from estimator.cli.prices_in_use import store_url
from estimator.cli.settings import Settings
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from pricing.offers import Market
    from pricing.refresh import Summary
    from pricing.refresh_reach import Reach
    from pricing.sources.base import SourceSettings

GRACE = 120.0  # seconds after its limit in which a refresh ends by itself: a silent database is given up after one


def _now(here: Settings) -> Callable[[], datetime]:
    """The clock: ESTIMATOR_NOW stands still, else the real one."""
    return (lambda: here.now) if os.environ.get("ESTIMATOR_NOW", "").strip() else (lambda: datetime.now(UTC))


def refresh(
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    market: MarketOption = None,
    watch: Annotated[
        str | None, typer.Option("--watch", metavar="INTERVAL", help="Again every 30m, 6h ...", show_default=False)
    ] = None,
    if_due: Annotated[
        str | None,
        typer.Option(
            "--if-due",
            metavar="AGE",
            help="Only if nobody has for this long, and nobody is at it (else exit 75).",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[str, typer.Option("--deadline", help="Longest time for one region of a cloud.")] = "2m",
    limit: Annotated[
        str, typer.Option("--limit", help="Longest time for all; what has not answered then has failed.")
    ] = "20m",
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Regions fetched side by side.")] = 10,
    accept_suspect: Annotated[
        bool, typer.Option("--accept-suspect", help="Take sets that shrank or changed en masse: you have looked.")
    ] = False,
    offline: OfflineOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """Fetch today's on-demand and spot prices of every GPU instance type into the price database."""
    here = surroundings(offline=offline, no_color=no_color, output=output)
    if here.offline:
        raise WorkloadError("nothing can be fetched offline", field="--offline")
    interval = interval_of(watch, "--watch") if watch is not None else None
    asked = _asked(cloud, region, market)
    deadline_s, limit_s = _seconds(deadline, "--deadline", "2m"), _seconds(limit, "--limit", "20m")

    def once(here: Settings, accept: bool) -> int:
        def fetched() -> int:
            from pricing.refresh import refresh as fetch
            from pricing.store import Store

            store = Store(store_url(here))
            with _progress(here) as tick, _ended_after(limit_s + GRACE):
                summary = fetch(
                    store,
                    source_settings(here, deadline_s=deadline_s),
                    clouds=asked.clouds_named,
                    wanted=asked.reach.wanted,
                    accept_suspect=accept,
                    workers=workers,
                    on_progress=tick,
                    limit_s=limit_s,
                )
                store.close()
            _report(summary, here, format, output)
            return summary.exit_code

        return fetched() if if_due is None else by_the_leader(here, if_due, asked.reach, fetched)

    code = once(here, accept_suspect)
    while interval is not None:
        pause(interval)
        here = surroundings(no_color=no_color, output=output)
        try:
            code = once(here, False)
        except EstimatorError as error:  # a database that is away for a while ends no watch
            code = report(error)
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the flags name."""

    clouds_named: tuple[str, ...]
    reach: Reach


def _asked(clouds: list[str] | None, regions: list[str] | None, market: str | None) -> _Asked:
    from pricing.refresh_reach import Reach
    from pricing.regions import resolve_cloud
    from pricing.sources.base import Wanted

    names = tuple(dict.fromkeys(resolve_cloud(c, field="--cloud") for c in clouds or ()))
    wanted = Wanted(regions=region_names(regions, names))
    if market is not None:
        wanted = replace(wanted, markets=frozenset({fetched_market(market)}))
    return _Asked(names, Reach.of(names, wanted))


def _seconds(text: str, field: str, usual: str) -> float:
    seconds = parse_hours(text, field=field) * 3600
    if seconds < 1:
        raise WorkloadError("must be at least a second", field=field, value=text, nearest=(usual,))
    return seconds


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End this process if what is inside hangs for so long: its locks end with it, and the next one can begin."""

    def end() -> None:
        note(f"error: the refresh hangs and is given up after {seconds:.0f} s; the last good prices stay")
        os._exit(PARTLY)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def fetched_market(text: str) -> Market:
    """A market whose prices clouds publish; WorkloadError for the others."""
    from pricing.offers import Market

    name = market_name(text)
    if name not in (Market.ON_DEMAND, Market.SPOT):
        raise WorkloadError(f"clouds publish no prices of the market {text}", field="--market", value=text,
                            nearest=(Market.ON_DEMAND, Market.SPOT))  # fmt: skip
    return Market(name)


def source_settings(here: Settings, **changes: float) -> SourceSettings:
    """What the live sources may know, from the environment of this process."""
    from pricing.sources.base import settings_from_environment

    return settings_from_environment(os.environ, _now(here), **changes)


def region_names(patterns: list[str] | None, clouds: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns as typed, and every known region that answers to them by place or area."""
    if not patterns:
        return ()
    from pricing.regions import region_filter, regions

    test = region_filter(patterns, field="--region")
    known = [name for cloud, name in regions() if (not clouds or cloud in clouds) and test(cloud, name)]
    return tuple(dict.fromkeys([*patterns, *known]))


@contextmanager
def _progress(here: Settings) -> Iterator[Callable[[int, int, str], None] | None]:
    """A progress bar on standard error where it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, no_color=not here.color), transient=True) as bar:
        task = bar.add_task("prices", total=None)

        def tick(done: int, total: int, name: str) -> None:
            bar.update(task, total=total, completed=done, description=name)

        yield tick


def _report(summary: Summary, here: Settings, format: str | None, output: Path | None) -> None:
    """The summary: a table by cloud, then what went wrong; or the whole as JSON."""
    from estimator.cli.price_views import REFRESH_COLUMNS

    how = chosen_format(format, output)
    rows: list[dict[str, Any]] = [{"cloud": c, **counts} for c, counts in sorted(summary.by_cloud().items())]
    if how == "json":
        emit(as_json({"version": "1", **summary.document()}), output)
    elif how == "csv":
        names = ["cloud", "region", "market", "source", "outcome", "detail"]
        emit(as_csv([o.document() for o in summary.outcomes], names), output)
    else:
        emit(as_table(rows, REFRESH_COLUMNS, how, here), output)
    for outcome in summary.outcomes:
        if outcome.outcome in ("failed", "suspect", "partial", "skipped", "region-off"):
            where = " ".join(filter(None, (outcome.cloud, outcome.region, outcome.market)))
            note(f"{outcome.outcome}: {where}: {outcome.detail}")
    changed = sum(o.switch.added + o.switch.changed + o.switch.gone for o in summary.outcomes if o.switch)
    held = sum(n for o in summary.outcomes if o.switch for n in (len_quarantined(o.switch.counts),))
    more = f", {held} rows not believed (prices status --rejected)" if held else ""
    note(f"{changed} prices changed in {summary.seconds:.1f} s{more}")


def len_quarantined(counts: Any) -> int:
    """Rows of a set that were read and not used, from the gate's counts."""
    plain = ("folded", "accepted", "without a price", "jump confirmed", "suspect", "suspect set accepted")
    return sum(n for reason, n in counts.items() if reason not in plain)
