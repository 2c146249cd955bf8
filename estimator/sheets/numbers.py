"""Which number did somebody type into a sheet: `50 000 000`, `50.000.000`, `1,5`, `0,05B`, `50 Mio`?

The request reads numbers with a decimal point. Sheets come from everywhere, so groups and decimal commas are
understood where they can mean one thing only; what could be two numbers is asked, not guessed.
"""

from __future__ import annotations

import re

from benchmarks_db.errors import WorkloadError

WHOLE = frozenset({"tokens", "samples", "images", "seq_len", "global_batch", "micro_batch"})
NUMBERS = WHOLE | {"epochs", "image_size", "gpus", "deadline", "budget"}
SCALES = {"tsd": "K", "mio": "M", "mill": "M", "mrd": "B", "mia": "B"}  # German; the others are the request's
SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "\u2032": "'"})
TYPED = re.compile(r"(?P<before>[^\d]*?)(?P<number>\d[\d.,' ]*\d|\d)(?P<behind>[^\d].*|)", re.DOTALL)
GROUPED = re.compile(r"\d{1,3}([ '])\d{3}(?:\1\d{3})*(?P<decimals>[.,]\d+)?")
POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}")
DECIMAL_COMMA = re.compile(r"0,\d+|\d+,(?:\d{1,2}|\d{4,})")
UNCLEAR = re.compile(r"[1-9]\d{0,2}\.\d{3}")


def as_number(key: str, text: str) -> str:
    """The cell as the request reads it; cells of other keys as they are.

    Raises WorkloadError for a whole number whose one point may be a decimal point or stand between groups.

    >>> [as_number("tokens", t) for t in ("50 000 000", "50.000.000", "0,05B", "50 Mio", "50,000,000", "50M")]
    ['50000000', '50000000', '0.05B', '50M', '50,000,000', '50M']
    >>> as_number("epochs", "1,5"), as_number("budget", "$1.000,50"), as_number("model", "gpt-2")
    ('1.5', '$1000.50', 'gpt-2')
    """
    if key not in NUMBERS:
        return text
    found = TYPED.fullmatch(text.translate(SPACES))
    if found is None:
        return text
    number, behind = found["number"], found["behind"]
    word = behind.strip(" .").casefold()
    if word in SCALES:
        behind = SCALES[word]
    elif key in WHOLE and not behind.strip() and UNCLEAR.fullmatch(number):
        whole, small = number.replace(".", ""), f"{float(number):g}"
        raise WorkloadError(f"{text!r} could be {whole} or {small}; write one of them", field=key, value=text)
    return f"{found['before']}{_with_point(number)}{behind}"


def _with_point(number: str) -> str:
    if GROUPED.fullmatch(number):
        return number.replace(" ", "").replace("'", "").replace(",", ".")
    if POINTS.fullmatch(number):
        return number.replace(".", "").replace(",", ".")
    return number.replace(",", ".") if DECIMAL_COMMA.fullmatch(number) else number
