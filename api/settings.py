"""How is this server set up? The only place of `api` where the environment and the clock are read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from platformdirs import user_data_dir
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from benchmarks_db.errors import WorkloadError


class Settings(BaseSettings):
    """Settings of one server, from `ESTIMATOR_*` environment variables unless given."""

    model_config = SettingsConfigDict(env_prefix="ESTIMATOR_", env_ignore_empty=True, extra="ignore", frozen=True)

    data_dir: Path | None = Field(None, description="folder for prices and measurements; none: the user data directory")
    database_url: str | None = Field(None, description="price store; none: SQLite in the data directory")
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
    key_rate_per_minute: int = Field(1200, ge=0, description="requests a minute with one key; 0: no limit")
    cors_origins: str = Field("", description="origins whose pages may call the API, separated by commas; `*`: all")
    allowed_hosts: str = Field("", description="host names this server answers to, separated by commas; empty: all")

    @field_validator("now")
    @classmethod
    def _utc(cls, moment: datetime | None) -> datetime | None:
        return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)

    @property
    def store_url(self) -> str:
        """The price database: the one that is named, else a file in the data directory."""
        folder = self.data_dir or Path(user_data_dir("gpu-cost-estimator", appauthor=False))
        return self.database_url or str(folder / "prices.db")

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


def from_environment() -> Settings:
    """The settings of the environment; WorkloadError naming the variable where one cannot be used."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "ESTIMATOR_" + "_".join(map(str, first["loc"])).upper()
        raise WorkloadError(first["msg"], field=name, value=first["input"]) from None
