"""How do replicas share what a cell was answered? As JSON in Redis, named by everything that the answer rests on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from estimator.sheets.answers import Answer, Market, Question, asks_spot
from estimator.sheets.values import Value
from estimator.sweep.identity import program


def name_of(question: Question, market: Market) -> str | None:
    """The name of an answer among replicas that run the same code with the same facts; None for those that rest on what
    each process has read for itself."""
    if asks_spot(question):
        return None
    rests_on = json.dumps([program(), market.state, question])
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
