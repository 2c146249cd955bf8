"""`prices watch`: tell somebody once when a price crosses a limit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks_db.errors import EstimatorError, PricesUnavailable, WorkloadError
from estimator.cli.errors import PARTLY, note, report
from estimator.cli.flags import OfflineOption, OverridesOption, surroundings
from estimator.cli.offers import CloudsOption, MarketOption, RegionsOption, market_name, narrowed, offers_of, picked
from estimator.cli.output import emit
from estimator.cli.prices_in_use import store_url
from estimator.cli.settings import Settings
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from pricing.alerts import Alert

WEBHOOK = "ESTIMATOR_WEBHOOK_URL"


def watch(
    what: Annotated[str, typer.Argument(metavar="GPU[:COUNT]|INSTANCE", help="H100:8, p5.48xlarge, a2-*")],
    below: Annotated[
        float | None,
        typer.Option("--below", metavar="USD", help="Tell at this price an hour or less.", show_default=False),
    ] = None,
    above: Annotated[
        float | None, typer.Option("--above", metavar="USD", help="Tell above this price an hour.", show_default=False)
    ] = None,
    per_gpu: Annotated[bool, typer.Option("--per-gpu", help="The limit is for one GPU, not for one instance.")] = False,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="URL", help=f"Post the message there (also: {WEBHOOK}).", show_default=False),
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="INTERVAL", help="Look again every 30m, 6h ...", show_default=False)
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch/--no-fetch", help="Fetch the clouds' prices before each look.")
    ] = True,
    cloud: CloudsOption = None,
    region: RegionsOption = None,
    market: MarketOption = None,
    overrides: OverridesOption = None,
    offline: OfflineOption = False,
) -> None:
    """Tell once when the cheapest live price of a GPU or instance crosses a limit, and again when it has come back.

    Exit 1 when the webhook did not take the message (the next look tells it again), 4 when there is no live price.
    """
    from pricing.alerts import Alert, checked_url
    from pricing.regions import resolve_cloud
    from pricing.store_errors import StoreError

    limit = below if below is not None else above
    if limit is None or (below is not None and above is not None):
        raise WorkloadError("give either --below or --above", field="--below", nearest=("--below 20",))
    if not 0 < limit < 1e6:
        raise WorkloadError(
            "must be above 0 USD per hour", field="--below" if above is None else "--above", value=limit
        )
    interval = interval_of(every, "--every") if every is not None else None
    url = webhook or os.environ.get(WEBHOOK) or None
    if url is not None:
        checked_url(url, "--webhook" if webhook else WEBHOOK)
    alert = Alert(
        what.strip(),
        limit,
        above is not None,
        per_gpu,
        tuple(resolve_cloud(c, field="--cloud") for c in cloud or ()),
        tuple(region or ()),
        market_name(market),
    )

    def here() -> Settings:
        return surroundings(offline=offline, overrides=overrides)

    asks = fetch and not here().offline
    if interval is None:
        raise typer.Exit(_look(alert, here(), url, asks))
    while True:
        try:
            _look(alert, here(), url, asks)
        except (PricesUnavailable, StoreError) as error:
            report(error)  # the next look may find some, or a database that answers
        pause(interval)


def interval_of(text: str, field: str) -> float:
    """Hours between two looks, a minute at least."""
    hours = parse_hours(text, field=field)
    if hours * 60 < 1 - 1e-9:
        raise WorkloadError("must be at least a minute", field=field, value=text, nearest=("30m",))
    return hours


def pause(hours: float) -> None:
    """Wait, a little less or more than asked, so that many machines do not ask at once."""
    import random
    import time

    time.sleep(hours * 3600 * random.uniform(0.9, 1.1))


def _look(alert: Alert, here: Settings, url: str | None, asks: bool) -> int:
    """Fetch, compare, tell and remember; the exit code."""
    from pricing.alerts import last_state, look, message, remember, send
    from pricing.store import Store

    if asks:
        _fetch(alert, here)
    table = picked(offers_of(here, accelerators="any"), alert.what)
    table = narrowed(table, list(alert.clouds), list(alert.regions), None, None, alert.market)
    store = Store(store_url(here))
    try:
        seen = look(alert, table.offers(), last_state(store, alert))
        if seen.offer is None:
            raise PricesUnavailable(
                f"no live price of {alert.what}: nothing to compare",
                field="prices",
                nearest=("estimator prices refresh",),
            )
        told = message(alert, seen, here.now)
        if seen.tell:
            emit(str(told["text"]), None)
            if url is not None:
                try:
                    send(url, told)
                except EstimatorError as error:
                    report(error)
                    return PARTLY
        else:
            note(f"{seen.usd:.4f} USD: {'told before' if seen.state == 'crossed' else 'not crossed'}")
        remember(store, alert, seen, here.now)
    finally:
        store.close()
    return 0


def _fetch(alert: Alert, here: Settings) -> None:
    """A refresh of what the alert is about; what goes wrong is told, and the look goes on with what is stored."""
    from dataclasses import replace

    from estimator.cli.price_refresh import region_names, source_settings
    from pricing.offers import Market
    from pricing.refresh import refresh
    from pricing.sources.base import Wanted
    from pricing.store import Store

    wanted = Wanted(regions=region_names(list(alert.regions), alert.clouds), interruptions=False)
    if alert.market in (Market.SPOT, Market.ON_DEMAND):
        wanted = replace(wanted, markets=frozenset({Market(alert.market)}))
    store = Store(store_url(here))
    try:
        summary = refresh(store, source_settings(here), clouds=alert.clouds, wanted=wanted, counted=False)
    finally:
        store.close()
    wrong = summary.count("failed", "suspect", "partial")
    if wrong:
        note(f"warning: {wrong} sets of prices could not be renewed (prices status)")
