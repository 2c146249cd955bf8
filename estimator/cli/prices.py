"""`prices ...`: fetching prices, how fresh they are, how they moved, and carrying them elsewhere."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import UnknownName, WorkloadError
from estimator.cli.catalogue import listing
from estimator.cli.database import migrate
from estimator.cli.errors import PARTLY, note
from estimator.cli.flags import FormatOption, OutputOption, PlainOption, surroundings
from estimator.cli.offers import (
    CloudsOption,
    MarketOption,
    RegionsOption,
    date_of,
    market_name,
    narrowed,
    offers_command,
    offers_of,
)
from estimator.cli.output import XLSX, as_json, chosen_format, emit
from estimator.cli.price_alerts import watch as watch_command
from estimator.cli.price_refresh import refresh as refresh_command
from estimator.cli.prices_in_use import store_to_read, store_url
from estimator.cli.settings import Settings

if TYPE_CHECKING:
    from pricing.store import ScopeState, Store

app = typer.Typer(help="Fetch, look at and compare prices.", no_args_is_help=True)
app.command()(migrate)
app.command("refresh")(refresh_command)
app.command("show")(offers_command)
app.command("watch")(watch_command)


# --- status ---------------------------------------------------------------------------------------------------------


@app.command()
def status(
    rejected: Annotated[bool, typer.Option("--rejected", help="What the quality gate did not believe.")] = False,
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """Say how fresh the stored prices are, by cloud, region and market, and why some are not renewed."""
    here = surroundings(no_color=no_color, output=output)
    store = store_to_read(here)
    if rejected:
        _rejected(store, here, cloud, region, format, output)
        return
    from estimator.cli.price_views import scope_columns

    rows = _status_rows(store, here)
    rows = _where(rows, cloud, region)
    listing("sets", rows, scope_columns(here.now), format, output, no_color)
    if chosen_format(format, output, also=XLSX) in ("table", "markdown"):
        note(f"database: {store.name}" if store else f"database: none yet ({store_url(here)}); shipped prices are used")
        last = store.last_run() if store else None
        if last is not None:
            from pricing.refresh_reach import reach_of

            only = reach_of(last[1]).words()
            note(f"last refresh: {last[0]:%Y-%m-%d %H:%M} UTC" + (f", of {only} only" if only else ""))


def _status_rows(store: Store | None, here: Settings) -> list[dict[str, Any]]:
    """The stored sets, what the last refresh could not ask, and the snapshot's dates."""
    from pricing.offers import Freshness, iso
    from pricing.snapshot import snapshot_dates, snapshot_table

    freshness = Freshness.from_environment(os.environ)
    rows = []
    if store is not None:
        rows = [_status_row(scope, freshness.limit_hours(scope.market), here.now) for scope in store.scopes()]
        last = store.last_run()
        outcomes: Any = last[1].get("outcomes", []) if last else []
        rows += [
            {"cloud": o["cloud"], "region": o["region"], "market": o["market"], "prices": 0, "state": "not enabled"
             if o["outcome"] == "region-off" else "skipped", "fetched_at": None, "source": o["source"],
             "why": o["detail"]}
            for o in outcomes if o["outcome"] in ("region-off", "skipped")
        ]  # fmt: skip
    table = snapshot_table()
    for (cloud, market), (low, high) in sorted(snapshot_dates().items()):
        count = int((table.where("cloud", lambda c, k=cloud: c == k) & table.where("market", lambda m, k=market: m == k)  # type: ignore[misc]
                     & ~(table.usd_per_hour != table.usd_per_hour)).sum())  # fmt: skip
        rows.append(
            {"cloud": cloud, "region": None, "market": market, "prices": count, "state": "snapshot",
             "fetched_at": iso(high), "source": "shipped", "why": f"observed {low:%Y-%m-%d} to {high:%Y-%m-%d}"}
        )  # fmt: skip
    return rows


def _status_row(scope: ScopeState, limit: float, now: datetime) -> dict[str, Any]:
    from pricing.offers import iso

    state, why = "live", ""
    if scope.fetched_at is None:
        state = "failed"
    elif now - scope.fetched_at > timedelta(hours=limit):
        state, why = "stale", f"older than {limit:g} h"
    elif scope.kept:
        why = f"{scope.kept} prices kept from before: no usable one was fetched (see their notes, and --rejected)"
    if scope.failing:
        state = "stale" if scope.fetched_at is not None else "failed"
        why = f"{scope.failure}: {scope.failure_detail}"
    return {
        "cloud": scope.cloud,
        "region": scope.region,
        "market": scope.market,
        "prices": scope.prices,
        "kept": scope.kept,
        "state": state,
        "fetched_at": iso(scope.fetched_at),
        "source": scope.source,
        "why": why,
    }


def _rejected(
    store: Store | None,
    here: Settings,
    cloud: list[str] | None,
    region: list[str] | None,
    format: str | None,
    output: Path | None,
) -> None:
    from estimator.cli.price_views import QUARANTINE_COLUMNS

    rows = [asdict(row) for row in store.quarantined()] if store else []
    listing("rejected", _where(rows, cloud, region), QUARANTINE_COLUMNS, format, output, not here.color)


