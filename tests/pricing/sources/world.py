"""When the tests' world of prices is read, and how its made-up ids are made."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

AS_OF = datetime(2026, 9, 15, 12, 0, tzinfo=UTC)


def made_up_id(*of: object) -> str:
    """An id that is always the same for the same thing."""
    return hashlib.sha256(repr(of).encode()).hexdigest()[:12].upper()
