"""A server for each test: the shipped facts, no environment, a fixed clock."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Thread

import pytest
import uvicorn
from fastapi import FastAPI
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


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[int]:
    """The application on a real socket of this machine, in a thread; its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