def _where(rows: list[dict[str, Any]], clouds: list[str] | None, regions: list[str] | None) -> list[dict[str, Any]]:
    from pricing.regions import region_filter, resolve_cloud

    if clouds:
        names = {resolve_cloud(c, field="--cloud") for c in clouds}
        rows = [row for row in rows if row["cloud"] in names]
    if regions:
        seen = {(row["cloud"], row["region"]) for row in rows if row["region"]}
        test = region_filter(regions, seen=seen, field="--region")
        rows = [row for row in rows if row["region"] and test(row["cloud"], row["region"])]
    return rows


# --- history and differences ----------------------------------------------------------------------------------------


@app.command()
def history(
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="p5.48xlarge")],
    days: Annotated[float, typer.Option("--days", min=0.01, max=36500.0)] = 30.0,
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    market: MarketOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it as SVG.", show_default=False)
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """Say how the stored prices of an instance type moved: minimum, quantiles and maximum by zone."""
    from estimator.cli.price_views import HISTORY_COLUMNS
    from estimator.cli.price_views import plot as drawn
    from pricing.instances import instance_types
    from pricing.regions import region_filter, resolve_cloud
    from pricing.store_queries import names_seen, price_history

    here = surroundings(no_color=no_color, output=output)
    store = store_to_read(here)
    seen = {(s.cloud, s.region) for s in store.scopes()} if store else set()
    clouds, kind = [resolve_cloud(c, field="--cloud") for c in cloud or ()], market_name(market)
    where = region_filter(region, seen=seen, field="--region") if region else None
    series = []
    if store is not None:
        series = price_history(
            store, now=here.now, days=days, instance_type=instance, market=kind, clouds=clouds, where=where
        )
    if not series:
        known = {name for _, name in instance_types()} | (names_seen(store) if store else set())
        if instance.casefold() not in {name.casefold() for name in known}:
            raise UnknownName("instance type", instance, sorted(known), field="INSTANCE")
    if plot is not None and series:
        title = f"{instance}, USD per hour, {days:g} days to {here.now:%Y-%m-%d %H:%M} UTC"
        emit(drawn(series, start=here.now - timedelta(days=days), now=here.now, title=title), plot)
    rows = [one.document() for one in series]
    fields = [key for key in rows[0] if key != "steps"] if rows else None
    listing("history", rows, HISTORY_COLUMNS, format, output, no_color, fields)
    if not series:
        note(
            f"no price of {instance} was fetched in the last {days:g} days; `estimator prices refresh` fetches today's"
        )


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="DATE1", help="2026-09-01 or 2026-09-01T12:00Z")],
    after: Annotated[str, typer.Argument(metavar="DATE2")],
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    market: MarketOption = None,
    limit: Annotated[
        float | None,
        typer.Option("--limit", metavar="PERCENT", help="Exit 1 if a price moved by more.", show_default=False),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """Compare the prices known at two dates: what moved, what came, what went."""
    from estimator.cli.price_views import CHANGE_COLUMNS
    from pricing.store_queries import differences

    here = surroundings(no_color=no_color, output=output, overrides="none")
    dates = (date_of(before, "DATE1"), date_of(after, "DATE2"))
    tables = [
        narrowed(offers_of(replace(here, offline=True), as_of=date), cloud, region, None, None, market)
        for date in dates
    ]
    changes = differences(*tables)
    rows = [{**asdict(change), "percent": change.percent} for change in changes]
    listing("changes", rows, CHANGE_COLUMNS, format, output, no_color)
    if limit is not None and any(abs(c.percent) > limit for c in changes if c.percent is not None):
        raise typer.Exit(PARTLY)


# --- export and import ----------------------------------------------------------------------------------------------


@app.command("export")
def export_(
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    market: MarketOption = None,
    format: Annotated[str, typer.Option("--format", "-f", hidden=True)] = "json",
    output: OutputOption = None,
) -> None:
    """Write all current prices and machine facts as JSON, to be read elsewhere by `prices import`."""
    from pricing.exchange import export_document

    if chosen_format(format, output) != "json":
        raise WorkloadError(
            "an export is JSON; `estimator offers` writes tables", field="--format", value=format, nearest=("json",)
        )
    here = surroundings(offline=True, output=output, overrides="none")
    table = narrowed(offers_of(here, accelerators="any"), cloud, region, None, None, market)
    emit(as_json(export_document(table, store_to_read(here))), output)


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="What `prices export` wrote, or a package of data; - is standard input."),
    ],
) -> None:
    """Read exported prices into this machine's price database; older ones never replace newer ones."""
    from pricing.exchange import import_document
    from pricing.store import Store

    here = surroundings()
    try:
        content = json.loads(_exported(file))
    except OSError as error:
        raise WorkloadError(f"{file} cannot be read: {error.strerror}", field="FILE", value=str(file)) from None
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise WorkloadError(f"{file} is not JSON{where}", field="FILE", value=str(file)) from None
    done = import_document(Store(store_url(here)), content)
    newer = sum(s.outcome == "superseded" for s in done)
    suspect = [s.detail for s in done if s.outcome == "suspect"]
    for detail in suspect:
        note(f"not taken: {detail}")
    note(f"{len(done) - newer - len(suspect)} sets read, {newer} already newer here")
    raise typer.Exit(PARTLY if suspect else 0)


def _exported(file: Path) -> str:
    """The text of an export; out of a package of data, verified."""
    from benchmarks_db.package import PRICES, is_package, read_member

    if str(file) == "-":
        return sys.stdin.read()
    return read_member(file, PRICES).decode() if is_package(file) else file.read_text(encoding="utf-8")
