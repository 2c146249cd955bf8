"""How do replicas share what a cell was answered? As JSON in Redis, named by everything that the answer rests on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks_db import measurements
from estimator.performance.constants import committed_fingerprint
from estimator.sheets.answers import Answer, Market, Question, asks_spot
from estimator.sheets.values import Value


@cache
def _program() -> str:
    """What else an answer rests on: version, constants and measurements of this program."""
    try:
        ours = version("gpu-cost-estimator")
    except PackageNotFoundError:
        ours = "source"
    return f"{ours} {committed_fingerprint()} {measurements.fingerprint()}"


def name_of(question: Question, market: Market) -> str | None:
    """The name of an answer among replicas; None for those that rest on what each process has read for itself."""
    if asks_spot(question):
        return None
    rests_on = json.dumps([_program(), market.state, question])
    return hashlib.blake2b(rests_on.encode(), digest_size=20).hexdigest()


def text_of(answer: Answer) -> bytes:
    """An answer without an error as JSON."""
    return json.dumps({name: _plain(value) for name, value in answer.values.items()}).encode()


def _plain(value: Value) -> Any:
    return {"time": value.isoformat()} if isinstance(value, datetime) else value


def answer_of(text: bytes) -> Answer | None:
    """What `text_of` wrote; None for anything else."""
    try:
        found = json.loads(text)
        if not isinstance(found, Mapping):
            return None
        return Answer({
            name: datetime.fromisoformat(value["time"]) if isinstance(value, Mapping) else value
            for name, value in found.items()
        })  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None
