"""`offers`: what can be rented now, where, at what price, how old; and the filters that `prices` shares with it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import UnknownName, WorkloadError
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, MaxAgeOption, OfflineOption, OutputOption, PlainOption, surroundings
from estimator.cli.output import as_csv, as_json, as_table, chosen_format, emit
from estimator.cli.settings import Settings
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from pricing.offers import OfferTable
    from pricing.store import Store

DATABASE = "prices.db"
CloudsOption = Annotated[
    list[str] | None, typer.Option("--cloud", help="aws, gcp or azure; may be given again.", show_default=False)
]
RegionsOption = Annotated[
    list[str] | None,
    typer.Option("--region", help="A region, place or pattern: us-east-1, Frankfurt, 'us-*'.", show_default=False),
]
MarketOption = Annotated[
    str | None, typer.Option("--market", help="on-demand, spot, reserved or block.", show_default=False)
]
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", metavar="DATE", help="As known at this date (ISO 8601).", show_default=False)
]


# --- where prices are kept ------------------------------------------------------------------------------------------


def store_url(here: Settings) -> str:
    """The price database of these surroundings: ESTIMATOR_DATABASE_URL, else a file in the data directory."""
    return here.database_url or str(here.data_dir / DATABASE)


def store_to_read(here: Settings) -> Store | None:
    """The price database if there is one yet."""
    from pricing.store import open_store

    return open_store(store_url(here))


def date_of(text: str, field: str) -> datetime:
    """A date or time (UTC when it names no zone); WorkloadError names the field."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise WorkloadError(f"{text!r} is not a date", field=field, value=text, nearest=["2026-09-15"]) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def market_name(text: str | None) -> str | None:
    """The canonical name of a market; UnknownName with the nearest otherwise."""
    from pricing.offers import Market

    if text is None:
        return None
    word = text.strip().casefold().replace("_", "-")
    word = {"ondemand": "on-demand", "preemptible": "spot"}.get(word, word)
    if word not in set(Market):
        raise UnknownName("market", text, list(Market), field="--market")
    return word


# --- offers ---------------------------------------------------------------------------------------------------------


def offers_command(
    every: Annotated[bool, typer.Option("--all", help="Unpriced types and unknown GPUs too.")] = False,
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="GPU[:COUNT]", show_default=False)] = None,
    instance: Annotated[str | None, typer.Option("--instance", help="A name or a pattern.", show_default=False)] = None,
    market: MarketOption = None,
    accelerators: Annotated[str, typer.Option("--accelerators", help="gpu, or any (Trainium, TPU).")] = "gpu",
    as_of: AsOfOption = None,
    max_age: MaxAgeOption = None,
    offline: OfflineOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """List what can be rented now, with price, source and age."""
    from pricing.offers import listed

    here = surroundings(offline=offline, no_color=no_color, output=output)
    table = offers_of(here, accelerators=accelerators, as_of=as_of, max_age=max_age)
    table = narrowed(table, cloud, region, gpu, instance, market)
    print_offers([o.document() for o in listed(table, every=every)], here, format, output)


def offers_of(
    here: Settings, *, accelerators: str = "gpu", as_of: str | None = None, max_age: str | None = None
) -> OfferTable:
    """The offers of this moment (or as of a date) from the store and the snapshot; stale ones are told on stderr.

    With `max_age` the rows that are too old are left out; PricesUnavailable when none remains.
    """
    from pricing.offers import Freshness, current_offers

    if accelerators not in ("gpu", "any"):
        raise UnknownName("kind of accelerators", accelerators, ["gpu", "any"], field="--accelerators")
    hours = parse_hours(max_age, field="--max-age") if max_age is not None else None
    table = current_offers(
        now=here.now,
        store=store_to_read(here),
        max_age_hours=hours,
        offline=here.offline,
        accelerators="any" if accelerators == "any" else "gpu",
        freshness=Freshness.from_environment(os.environ),
        as_of=date_of(as_of, "--as-of") if as_of else None,
    )
    for warning in table.warnings:
        note(f"warning: {warning}")
    return table.select(table.ranked | (table.usd_per_hour != table.usd_per_hour)) if hours is not None else table


def narrowed(
    table: OfferTable,
    clouds: list[str] | None,
    regions: list[str] | None,
    gpu: str | None,
    instance: str | None,
    market: str | None,
) -> OfferTable:
    """The rows that the filters of a listing leave."""
    from fnmatch import fnmatchcase

    from benchmarks_db.gpus import resolve_gpu
    from pricing.regions import region_filter, resolve_cloud

    if clouds:
        names = {resolve_cloud(c, field="--cloud") for c in clouds}
        table = table.select(table.where("cloud", lambda cloud: cloud in names))
    if market is not None:
        wanted = market_name(market)
        table = table.select(table.where("market", lambda m: m == wanted))
    if instance is not None:
        glob = instance.casefold()
        known = sorted(set(table.instance_type))
        table = table.select(table.where("instance_type", lambda t: fnmatchcase(t.casefold(), glob)))
        if not len(table):
            raise UnknownName("instance type", instance, known, field="--instance")
    if gpu is not None:
        match = resolve_gpu(gpu)
        cards = (match.gpu.name, *match.alternatives)
        table = table.select(table.where_type("gpu", lambda g: g in cards))
        if match.count is not None:
            table = table.select(table.gpus_per_node == match.count)
    if regions:
        pairs = list(zip(table.cloud, table.region, strict=True))
        test = region_filter(regions, seen={(c, r) for c, r in pairs if r}, field="--region")
        table = table.select([n for n, (c, r) in enumerate(pairs) if test(c, r)])  # type: ignore[arg-type]
    return table


def print_offers(rows: list[dict[str, Any]], here: Settings, format: str | None, output: Path | None) -> None:
    """Offers as a table, CSV, or the document of CONTRACT.md."""
    from estimator.cli.price_views import offer_columns

    how = chosen_format(format, output)
    if how == "json":
        emit(as_json({"version": "1", "currency": "USD", "offers": rows}), output)
    elif how == "csv":
        emit(as_csv(rows, list(rows[0]) if rows else []), output)
    else:
        emit(as_table(rows, offer_columns(here.now), how, here), output)
        if not rows:
            note("no offers match")
