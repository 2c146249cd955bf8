"""`keys ...`: who may ask a shared server. Secrets are printed once and kept only as hashes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from estimator.cli.catalogue import listing
from estimator.cli.errors import note
from estimator.cli.flags import FormatOption, OutputOption, PlainOption, surroundings
from estimator.cli.output import Column
from estimator.cli.prices_in_use import store_url
from estimator.request.quantities import parse_hours

if TYPE_CHECKING:
    from pricing.store import Store
    from pricing.store_keys import ApiKey

app = typer.Typer(help="Issue, list, rotate and revoke the API keys of a shared server.", no_args_is_help=True)

COLUMNS = (
    Column("id", lambda r: r["id"]),
    Column("name", lambda r: r["name"]),
    Column("scopes", lambda r: r["scopes"]),
    Column("state", lambda r: r["state"]),
    Column("since", lambda r: r["created_at"], spare=1),
    Column("until", lambda r: r["expires_at"] or ""),
)


def _store() -> Store:
    from pricing.store import Store

    return Store(store_url(surroundings()))


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Whose key it is, for people.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="read, plan or admin; each includes the ones before it.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="Holds for this long: 90d.", show_default=False)
    ] = None,
) -> None:
    """Issue a key and print it, this once, on standard output."""
    from pricing.store_keys import add_key, scopes_of

    now = datetime.now(UTC)
    end = now + timedelta(hours=parse_hours(expires, field="--expires")) if expires is not None else None
    key, text = add_key(_store(), name, scopes_of(scope or ["plan"]), now=now, expires_at=end)
    _print(key, text)


@app.command("list")
def list_keys(format: FormatOption = None, output: OutputOption = None, no_color: PlainOption = False) -> None:
    """List the keys; their secrets are kept nowhere."""
    from pricing.store_keys import keys

    now = datetime.now(UTC)
    rows = [_row(key, now) for key in keys(_store())]
    listing("keys", rows, COLUMNS, format, output, no_color)


@app.command()
def rotate(
    id: Annotated[str, typer.Argument(help="As `estimator keys list` shows it.")],
    grace: Annotated[str, typer.Option("--grace", metavar="DURATION", help="The old key holds for this long.")] = "24h",
) -> None:
    """Issue a successor with the same name and scopes; the old key ends after the grace."""
    from pricing.store_keys import rotate_key

    hours = parse_hours(grace, field="--grace")
    key, text = rotate_key(_store(), id, now=datetime.now(UTC), grace=timedelta(hours=hours))
    _print(key, text)
    note(f"{id} holds for {hours:g} more hours")


@app.command()
def revoke(id: Annotated[str, typer.Argument(help="As `estimator keys list` shows it.")]) -> None:
    """End a key; servers that know it follow within five seconds."""
    from pricing.store_keys import revoke_key

    key = revoke_key(_store(), id, now=datetime.now(UTC))
    note(f"{key.id} ({key.name}) opens nothing any more")


def _print(key: ApiKey, text: str) -> None:
    print(text)
    note(f"{key.id} ({key.name}): {', '.join(key.scopes)}; it is shown this once, keep it where secrets are kept")


def _row(key: ApiKey, now: datetime) -> dict[str, Any]:
    def day(moment: datetime | None) -> str | None:
        return None if moment is None else moment.isoformat(timespec="seconds")

    return {
        "id": key.id, "name": key.name, "scopes": ",".join(key.scopes), "state": key.state(now),
        "created_at": day(key.created_at), "expires_at": day(key.expires_at), "revoked_at": day(key.revoked_at),
    }  # fmt: skip
