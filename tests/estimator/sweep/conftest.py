"""A small grid, its question on the shipped prices, and what one process makes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from estimator.sheets.answers import market_at
from estimator.sweep.cells import Question
from estimator.sweep.engines import here
from estimator.sweep.run import manifest_of, work_of
from estimator.sweep.spec import spec_of
from estimator.sweep.worker import Work
from pricing.offers import current_offers

NOW = datetime(2026, 11, 1, tzinfo=UTC)
GRID = {
    "method": "lora",
    "tokens": "20M",
    "constraints": {"clouds": ["aws"], "max_nodes": 2},
    "grid": {
        "deadline": ["10m", "30h"],
        "model": ["llama3-8b", "resnet50"],  # adapters do not apply to the second: its cells are invalid
        "seq_len": [1024, 1280, 1536, 2048, 3072, 4096],
        "budget": [5, 500],
    },
}


def question_of(body: dict[str, object]) -> Question:
    spec = spec_of(body, Path())
    markets = {
        text: market_at(
            current_offers(now=NOW, as_of=datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None), NOW
        )
        for text in spec.dates()
    }
    return Question(spec, markets)


@pytest.fixture(scope="session")
def question() -> Question:
    return question_of(GRID)


@pytest.fixture(scope="session")
def work(question: Question) -> Work:
    return work_of(question, manifest_of(question, NOW.isoformat()))


@pytest.fixture(scope="session")
def alone(work: Work) -> dict[int, bytes]:
    """Every part as one process works it out."""
    return dict(here(work, range(work.parts)))
