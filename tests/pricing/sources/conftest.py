"""Servers for the sources, and an environment that leads nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.pricing.sources.clouds import Clouds, sky


@pytest.fixture
def clouds() -> Iterator[Clouds]:
    with sky() as up:
        yield up


@pytest.fixture(autouse=True)
def nobody_s_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """No account of whoever runs the tests, no proxy, no metadata server."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "ESTIMATOR_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")
