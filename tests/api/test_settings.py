from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

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
