"""A server for each test: the shipped facts, no environment, a fixed clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings

NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(now=NOW, offline=True, data_dir=tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def client(settings: Settings) -> TestClient:
    return TestClient(create_app(settings), raise_server_exceptions=False)
