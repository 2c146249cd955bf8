"""How is this server set up? Here alone does `api` read the environment, the file of settings and the clock.

Flags of `estimator serve` win over the file, the file over the environment, the environment over the defaults.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_dir
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from benchmarks_db.errors import WorkloadError
from pricing.regions import resolve_cloud

FILE = "ESTIMATOR_SETTINGS_FILE"
CLOUDS = "ESTIMATOR_REFRESH_CLOUDS"
FLAGS = "ESTIMATOR_SERVE_FLAGS"  # written by `estimator serve` for its own workers: what was said on the command line


class Settings(BaseSettings):
    """Settings of one server, from `ESTIMATOR_*` environment variables unless given."""

    model_config = SettingsConfigDict(env_prefix="ESTIMATOR_", env_ignore_empty=True, extra="ignore", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0: a free one")
    workers: int = Field(1, ge=1, le=256, description="processes that serve")
    shutdown_seconds: float = Field(30.0, gt=0, description="requests under way may take this long after SIGTERM")
    data_dir: Path | None = Field(None, description="folder for prices and measurements; none: the user data directory")
    database_url: str | None = Field(
        None, repr=False, description="database of prices, keys and measurements; none: SQLite in the data directory"
    )
    redis_url: SecretStr | None = Field(
        None, description="Redis that replicas share for rates and answers; none: each process has its own"
    )
    cache_seconds: float = Field(3600.0, gt=0, description="an answer is kept in Redis for this long")
    look_again_seconds: float = Field(2.0, ge=0, description="prices read from the database are used for this long")
    outage_seconds: float = Field(
        300.0, ge=0, description="while the database does not answer, prices and keys read before hold for this long"
    )
    overrides: Path | None = Field(
        None, description="negotiated prices (YAML); none: overrides.yaml in the data directory, if there is one"
    )
    refresh_minutes: float = Field(0.0, ge=0, description="prices are fetched this often, by one process; 0: never")
    refresh_clouds: str = Field("", description="clouds that are asked, separated by commas; empty: all")
    fresh_on_demand_hours: float = Field(168.0, gt=0, description="a fetched on-demand price is live until this age")
    fresh_spot_hours: float = Field(1.0, gt=0, description="a fetched spot price is live until this age")
    offline: bool = Field(False, description="use only the price snapshot that ships with the package")
    now: datetime | None = Field(None, description="pretend that it is this time (UTC); none: the clock")
    max_price_age_hours: float | None = Field(None, gt=0, description="prices older than this are not ranked")
    max_body_bytes: int = Field(8 * 2**20, gt=0, description="largest request body that is read")
    max_predict_rows: int = Field(20_000, gt=0, description="most rows of one /v1/predict request")
    max_json_depth: int = Field(64, gt=0, description="deepest nesting of a JSON body")
    max_batch: int = Field(5000, gt=0, description="most workloads of one /v1/batch request")
    planners: int = Field(2, ge=1, description="plans, estimates and predictions computed at the same time")
    max_waiting: int = Field(64, ge=1, description="requests that may wait for a planner; more are answered with 503")
    request_seconds: float = Field(60.0, gt=0, description="time budget of one answer, waiting included; then 503")
    batch_seconds: float = Field(900.0, gt=0, description="time budget of a streamed /v1/batch")
    body_seconds: float = Field(30.0, gt=0, description="a body must have arrived within this time; then 408")
    require_key: Literal["auto", "always", "never"] = Field(
        "auto", description="API keys: auto = needed unless both ends of the connection are on this machine"
    )
    rate_per_minute: int = Field(120, ge=0, description="requests a minute from one address without a key; 0: no limit")
    cell_rate_per_minute: int = Field(
        3000, ge=0, description="requests for cells a minute from one address or with one key; 0: no limit"
    )
    key_rate_per_minute: int = Field(1200, ge=0, description="requests a minute with one key; 0: no limit")
    cors_origins: str = Field("", description="origins whose pages may call the API, separated by commas; `*`: all")
    allowed_hosts: str = Field("", description="host names this server answers to, separated by commas; empty: all")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="lines of the log: auto = for people on a terminal, JSON elsewhere"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="the least that is logged")
    metrics: Literal["key", "open", "off"] = Field(
        "key", description="/metrics: key = as every other path (scope `read`), open = to all who reach the port"
    )
    tracing: bool = Field(False, description="send OpenTelemetry traces (extra `tracing`; `OTEL_*` say where to)")

    @field_validator("now")
    @classmethod
    def _utc(cls, moment: datetime | None) -> datetime | None:
        return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)

    @field_validator("refresh_clouds")
    @classmethod
    def _known(cls, names: str) -> str:
        return ",".join(resolve_cloud(name.strip(), field=CLOUDS) for name in names.split(",") if name.strip())

    @property
    def clouds(self) -> tuple[str, ...]:
        """`refresh_clouds` one by one, in their canonical names."""
        return tuple(filter(None, self.refresh_clouds.split(",")))

    @property
    def store_url(self) -> str:
        """The price database: the one that is named, else a file in the data directory."""
        return self.database_url or str(self.folder / "prices.db")

    @property
    def folder(self) -> Path:
        """The data directory."""
        return self.data_dir or Path(user_data_dir("gpu-cost-estimator", appauthor=False))

    @property
    def origins(self) -> list[str]:
        """`cors_origins` one by one."""
        return [origin for part in self.cors_origins.split(",") if (origin := part.strip().rstrip("/"))]

    @property
    def hosts(self) -> frozenset[str]:
        """`allowed_hosts` one by one, in lower case."""
        return frozenset(host for part in self.allowed_hosts.split(",") if (host := part.strip().casefold()))

    def clock(self) -> datetime:
        """The time of a request, UTC."""
        return self.now or datetime.now(UTC)


def from_environment(**flags: Any) -> Settings:
    """The settings of flags, file and environment; WorkloadError naming the one that cannot be used."""
    file = _file(os.environ.get(FILE, "").strip())
    given = file | json.loads(os.environ.get(FLAGS) or "{}") | flags
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        key = "_".join(map(str, first["loc"]))
        name = f"{os.environ[FILE]}: {key}" if key in file else f"ESTIMATOR_{key.upper()}"
        value = None if key.endswith("_url") else first["input"]  # it may hold a password
        raise WorkloadError(first["msg"], field=name, value=value) from None


def _file(path: str) -> Mapping[str, Any]:
    """The TOML file of settings, its keys checked; empty where none is named."""
    if not path:
        return {}
    try:
        with Path(path).expanduser().open("rb") as stream:
            found = tomllib.load(stream)
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", field=FILE, value=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WorkloadError(f"is not TOML: {error}", field=FILE, value=path) from None
    for key in found:
        if key not in Settings.model_fields:
            near = get_close_matches(key, Settings.model_fields, n=3)
            raise WorkloadError(f"{path} has a setting that does not exist", field=key, value=key, nearest=near)
    return found
