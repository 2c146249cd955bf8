"""What is written behind one row of a sheet: the figures of its cheapest plan, or what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.sheets.answers import Answers, Market, one_line, question_of
from estimator.sheets.columns import LABELS, NUMBER, RESULTS, Columns
from estimator.sheets.values import SHEET_VALUES, Value

RowResult = Mapping[str, Value]
NO_VALUE = "\0no stored value"
"""Stands for a formula cell that no program has calculated yet."""

Progress = Callable[[int], None]


@dataclass(slots=True)
class Tally:
    """How a filling went."""

    rows: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class RowFiller:
    """Answers rows one by one; the same question is planned once."""

    market: Market
    answers: Answers = field(default_factory=Answers)
    progress: Progress | None = None
    most_rows: int = 1_048_576
    tally: Tally = field(default_factory=Tally)

    def fill(self, columns: Columns, cells: Mapping[int, str]) -> RowResult | None:
        """The results of a row by name; None for a row that asks nothing (blank, a heading, a total)."""
        given = {known.key: known.text(cells.get(place, "").strip()) for place, known in columns.inputs.items()}
        given = {key: text for key, text in given.items() if text}
        if not _asks(given):
            return None
        self.tally.rows += 1
        if self.tally.rows > self.most_rows:
            raise WorkloadError(f"more than {self.most_rows:,} rows", field="rows")
        result = self._result(given)
        self.tally.failed += bool(result["error"])
        if self.progress is not None:
            self.progress(self.tally.rows)
        return result

    def failure(self, message: str) -> RowResult:
        """A row that cannot be read."""
        self.tally.rows += 1
        self.tally.failed += 1
        return {**dict.fromkeys(RESULTS), "error": message}

    def _result(self, given: Mapping[str, str]) -> RowResult:
        blank: dict[str, Value] = dict.fromkeys(RESULTS)
        try:
            question = question_of(_asked(given))
            answer = self.answers.ask(question, self.market)
        except EstimatorError as error:
            return blank | {"error": one_line(error)}
        known = {column: answer.values.get(value) for column, value in SHEET_VALUES.items()}
        return blank | known | {"error": one_line(answer.error) if answer.error is not None else None}


def _asks(given: Mapping[str, str]) -> bool:
    """Is this a run? A row without a model that only holds figures is a total, a blank one a gap."""
    asked = {key: text for key, text in given.items() if key not in LABELS}
    return "model" in asked or any(text != NO_VALUE and not NUMBER.fullmatch(text) for text in asked.values())


def _asked(given: Mapping[str, str]) -> dict[str, str]:
    """The keys of a row that are asked about; WorkloadError where a cell cannot be used."""
    for key, text in given.items():
        if text == NO_VALUE:
            raise WorkloadError(
                "the formula has no stored value: open the file in a spreadsheet program and save it", field=key
            )
    if "model" not in given:
        raise WorkloadError("is needed and missing", field="model")
    asked = {key: text for key, text in given.items() if key not in LABELS}
    if "gpu" in asked:
        asked["gpu"] = _gpu(asked["gpu"])
    return asked


def _gpu(text: str) -> str:
    """`8 x H100` and `H100 x8` as people write them in sheets.

    >>> _gpu("8x H100"), _gpu("A100-80GB x 4"), _gpu("RTX 3090")
    ('H100:8', 'A100-80GB:4', 'RTX 3090')
    """
    before = re.fullmatch(r"(\d+)\s*[x×*]\s*(\D.*)", text)
    behind = re.fullmatch(r"(.+?)\s+[x×*]\s*(\d+)", text)
    if before:
        return f"{before[2]}:{before[1]}"
    return f"{behind[1]}:{behind[2]}" if behind else text
