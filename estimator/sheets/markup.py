"""Where are the rows of a sheet in its XML? The text in pieces: what is passed on as it is, and each row by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape, unescape

from estimator.sheets.archive import refuse

LONGEST_ROW = 16 * 2**20
_QUOTES = {"&quot;": '"', "&apos;": "'"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text: one whole row, or what stands between rows."""

    text: str
    row: bool


def pieces(text: Iterable[str], tag: str) -> Iterator[Piece]:
    """Cut well-formed XML at its rows (`tag`: `row` with any prefix, or `table:table-row`); joined it is the same."""
    prefix = "" if ":" in tag else r"(?:[\w.-]+:)?"
    opening = re.compile(rf"<({prefix}{tag})(?=[\s/>])(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>")
    longest = len(tag) + 200
    waiting = ""
    for more in text:
        waiting += more
        place = 0
        while (start := opening.search(waiting, place)) is not None:
            if start[0].endswith("/>"):
                end = start.end()
            else:
                closing = f"</{start[1]}>"
                end = waiting.find(closing, start.end())
                if end < 0:
                    if len(waiting) - start.start() > LONGEST_ROW:
                        raise refuse("a row of the sheet has no end")
                    break
                end += len(closing)
            if start.start() > place:
                yield Piece(waiting[place : start.start()], row=False)
            yield Piece(waiting[start.start() : end], row=True)
            place = end
        waiting = waiting[place:]
        if start is None and len(waiting) > longest:  # a row may begin in the last characters: keep them
            cut = waiting.rfind("<", 0, None)
            cut = cut if cut >= 0 else len(waiting)
            if cut:
                yield Piece(waiting[:cut], row=False)
            waiting = waiting[cut:]
    if waiting:
        yield Piece(waiting, row=False)


def plain(text: str) -> str:
    """Character data without entities; numeric references too."""
    if "&" not in text:
        return text
    text = re.sub(r"&#(?:x([0-9a-fA-F]{1,6})|(\d{1,7}));", _character, text)
    return unescape(text, _QUOTES)


def _character(match: re.Match[str]) -> str:
    number = int(match[1], 16) if match[1] else int(match[2])
    return chr(number) if 0 < number < 0x110000 else ""


def content(text: str) -> str:
    """Text as character data of XML 1.0: escaped, without characters that XML cannot hold."""
    return escape(
        "".join(c for c in text if c in "\t\n\r" or " " <= c < "\ud800" or "\ue000" <= c < "\ufffe" or c > "\uffff")
    )
