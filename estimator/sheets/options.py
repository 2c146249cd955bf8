"""What may a person say about how a sheet is filled?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from estimator.sheets.archive import Limits


@dataclass(frozen=True, slots=True)
class FillOptions:
    """Where the workloads stand in a file, and how much of it is read."""

    sheet: str | None = None  # name; None: the first one with a header that is understood
    header_row: int | None = None  # from 1; None: found
    mapping: Mapping[str, str] = field(default_factory=dict)  # header -> key; "" leaves a column unread
    limits: Limits = field(default_factory=Limits)
