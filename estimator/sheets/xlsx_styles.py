"""How does a result look in somebody's workbook? Like the cells beside it, with the number format of a result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from estimator.sheets.archive import ATTRIBUTES, Archive, attributes_of
from estimator.sheets.markup import content, plain

FORMATS = {"number": "#,##0.00", "date": "yyyy-mm-dd", "text": "General"}
BUILT_IN = {"General": 0, "#,##0.00": 4}  # formats that every program knows by number
DATES, TIMES = frozenset((14, 15, 16, 17, 22)), frozenset((18, 19, 20, 21, 45, 46, 47))
MOST_STYLES = 4_000  # of a result; beyond that results look plain
XF = re.compile(rf"<((?:[\w.-]+:)?)xf(?=[\s/>])({ATTRIBUTES})(?:/>|>(.*?)</\1xf>)", re.DOTALL)
ONE_LINE = re.compile(r"""\s(?:wrapText|textRotation|indent|shrinkToFit)\s*=\s*("[^"]*"|'[^']*')""")
ALIGNMENT = re.compile(r"<(?:[\w.-]+:)?alignment(?=[\s/>])[^<>]*(?:/>|></(?:[\w.-]+:)?alignment>)")
LISTED = re.compile(rf"<(?:[\w.-]+:)?numFmt(?=\s)({ATTRIBUTES})/?>", re.DOTALL)
LITERALS = re.compile(r"\"[^\"]*\"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Styles:
    """The cell formats of a workbook, with those of results behind them."""

    shown: Mapping[str, str] = field(default_factory=dict)  # number of a format -> `date` or `time`
    result: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (format beside, kind) -> format of a result
    general: frozenset[str] = frozenset()  # formats without a number format
    part: bytes | None = None  # the changed part; None: it stays as it is

    def of(self, kind: str, *, beside: str = "0", own: str | None = None) -> str | None:
        """The format of a result of a kind of `FORMATS`: like the cell beside, or the one that the cell has already.

        What a person made of a result column stays; only what has no number format of its own gets ours.
        """
        if own is not None:
            return self.result.get((own, kind), own) if own in self.general and kind != "text" else own
        return self.result.get((beside, kind), self.result.get(("0", kind)))


@dataclass(frozen=True, slots=True)
class _Format:
    prefix: str
    attributes: str
    inner: str | None
    number: int  # of its number format
    xml: str


def styles_of(archive: Archive, part: str | None, looks: Iterable[tuple[str, str]]) -> Styles:
    """The styles of a workbook with the formats that results of a kind beside cells of a format need."""
    if part is None:
        return Styles()
    text = archive.text(part)
    archive.elements(part)  # well formed and without entities
    block = re.search(rf"<((?:[\w.-]+:)?)cellXfs(?=[\s>])({ATTRIBUTES})>(.*?)</\1cellXfs>", text, re.DOTALL)
    if block is None:
        return Styles()
    codes = {
        int(a["numFmtId"]): plain(a.get("formatCode", ""))
        for m in LISTED.finditer(text)
        if (a := attributes_of(m[1])).get("numFmtId", "").isdigit()
    }
    formats = [
        _Format(m[1], m[2], m[3], int(n) if (n := attributes_of(m[2]).get("numFmtId", "0")).isdigit() else 0, m[0])
        for m in XF.finditer(block[3])
    ]
    shown = {str(n): kind for n, f in enumerate(formats) if (kind := shown_as(f.number, codes.get(f.number, "")))}
    plain_looks = {("0", kind) for kind in FORMATS}
    wanted = sorted(plain_looks | {*looks}, key=lambda look: (len(look[0]), look))
    if len(wanted) > MOST_STYLES:
        wanted = sorted(plain_looks)
    return _with_results(text, block, formats, codes, wanted, shown, block[1])


def shown_as(number: int, code: str) -> str:
    """`date`, `time` or "" for a number format by its number and code.

    >>> shown_as(14, ""), shown_as(164, "[h]:mm"), shown_as(165, '0.00" hours"'), shown_as(166, "dd.mm.yyyy hh:mm")
    ('date', 'time', '', 'date')
    """
    if number in DATES or number in TIMES:
        return "date" if number in DATES else "time"
    marks = LITERALS.sub("", code.partition(";")[0]).casefold()
    if "general" in marks or "y" in marks or "d" in marks:
        return "date" if "general" not in marks else ""
    return "time" if "h" in marks or "[m" in marks or "ss" in marks else ""


def _with_results(
    text: str,
    block: re.Match[str],
    formats: list[_Format],
    codes: Mapping[int, str],
    wanted: list[tuple[str, str]],
    shown: Mapping[str, str],
    prefix: str,
) -> Styles:
    """Formats of results at the end of the list, each once; those of an earlier filling are found again."""
    numbers = {code: n for n, code in codes.items()} | BUILT_IN
    free = max([163, *codes, *(f.number for f in formats)]) + 1
    new = [code for code in FORMATS.values() if code not in numbers]
    numbers |= {code: free + n for n, code in enumerate(new)}
    places = {f.xml: str(n) for n, f in reversed(list(enumerate(formats)))}
    added: list[str] = []
    result: dict[tuple[str, str], str] = {}
    general = frozenset(str(n) for n, f in enumerate(formats) if f.number == 0)
    for beside, kind in wanted:
        if not beside.isdigit() or int(beside) >= len(formats):
            continue
        xf = _written(formats[int(beside)], numbers[FORMATS[kind]], text=kind == "text")
        if xf not in places:
            places[xf] = str(len(formats) + len(added))
            added.append(xf)
        result[beside, kind] = places[xf]
    if not added:
        return Styles(shown, result, general)
    end = block.end(3)
    opening = re.sub(r'\scount\s*=\s*"\d+"', f' count="{len(formats) + len(added)}"', block[2])
    text = f"{text[: block.start()]}<{prefix}cellXfs{opening}>{block[3]}{''.join(added)}{text[end:]}"
    return Styles(shown, result, general, _declared(text, prefix, {numbers[code]: code for code in new}).encode())


def _written(base: _Format, number: int, *, text: bool = False) -> str:
    """A format with another number format, on one line; texts keep away from the figures before them."""
    attributes = re.sub(
        r"""\s(?:numFmtId|applyNumberFormat|quotePrefix)\s*=\s*("[^"]*"|'[^']*')""", "", base.attributes
    )
    inner = ONE_LINE.sub("", base.inner or "")  # long results must not make the rows tall
    if text:
        attributes = re.sub(r"""\sapplyAlignment\s*=\s*("[^"]*"|'[^']*')""", "", attributes)
        attributes += ' applyAlignment="1"'
        vertical = re.search(r"""\svertical\s*=\s*("[^"]*"|'[^']*')""", inner)
        aligned = f'<{base.prefix}alignment horizontal="left"{vertical[0] if vertical else ""} indent="1"/>'
        inner = aligned + ALIGNMENT.sub("", inner)
    start = f'<{base.prefix}xf numFmtId="{number}"{attributes.rstrip()} applyNumberFormat="1"'
    return f"{start}>{inner}</{base.prefix}xf>" if inner else f"{start}/>"


def _declared(text: str, prefix: str, new: Mapping[int, str]) -> str:
    """The part with new number formats in their list."""
    if not new:
        return text
    declared = "".join(f'<{prefix}numFmt numFmtId="{n}" formatCode="{content(code)}"/>' for n, code in new.items())
    text = re.sub(rf"<{prefix}numFmts(?=[\s/])[^<>]*/>", "", text)  # an empty list
    known = re.search(rf"<{prefix}numFmts(?=[\s>]){ATTRIBUTES}>(.*?)</{prefix}numFmts>", text, re.DOTALL)
    if known is not None:
        count = len(re.findall(rf"<{prefix}numFmt(?=[\s/>])", known[1])) + len(new)
        whole = f'<{prefix}numFmts count="{count}">{known[1]}{declared}</{prefix}numFmts>'
        return text[: known.start()] + whole + text[known.end() :]
    root = re.search(rf"<{prefix}styleSheet(?=[\s>]){ATTRIBUTES}>", text, re.DOTALL)
    if root is None:
        return text
    whole = f'<{prefix}numFmts count="{len(new)}">{declared}</{prefix}numFmts>'
    return text[: root.end()] + whole + text[root.end() :]
