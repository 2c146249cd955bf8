"""What do the environment and the terminal say? Read once here, passed on as values."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks_db.errors import WorkloadError
from estimator.request.quantities import parse_bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The surroundings of one command."""

    now: datetime  # UTC
    offline: bool
    data_dir: Path
    database_url: str | None
    overrides: Path | None  # negotiated prices
    color: bool  # styles are welcome on standard output
    width: int | None  # columns of the terminal that standard output is; None: a file or a pipe
    debug: bool


def settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process; WorkloadError names a variable that cannot be read."""
    env = os.environ if environ is None else environ
    terminal = sys.stdout.isatty()
    data_dir = _data_dir(env.get("ESTIMATOR_DATA_DIR", ""))
    return Settings(
        now=_now(env.get("ESTIMATOR_NOW", "")),
        offline=_switch(env, "ESTIMATOR_OFFLINE"),
        data_dir=data_dir,
        database_url=env.get("ESTIMATOR_DATABASE_URL") or None,
        overrides=overrides_file(env.get("ESTIMATOR_OVERRIDES", ""), data_dir),
        color=terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb",
        width=shutil.get_terminal_size((120, 40)).columns if terminal else None,
        debug=_switch(env, "ESTIMATOR_DEBUG"),
    )


def overrides_file(text: str, data_dir: Path) -> Path | None:
    """The file of negotiated prices: as named, none for "none", else the one in the data directory if there is one."""
    if text.strip():
        return None if text.strip().casefold() == "none" else Path(text.strip()).expanduser()
    usual = data_dir / "overrides.yaml"
    return usual if usual.exists() else None


def _switch(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "").strip()
    return bool(text) and parse_bool(text, field=name)


def _now(text: str) -> datetime:
    """`ESTIMATOR_NOW` (ISO 8601, UTC when it names no zone) or the clock."""
    if not text.strip():
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise WorkloadError(
            f"{text!r} is not a date and time", field="ESTIMATOR_NOW", value=text, nearest=("2026-11-30T12:00:00Z",)
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _data_dir(text: str) -> Path:
    if text.strip():
        return Path(text).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("gpu-cost-estimator", appauthor=False))
