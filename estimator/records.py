"""Which rows of a record of arrays? Hardware, layouts, steps and accounts of n candidates are picked the same way."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def pick(value: T, index: NDArray[Any]) -> T:
    """The rows `index` (positions or a mask) of an array, or of a dataclass of arrays; scalars stay scalars."""
    if isinstance(value, np.ndarray):
        return value[index] if value.ndim else value
    if hasattr(value, "__dataclass_fields__"):
        parts = {f.name: pick(getattr(value, f.name), index) for f in fields(value)}  # type: ignore[arg-type]
        return type(value)(**parts)
    return value
