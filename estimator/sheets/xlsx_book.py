"""Which parts does an XLSX workbook have, which of them are dangerous, and what changes besides the sheet itself?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from estimator.sheets.archive import ATTRIBUTES, Archive, checked_text, refuse
from estimator.sheets.markup import pieces, plain

TEXT = re.compile(rf"<(?:[\w.-]+:)?t(?=[\s/>]){ATTRIBUTES}(?:/>|>([^<]*)</(?:[\w.-]+:)?t>)", re.DOTALL)
PHONETIC = re.compile(r"<((?:[\w.-]+:)?)rPh\b.*?</\1rPh>", re.DOTALL)
MACRO_PARTS = ("vbaproject.bin", "vbaprojectsignature.bin", "vbaprojectsignatureagile.bin", "vbaprojectsignaturev3.bin",
               "vbadata.xml")  # fmt: skip
LINKS_OUT = ("xl/externallinks/", "xl/connections.xml", "xl/querytables/", "xl/macrosheets/", "xl/dialogsheets/",
             "xl/activex/", "xl/embeddings/oleobject", "xl/webextensions/", "customui/")  # fmt: skip
WHAT_LINKS = {
    "xl/externallinks/": "links to other workbooks", "xl/connections.xml": "data connections",
    "xl/querytables/": "data queries", "xl/macrosheets/": "Excel 4 macros", "xl/dialogsheets/": "Excel 5 dialogs",
    "xl/activex/": "ActiveX controls", "xl/embeddings/oleobject": "embedded programs",
    "xl/webextensions/": "web add-ins", "customui/": "its own menus",
}  # fmt: skip
DDE = re.compile(r"<(?:[\w.-]+:)?f(?=[\s>])[^>]*>[^<]*(?:\bDDE\s*\(|[\w.]\|(?:'|&apos;)[^<]*!)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Book:
    """The parts of a workbook that matter here."""

    sheets: tuple[tuple[str, str], ...]  # name, part
    epoch_1904: bool
    strings: str | None  # part of the shared texts
    styles: str | None


# --- the parts of the workbook --------------------------------------------------------------------------------------


def book_of(archive: Archive) -> Book:
    """The sheets and their parts; WorkloadError where this is no workbook of Excel."""
    root = (
        next(
            (
                a.get("Target", "")
                for tag, a in archive.elements("_rels/.rels")
                if tag == "Relationship" and a.get("Type", "").endswith("/officeDocument")
            ),
            "",
        ).lstrip("/")
        if "_rels/.rels" in archive.names
        else ""
    )
    if not root or root not in archive.names:
        raise refuse("the file is no Excel workbook")
    folder = PurePosixPath(root).parent
    relations = f"{folder}/_rels/{PurePosixPath(root).name}.rels"
    targets: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for tag, attributes in archive.elements(relations) if relations in archive.names else []:
        if tag == "Relationship" and attributes.get("TargetMode") != "External":
            target = attributes.get("Target", "")
            part = target.lstrip("/") if target.startswith("/") else str(folder / target)
            targets[attributes.get("Id", "")] = part
            kinds.setdefault(attributes.get("Type", "").rpartition("/")[2], part)
    sheets = []
    epoch_1904 = False
    for tag, attributes in archive.elements(root):
        if tag == "sheet":
            sheets.append((attributes.get("name", ""), targets.get(attributes.get("id", ""), "")))
        elif tag == "workbookPr":
            epoch_1904 = attributes.get("date1904", "").casefold() in ("1", "true", "on")
    sheets = [(name, part) for name, part in sheets if part in archive.names and "worksheet" in part.casefold()]
    if not sheets:
        raise refuse("the workbook has no sheet")
    known = {kind: part for kind, part in kinds.items() if part in archive.names}
    return Book(tuple(sheets), epoch_1904, known.get("sharedStrings"), known.get("styles"))


def macros_of(archive: Archive) -> set[str]:
    """The parts that hold programs."""
    return {name for name in archive.names if PurePosixPath(name).name.casefold() in MACRO_PARTS}


def refuse_links(archive: Archive) -> None:
    """WorkloadError where the workbook reaches for other files, services or programs."""
    for name in archive.names:
        for start in LINKS_OUT:
            if name.casefold().startswith(start):
                raise refuse(f"the workbook has {WHAT_LINKS[start]} ({name}); take them out and save it again")
        if name.casefold().endswith(".rels"):
            for tag, attributes in archive.elements(name):
                if tag == "Relationship" and attributes.get("TargetMode") == "External":
                    kind = attributes.get("Type", "").rpartition("/")[2]
                    if kind != "hyperlink":  # of a cell: followed when somebody clicks it
                        raise refuse(f"the workbook has a link to another file ({kind} in {name}); take it out")


def refuse_dde(row: str) -> None:
    """WorkloadError where a formula of a row asks another program."""
    if ("|" in row or "DDE" in row) and DDE.search(row):
        raise refuse("the sheet has formulas that ask other programs (DDE); take them out and save it again")


def shared_texts(archive: Archive, book: Book) -> list[str]:
    """The texts that cells point at, in order."""
    if book.strings is None:
        return []
    texts: list[str] = []
    for piece in pieces(checked_text(archive, book.strings), "si"):
        if piece.row:
            texts.append(text_of(piece.text))
            if len(texts) > archive.limits.cells:
                raise refuse("the workbook has too many texts")
    return texts


def text_of(xml: str) -> str:
    """The text of a shared or inline text, its runs joined, readings of East Asian words left out."""
    if "rPh" in xml:
        xml = PHONETIC.sub("", xml)
    return plain("".join(part or "" for part in TEXT.findall(xml)))


def book_changes(archive: Archive, macros: set[str]) -> dict[str, bytes]:
    """Formulas are calculated anew when the file is opened; what pointed at dropped parts is gone."""
    changed: dict[str, bytes] = {}
    for name in archive.names:
        small = name.casefold()
        if small == "[content_types].xml":
            text = archive.text(name)
            text = re.sub(r"<(?:[\w.-]+:)?Override\b[^>]*/(?:calcChain\.xml|vba\w*\.(?:bin|xml))\"[^>]*/>", "", text)
            text = text.replace("application/vnd.ms-excel.sheet.macroEnabled.main+xml", MAIN_TYPE)
            text = text.replace("application/vnd.ms-excel.template.macroEnabledTemplate.main+xml", MAIN_TYPE)
            changed[name] = text.encode()
        elif small.startswith("xl/_rels/workbook") and small.endswith(".rels"):
            text = archive.text(name)
            text = re.sub(
                r"<(?:[\w.-]+:)?Relationship\b[^>]*\"[^\"]*(?:calcChain\.xml|vbaProject\.bin)\"[^>]*/>", "", text
            )
            changed[name] = text.encode()
        elif small == "xl/workbook.xml":
            changed[name] = _calculated_on_load(archive.text(name)).encode()
        elif macros and small.startswith("xl/_rels/vba"):
            changed[name] = b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"/>'
    return changed


MAIN_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"


def _calculated_on_load(text: str) -> str:
    known = re.search(rf"<((?:[\w.-]+:)?)calcPr(?=[\s/>])({ATTRIBUTES})(/?)>", text, re.DOTALL)
    if known is not None:
        kept = re.sub(r"""\sfullCalcOnLoad\s*=\s*("[^"]*"|'[^']*')""", "", known[2]).rstrip()
        return f'{text[: known.start()]}<{known[1]}calcPr{kept} fullCalcOnLoad="1"{known[3]}>{text[known.end() :]}'
    for tag in ("definedNames", "functionGroups", "sheets"):
        last = re.search(rf"</((?:[\w.-]+:)?){tag}>", text)
        if last is not None:
            return f'{text[: last.end()]}<{last[1]}calcPr fullCalcOnLoad="1"/>{text[last.end() :]}'
    return text
