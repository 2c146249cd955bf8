"""How does an answer read in a cell, and as the small XML document that `FILTERXML` picks from?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from xml.sax.saxutils import escape

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.sheets.answers import Answer, one_line
from estimator.sheets.values import CELL_VALUES, written

ERROR = "#ERROR: "
"""What every failure in a cell begins with."""


def cell_text(answer: Answer, value: str, now: datetime) -> str:
    """One bare value. Raises what stood in the way, WorkloadError where the value is not known for this model."""
    text = written(answer.value(value, now))
    if not text:
        raise WorkloadError(f"{value} is not known for this request", field="value", value=value)
    return text


def cell_xml(answer: Answer, value: str, now: datetime) -> str:
    """Every known value as an element of its own, the asked one as `<value>` too; an error as `<error>`."""
    parts: dict[str, str] = {}
    try:
        parts["value"] = cell_text(answer, value, now)
    except EstimatorError as error:
        parts["error"] = error_text(error)
    for name in CELL_VALUES:
        known = answer.values.get(name)
        if known is not None:
            parts[name] = written(answer.value(name, now))
    return xml_of(parts)


def xml_of(parts: Mapping[str, str]) -> str:
    """The elements of one cell."""
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in parts.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<cell version="1">{inner}</cell>\n'


def error_text(error: EstimatorError) -> str:
    """A failure as a cell shows it."""
    return ERROR + one_line(error)
