"""A server is warm before it is asked, and one without prices starts all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from api.warmup import warm

from .conftest import NOW


def test_what_is_done_once_is_done_before_the_first_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("api.warmup.warm_page", lambda app: drawn.append("page"))
    app = create_app(Settings(now=NOW, offline=True, data_dir=tmp_path))
    with TestClient(app) as client:
        assert drawn == ["page"]
        assert app.openapi_schema is not None
        assert client.get("/healthz").status_code == 200


def test_a_server_without_usable_prices_starts_and_says_so_when_asked(tmp_path: Path) -> None:
    app = create_app(Settings(now=NOW, offline=True, data_dir=tmp_path, max_price_age_hours=0.001))
    warm(app)
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
