"""What is written behind one row of a sheet: the figures of its cheapest plan, or what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.sheets.answers import Answers, Market, one_line, question_of
from estimator.sheets.columns import KEYS, LABELS, NUMBER, RESULTS, Columns, Input, fold
from estimator.sheets.values import SHEET_VALUES, Value

RowResult = Mapping[str, Value]
NO_VALUE = "\0no stored value"
"""Stands for a formula cell that no program has calculated yet."""

NOTHING = frozenset({"", "-", "\u2013", "\u2014", "n/a", "n.a."})
TOTAL = re.compile(r"(?:grand |sub-?)?totals?\b|sum\b|(?:zwischen)?summe\b|gesamt\b", re.IGNORECASE)
_NO_RUN = {"total", "subtotal", "grandtotal", "sum", "summe", "gesamt"} | {
    word for word, key in KEYS.items() if key == "model"
}
FAILED = re.compile(r"#(?:DIV/0!|N/A|REF!|NAME\?|VALUE!|NUM!|NULL!|SPILL!|CALC!)|Err:\d+")
"""What a spreadsheet shows where a formula has failed."""

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
        typed = {known: _stated(cells.get(place, "")) for place, known in columns.inputs.items()}
        typed = {known: text for known, text in typed.items() if text}
        if not _asks({known.key: text for known, text in typed.items()}):
            return None
        self.tally.rows += 1
        if self.tally.rows > self.most_rows:
            raise WorkloadError(f"more than {self.most_rows:,} rows", field="rows")
        result = self._result(typed)
        self.tally.failed += bool(result["error"])
        if self.progress is not None:
            self.progress(self.tally.rows)
        return result

    def failure(self, message: str) -> RowResult:
        """A row that cannot be read."""
        self.tally.rows += 1
        self.tally.failed += 1
        return {**dict.fromkeys(RESULTS), "error": message}

    def _result(self, typed: Mapping[Input, str]) -> RowResult:
        blank: dict[str, Value] = dict.fromkeys(RESULTS)
        try:
            question = question_of(_asked(typed))
            answer = self.answers.ask(question, self.market)
        except EstimatorError as error:
            return blank | {"error": one_line(error)}
        known = {column: answer.values.get(value) for column, value in SHEET_VALUES.items()}
        return blank | known | {"error": one_line(answer.error) if answer.error is not None else None}


def also_filled(sheet: str) -> str:
    """A sentence for another sheet of the file that has runs."""
    return f"the sheet {sheet!r} has runs too, which were not read: fill it with --sheet {sheet!r}"


def _stated(cell: str) -> str:
    """A cell without what people write to say that it holds nothing."""
    text = cell.strip()
    return "" if text.casefold() in NOTHING else text


def _asks(given: Mapping[str, str]) -> bool:
    """Is this a run? A row that only holds figures, sums or headers again is none, nor is a blank one."""
    asked = {key: text for key, text in given.items() if key not in LABELS}
    if "model" in asked:
        return fold(asked["model"]) not in _NO_RUN
    if any(TOTAL.match(text) for text in given.values()):
        return False
    return any(text != NO_VALUE and not NUMBER.fullmatch(text) for text in asked.values())


def _asked(typed: Mapping[Input, str]) -> dict[str, str]:
    """The keys of a row that are asked about; WorkloadError where a cell cannot be used."""
    for known, text in typed.items():
        if text == NO_VALUE:
            raise WorkloadError(
                "the formula has no stored value: open the file in a spreadsheet program and save it", field=known.key
            )
        if known.key not in LABELS and FAILED.fullmatch(text):
            raise WorkloadError(f"the cell shows {text}", field=known.key, value=text)
    asked = {known.key: known.text(text) for known, text in typed.items() if known.key not in LABELS}
    if "model" not in asked:
        raise WorkloadError("is needed and missing", field="model")
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
