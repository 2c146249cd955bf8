"""How far off are the predictions on what they were not fitted on? The table and residuals that ship with the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "accuracy.json"


@dataclass(frozen=True)
class Report:
    """Scores by case and by what was left out, residuals by family, and the day of the computation."""

    scores: list[dict[str, Any]]
    residuals: list[dict[str, Any]]


@cache
def report() -> Report | None:
    """What `scripts/refresh_accuracy.py` wrote; None where it has not been run."""
    if not FILE.exists():
        return None
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return Report(content["scores"], content["residuals"])
