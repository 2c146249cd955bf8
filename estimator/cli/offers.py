"""`offers`: what can be rented now, where, at what price, how old; and the filters that `prices` shares with it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks_db.errors import UnknownName, WorkloadError
from estimator.cli.errors import note
from estimator.cli.flags import (
    FormatOption,
    MaxAgeOption,
    OfflineOption,
    OutputOption,
    OverridesOption,
    PlainOption,
    surroundings,
)
from estimator.cli.output import XLSX, as_csv, as_json, as_table, chosen_format, emit, emit_workbook
from estimator.cli.prices_in_use import market_in_use
from estimator.cli.settings import Settings

if TYPE_CHECKING:
    from pricing.offers import OfferTable

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
    what: Annotated[
        str | None,
        typer.Argument(metavar="[GPU[:COUNT]|INSTANCE]", help="H100:8, p5.48xlarge, a2-*", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Unpriced types and unknown GPUs too.")] = False,
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="GPU[:COUNT]", show_default=False)] = None,
    instance: Annotated[str | None, typer.Option("--instance", help="A name or a pattern.", show_default=False)] = None,
    market: MarketOption = None,
    accelerators: Annotated[
        str | None, typer.Option("--accelerators", help="gpu, or any (Trainium, TPU).", show_default="gpu")
    ] = None,
    as_of: AsOfOption = None,
    max_age: MaxAgeOption = None,
    overrides: OverridesOption = None,
    offline: OfflineOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
    no_color: PlainOption = False,
) -> None:
    """List what can be rented now, with price, source and age; cheapest first when a GPU or instance is named."""
    from pricing.offers import listed

    here = surroundings(offline=offline, no_color=no_color, output=output, overrides=overrides)
    kinds = accelerators or ("gpu" if what is None else "any")
    moment = date_of(as_of, "--as-of") if as_of else None
    table = offers_of(here, accelerators=kinds, as_of=moment, max_age=max_age)
    here = replace(here, now=moment or here.now)  # ages count to it
    if what is not None:
        table = picked(table, what)
    rows = listed(narrowed(table, cloud, region, gpu, instance, market), every=every)
    if (what, gpu, instance) != (None, None, None):
        rows.sort(key=lambda o: (o.price_usd_per_hour or math.inf, o.cloud, o.region or "", o.zone or ""))
    print_offers([o.document() for o in rows], here, format, output)


def picked(table: OfferTable, what: str) -> OfferTable:
    """The rows of a GPU, or of an instance type where the text is the name or a pattern of one."""
    from difflib import get_close_matches
    from fnmatch import fnmatchcase

    from benchmarks_db.gpus import resolve_gpu

    glob = what.casefold()
    named = any(fnmatchcase(name.casefold(), glob) for name in table.names["instance_type"])
    if not named and get_close_matches(glob, [name.casefold() for name in table.names["instance_type"]], cutoff=0.8):
        try:
            resolve_gpu(what)
        except UnknownName:  # a machine, misspelt
            raise UnknownName("instance type", what, table.names["instance_type"], field="instance_types") from None
    return narrowed(table, None, None, None if named else what, what if named else None, None)


def offers_of(
    here: Settings, *, accelerators: str = "gpu", as_of: datetime | None = None, max_age: str | None = None
) -> OfferTable:
    """The offers of this moment (or as of a date) for a listing; warnings are told on standard error.

    With `max_age` the rows that are too old are left out; PricesUnavailable when none remains.
    """
    if as_of is not None and as_of > here.now:
        raise WorkloadError("lies ahead: nobody knows its prices", field="--as-of", value=as_of.isoformat())
    table = market_in_use(here, accelerators=accelerators, as_of=as_of, max_age=max_age)
    for warning in table.warnings:
        note(f"warning: {warning}")
    return table.select(table.ranked | (table.usd_per_hour != table.usd_per_hour)) if max_age is not None else table


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

    how = chosen_format(format, output, also=XLSX)
    if how == "xlsx":
        emit_workbook("Offers", rows, list(rows[0]) if rows else [], output)
    elif how == "json":
        emit(as_json({"version": "1", "currency": "USD", "offers": rows}), output)
    elif how == "csv":
        emit(as_csv(rows, list(rows[0]) if rows else []), output)
    else:
        emit(as_table(rows, offer_columns(here.now, rows), how, here), output)
        if not rows:
            note("no offers match")
