from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.settings import Settings, from_environment
from benchmarks_db.errors import WorkloadError


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_NOW", "2026-09-15T12:00:00Z")
    monkeypatch.setenv("ESTIMATOR_OFFLINE", "1")
    monkeypatch.setenv("ESTIMATOR_DATABASE_URL", "")
    settings = from_environment()
    assert settings.clock() == datetime(2026, 9, 15, 12, tzinfo=UTC)
    assert settings.offline
    assert settings.database_url is None


def test_a_time_without_a_zone_is_utc() -> None:
    assert Settings(now=datetime(2026, 9, 15, 12)).clock() == datetime(2026, 9, 15, 12, tzinfo=UTC)


def test_the_clock_is_read_at_each_request() -> None:
    first = Settings().clock()
    assert datetime.now(UTC) >= first
    assert first.tzinfo is UTC


def test_a_setting_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_NOW", "yesterday")
    with pytest.raises(WorkloadError, match="ESTIMATOR_NOW"):
        from_environment()


def test_a_server_with_a_bad_setting_stops_with_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import api.app"],
        env={"ESTIMATOR_PLANNERS": "none", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "ESTIMATOR_PLANNERS" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_file_of_settings_wins_over_the_environment_and_flags_win_over_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "server.toml"
    file.write_text('planners = 3\nport = 9000\nlog_format = "json"\nnow = 2026-09-15T12:00:00Z\n')
    monkeypatch.setenv("ESTIMATOR_SETTINGS_FILE", str(file))
    monkeypatch.setenv("ESTIMATOR_PLANNERS", "5")
    monkeypatch.setenv("ESTIMATOR_MAX_BATCH", "7")
    settings = from_environment(port=9001)
    assert (settings.planners, settings.port, settings.max_batch, settings.log_format) == (3, 9001, 7, "json")
    assert settings.clock() == datetime(2026, 9, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "named"),
    [("planers = 3", "planers"), ('port = "x"', "port"), ("port = ", "not TOML"), ("workers = 0", "workers")],
)
def test_a_file_of_settings_that_cannot_be_used_is_refused_with_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    monkeypatch.setenv("ESTIMATOR_SETTINGS_FILE", str(file))
    with pytest.raises(WorkloadError, match=named):
        from_environment()


def test_a_setting_that_does_not_exist_is_told_with_its_neighbour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "server.toml"
    file.write_text("refresh_minute = 5")
    monkeypatch.setenv("ESTIMATOR_SETTINGS_FILE", str(file))
    with pytest.raises(WorkloadError) as told:
        from_environment()
    assert told.value.nearest[0] == "refresh_minutes"


def test_a_file_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ESTIMATOR_SETTINGS_FILE", str(tmp_path / "none.toml"))
    with pytest.raises(WorkloadError, match="cannot be read"):
        from_environment()


def test_passwords_of_settings_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESTIMATOR_DATABASE_URL", "postgresql://me:hush@db/prices")
    monkeypatch.setenv("ESTIMATOR_REDIS_URL", "redis://:hush@cache/0")
    assert "hush" not in repr(from_environment())
