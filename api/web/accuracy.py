"""How far off are the predictions on what they were not fitted on? The table and residuals that ship with the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from api.web.drawings import Residuals, residuals

FILE = Path(__file__).parent / "accuracy.json"


@dataclass(frozen=True)
class Report:
    """Scores by case and by what was left out, and residuals by family."""

    scores: list[dict[str, Any]]
    residuals: list[dict[str, Any]]

    def of(self, left_out: str) -> list[dict[str, Any]]:
        """The lines of one kind of leaving out."""
        return [line for line in self.scores if line["left_out"] == left_out]

    @cached_property
    def left_out(self) -> list[str]:
        """What was left out, nearest first."""
        return list(dict.fromkeys(line["left_out"] for line in self.scores))

    @cached_property
    def drawings(self) -> list[tuple[dict[str, Any], Residuals]]:
        """Each set of residuals with its drawing."""
        return [(one, residuals([(x, log) for x, log, _ in one["points"]])) for one in self.residuals]


@cache
def report() -> Report | None:
    """What `scripts/refresh_accuracy.py` wrote; None where it has not been run."""
    if not FILE.exists():
        return None
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return Report(content["scores"], content["residuals"])
