"""Can a name that somebody typed run as a formula? Not after this: text is made plain before it goes into a sheet."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

LEADERS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet read a cell as a formula; the wide forms count in East Asian locales."""

NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|\.\d+)([eE][+-]?\d+)?%?")
INVISIBLE = re.compile("^[ \\u00a0\\u00ad\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u2064\\u3000\\ufeff]+")
"""What a program may leave out in front of a text: a second byte order mark, wide and empty spaces."""
CONTROLS = dict.fromkeys(c for c in range(32) if chr(c) not in "\t\r\n")
BOM = "\ufeff"


def neutral(text: str) -> str:
    """The text with an apostrophe in front where a spreadsheet would take it for a formula; numbers stay numbers.

    >>> neutral("=HYPERLINK(A1)"), neutral("-12.5"), neutral("llama3-8b")
    ("'=HYPERLINK(A1)", '-12.5', 'llama3-8b')
    """
    text = text.translate(CONTROLS)
    before = INVISIBLE.match(text)
    if not text.startswith(LEADERS, before.end() if before else 0) or NUMBER.fullmatch(text):
        return text
    return "'" + text


SEPARATORS = ",;\t|\r\n"
"""What may end a cell where a file is opened as another kind of CSV than it is: quotes do not protect there."""
HIDING = INVISIBLE.pattern[2:-2] + '"'  # what may stand in front of a formula without showing
BULLET = re.compile(r"[-+] [^=(|!]*")  # a line of a list; without these signs no formula does anything


@cache
def _inner(delimiter: str) -> re.Pattern[str]:
    """A separator, other than the file's own, and the text behind it where that begins like a formula."""
    others = re.escape(SEPARATORS.replace(delimiter, ""))
    leaders = re.escape("".join(LEADERS).translate(dict.fromkeys(map(ord, SEPARATORS))))
    hiding = HIDING + ("\t" if delimiter == "\t" else "")
    return re.compile(f"([{others}])([{hiding}]*[{leaders}][^{others}]*)")


def csv_cell(text: str, delimiter: str = ",") -> str:
    """The text as a cell of a CSV: no part of it runs as a formula, whichever separator the file is opened with.

    >>> csv_cell("a;=cmd"), csv_cell("range: 1;-2"), csv_cell("a,=b", ";")
    ("a;'=cmd", 'range: 1;-2', "a,'=b")
    """

    def told(found: re.Match[str]) -> str:
        shown = re.sub(f"^[{HIDING}\t]+", "", found[2]).rstrip('" ')
        return found[0] if NUMBER.fullmatch(shown) or BULLET.fullmatch(shown) else f"{found[1]}'{found[2]}"

    return _inner(delimiter).sub(told, neutral(text))


def csv_lines(rows: Iterable[Sequence[str]], *, bom: bool = False) -> Iterator[str]:
    """Rows as RFC 4180 lines (CRLF), each cell made plain; with a byte order mark for Excel when asked."""
    if bom:
        yield BOM
    line = _Line()
    writer = csv.writer(line, lineterminator="\r\n")
    for row in rows:
        writer.writerow([csv_cell(cell) for cell in row])
        yield line.text


class _Line:
    """What the CSV writer wrote last."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text
