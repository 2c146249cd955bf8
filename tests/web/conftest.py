"""The page for tests: by a client without a browser, and in a real Chromium against a real server."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from tests.end_to_end.conftest import estimator, server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, LocatorAssertions, Page

__all__ = ["estimator", "server"]

CANCELLED = re.compile(r"htmx:(afterRequest|sendAbort|abort)\b")  # how htmx logs a request that a newer one replaced
NOW = datetime(2026, 9, 1, tzinfo=UTC)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    settings = Settings(now=NOW, offline=True, data_dir=tmp_path_factory.mktemp("data"))
    return TestClient(create_app(settings), raise_server_exceptions=False)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Chromium (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def soon(page: Page, selector: str) -> LocatorAssertions:
    """What will be true of an element in a while; the page's policy lets no test evaluate text in a loop."""
    from playwright.sync_api import expect

    return expect(page.locator(selector))


Open = Callable[..., "Page"]


@pytest.fixture
def page_at(chromium: Browser, server: str) -> Iterator[Open]:
    """Open the page with a state; a message on the console or a failed script fails the test."""
    contexts, said = [], []

    def open_page(path: str = "/", *, javascript: bool = True, dark: bool = False, phone: bool = False,
                  quiet: bool = True, **state: object) -> Page:  # fmt: skip
        context = chromium.new_context(
            viewport={"width": 390, "height": 844} if phone else {"width": 1360, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
        )
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        if quiet:  # else the browser itself reports what the test breaks
            page.on("console", lambda message: None if CANCELLED.match(message.text) else said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{server}{path}" + (f"?{urlencode(state, doseq=True)}" if state else ""))
        page.wait_for_load_state("networkidle")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
