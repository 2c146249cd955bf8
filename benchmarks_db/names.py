"""When are two spellings the same name? Case, spaces, dots, dashes and underscores never tell names apart."""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[\s._\-/]+")


def fold(text: str) -> str:
    """The spelling without case and separators.

    >>> fold("Llama 3.1-8B"), fold("vit_base_patch16_224")
    ('llama318b', 'vitbasepatch16224')
    """
    return _SEPARATORS.sub("", text.strip().casefold())
