"""When are two spellings the same name, and which name did a person mean?

Case and separators (space, dot, dash, underscore, slash) never tell names apart, except that digits they keep apart
stay apart: `gpt3-1.3b` and `gpt3-13b` are two models, `Llama 3.1 8B`, `llama-3.1-8b` and `llama3_1_8b` one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\s._\-/]+(?=\d)")
_SEPARATORS = re.compile(r"[\s_\-/]+|\.(?!\d)|(?<!\d)\.")


def fold(text: str) -> str:
    """The spelling without case and separators; digits that were apart are joined by a dot.

    >>> fold("Llama 3.1-8B"), fold("vit_base_patch16_224"), fold("GTX 1080 Ti")
    ('llama3.1.8b', 'vitbasepatch16.224', 'gtx1080ti')
    """
    return _SEPARATORS.sub("", _BETWEEN_DIGITS.sub(".", text.strip().casefold()))


def squeeze(key: str) -> str:
    """A folded spelling without its dots: the last resort (`llama38b`), used where it fits one name only."""
    return key.replace(".", "")


_DECIMAL_SIZE = re.compile(r"\d+\.\d+(?=[bm](?![a-z]))")


def same_decimals(text: str, name: str) -> bool:
    """Does the name keep every decimal size that the text states? `1.3b` must never come to mean `13b`.

    >>> same_decimals("mpt-1.3b", "mpt-13b"), same_decimals("GPT3 1.3B", "gpt3-1.3b")
    (False, True)
    """
    return all(size in fold(name) for size in _DECIMAL_SIZE.findall(text.casefold()))


def unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """key -> name for the keys that name one thing only."""
    found: dict[str, str] = {}
    clashing: set[str] = set()
    for key, name in pairs:
        if found.setdefault(key, name) != name:
            clashing.add(key)
    return {key: name for key, name in found.items() if key not in clashing}
