"""The price of an offer over time, where the server has fetched prices."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from pricing.store import Store
from tests.pricing.sets import price_set
from tests.web.conftest import NOW


@pytest.fixture
def fetched(tmp_path: Path) -> TestClient:
    """A server whose store has seen the price of one machine change twice."""
    settings = Settings(now=NOW, offline=True, data_dir=tmp_path)
    store = Store(settings.store_url)
    for days, usd in ((20, 2.5), (9, 1.9), (1, 2.1)):
        store.switch(price_set({"g6.xlarge": usd}, at=NOW - timedelta(days=days)))
    return TestClient(create_app(settings))


def test_the_history_of_the_chosen_offer_is_drawn(fetched: TestClient) -> None:
    state = {"model": "llama3-8b", "method": "qlora", "tokens": "1M", "gpu": "L4:1", "market": "on-demand",
             "region": "us-east-1", "cloud": "aws"}  # fmt: skip
    text = fetched.get("/", params=state).text
    assert "<b>g6.xlarge</b>: $" in text
    assert "The last 90 days: $1.90 to $2.50" in text
    path = re.search(r'class="line" d="([^"]+)"', text)
    assert path
    assert path[1].count("H") == 3
    assert re.search(r">\$2\.50</text>", text)
    assert re.search(r">1 Sep</text>", text)


def test_without_fetched_prices_the_page_says_how_to_get_them(client: TestClient) -> None:
    assert "One observation, so no history." in client.get("/").text
