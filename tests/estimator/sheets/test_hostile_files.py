"""Whatever file is handed in, the answer is a filled sheet or one clear sentence; nothing dangerous passes through."""

from __future__ import annotations

import io
import random
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.sheets.answers import Answers, Market
from estimator.sheets.archive import Limits
from estimator.sheets.fill import fill_bytes, fill_file
from estimator.sheets.options import FillOptions
from estimator.sheets.output import whole_file
from estimator.sheets.rows import RowFiller
from estimator.sheets.template import template_workbook

from .conftest import packed, parts

Change = Callable[[dict[str, bytes]], None]
ODS_MIME = b"application/vnd.oasis.opendocument.spreadsheet"
ODS_CONTENT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" xmlns:xlink="l" xmlns:style="s"
 xmlns:number="n" office:version="1.3">%s<office:automatic-styles/><office:body><office:spreadsheet>
<table:table table:name="Runs"><table:table-row><table:table-cell office:value-type="string"><text:p>model</text:p>
</table:table-cell><table:table-cell office:value-type="string"><text:p>images</text:p></table:table-cell>
<table:table-cell table:number-columns-repeated="1022"/></table:table-row><table:table-row
 table:number-rows-repeated="%s"><table:table-cell office:value-type="string"><text:p>resnet50</text:p>
</table:table-cell><table:table-cell office:value-type="float" office:value="1000"><text:p>1000</text:p>
</table:table-cell><table:table-cell table:number-columns-repeated="1022"/></table:table-row></table:table>%s
</office:spreadsheet></office:body></office:document-content>"""


def ods(before: str = "", repeat: str = "1", after: str = "", **more: bytes) -> bytes:
    content = (ODS_CONTENT % (before, repeat, after)).encode()
    return packed({"mimetype": ODS_MIME, "content.xml": content, **more})


def run(kind: str, data: bytes, market: Market, answers: Answers, limits: Limits | None = None) -> bytes:
    options = FillOptions(limits=limits or Limits())
    return fill_bytes(kind, data, options, RowFiller(market, answers))[0]


def changed(workbook: Path, change: Change) -> bytes:
    content = parts(workbook.read_bytes())
    change(content)
    return packed(content)


def add(name: str, data: bytes = b"<x/>") -> Change:
    def change(content: dict[str, bytes]) -> None:
        content[name] = data

    return change


def edit(name: str, old: bytes, new: bytes) -> Change:
    def change(content: dict[str, bytes]) -> None:
        assert old in content[name]
        content[name] = content[name].replace(old, new, 1)

    return change


SHEET = "xl/worksheets/sheet1.xml"
OUTSIDE = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    b'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" TargetMode="External" '
    b'Target="http://192.0.2.1/pixel.png"/></Relationships>'
)
BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add("xl/externalLinks/externalLink1.xml"), "links to other workbooks"),
        (add("xl/connections.xml"), "data connections"),
        (add("xl/macrosheets/sheet9.xml"), "Excel 4 macros"),
        (add("xl/activeX/activeX1.bin"), "ActiveX"),
        (add("../../etc/cron.d/x"), "leads out of the file"),
        (add("xl/media/zeros.bin", bytes(30_000_000)), "times its size"),
        (edit(SHEET, b"<sheetData>", b"<!DOCTYPE x><sheetData>"), "no XML"),
        (edit("xl/workbook.xml", b"<workbook", BOMB + b"<workbook"), "document type"),
        (edit("xl/styles.xml", b"<styleSheet", BOMB + b"<styleSheet"), "document type"),
        (edit("xl/worksheets/sheet2.xml", b"<worksheet", BOMB + b"<worksheet"), "document type"),
        (edit("xl/styles.xml", b"<fonts", b"<a>" * 200 + b"<fonts"), "deep"),
        (edit(SHEET, b"</sheetData>", b""), "no XML"),
        (edit(SHEET, b"<f>SUM(H4:H17)</f>", b"<f>cmd|' /C calc'!A0</f>"), "DDE"),
        (edit(SHEET, b"<f>SUM(H4:H17)</f>", b'<f>DDE("soffice","x","y")</f>'), "DDE"),
        (add("xl/drawings/_rels/drawing9.xml.rels", OUTSIDE), "link to another file"),
        (edit(SHEET, b'<c r="A4"', b'<c r="!!"'), "is no cell"),
        (lambda content: content.pop("xl/workbook.xml"), "no Excel workbook"),
    ],
)  # fmt: skip
def test_a_dangerous_or_broken_workbook_is_refused_in_words(
    workbook: Path, market: Market, answers: Answers, change: Change, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        run("xlsx", changed(workbook, change), market, answers)


SHARED = "xl/sharedStrings.xml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"<sst", b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><sst', "document type"),
        (b"<si>", b"<xx>", "no XML"),
        (b"<si><t>model</t></si>", b"", "points at a text"),
    ],
)
def test_shared_texts_are_read_with_care(
    old: bytes, new: bytes, message: str, market: Market, answers: Answers
) -> None:
    content = parts(template_workbook())
    assert old in content[SHARED]
    content[SHARED] = content[SHARED].replace(old, new, 1)
    with pytest.raises(WorkloadError, match=message):
        run("xlsx", packed(content), market, answers)


def test_macros_are_left_out_and_that_is_said(workbook: Path, market: Market, answers: Answers) -> None:
    macro_type = b"application/vnd.ms-excel.sheet.macroEnabled.main+xml"
    plain_type = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"

    def change(content: dict[str, bytes]) -> None:
        content["xl/vbaProject.bin"] = b"code"
        types = content["[Content_Types].xml"].replace(plain_type, macro_type)
        part = b'<Override PartName="/xl/vbaProject.bin" ContentType="application/vnd.ms-office.vbaProject"/>'
        content["[Content_Types].xml"] = types.replace(b"</Types>", part + b"</Types>")
        link = b'<Relationship Id="rId99" Type="http://schemas.microsoft.com/office/2006/relationships/vbaProject" '
        link += b'Target="vbaProject.bin"/></Relationships>'
        content["xl/_rels/workbook.xml.rels"] = content["xl/_rels/workbook.xml.rels"].replace(b"</Relationships>", link)

    out, report = fill_bytes("xlsx", changed(workbook, change), FillOptions(), RowFiller(market, answers))
    assert report.notes == ("macros of the file were left out",)
    assert b"vba" not in b"".join(
        parts(out)[name].lower() for name in ("[Content_Types].xml", "xl/_rels/workbook.xml.rels")
    )
    assert macro_type not in parts(out)["[Content_Types].xml"]
    assert not [name for name in parts(out) if "vba" in name.lower()]


@pytest.mark.parametrize("kind", ["xlsx", "ods"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no whole workbook"),
        (b"PK\x03\x04 half of a", "no whole workbook"),
        (b"\xd0\xcf\x11\xe0" + bytes(512), "password"),
        (b"name,model\n", "no whole workbook"),
    ],
)
def test_what_is_no_workbook_is_said_so(kind: str, data: bytes, message: str, market: Market, answers: Answers) -> None:
    with pytest.raises(WorkloadError, match=message):
        run(kind, data, market, answers)


def test_a_file_cut_off_in_the_middle_is_said_so(workbook: Path, market: Market, answers: Answers) -> None:
    whole = workbook.read_bytes()
    for length in (len(whole) // 4, len(whole) // 2, len(whole) - 10):
        with pytest.raises(WorkloadError, match="half written"):
            run("xlsx", whole[:length], market, answers)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(file_bytes=1000), "bytes"),
        (Limits(unpacked_bytes=1000), "unpacks"),
        (Limits(entries=3), "parts"),
        (Limits(cells=50), "more than 50 cells"),
    ],
)
def test_limits_hold(workbook: Path, market: Market, answers: Answers, limits: Limits, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        run("xlsx", workbook.read_bytes(), market, answers, limits)


def test_more_rows_than_a_server_answers_are_refused(workbook: Path, market: Market, answers: Answers) -> None:
    with pytest.raises(WorkloadError, match="more than 5 rows"):
        fill_bytes("xlsx", workbook.read_bytes(), FillOptions(), RowFiller(market, answers, most_rows=5))


# --- OpenDocument ---------------------------------------------------------------------------------------------------


def test_a_small_document_is_filled(market: Market, answers: Answers) -> None:
    content = parts(run("ods", ods(), market, answers))["content.xml"].decode()
    assert content.count('office:value-type="float"') > 5
    assert 'table:number-columns-repeated="1006"' in content  # 1022 - 16 results
    assert "plan-date" in content


def test_rows_repeated_a_million_times_cost_no_memory(market: Market, answers: Answers) -> None:
    assert len(run("ods", ods(repeat="1048576"), market, answers)) < 10_000


FORMULA = (
    '<table:table table:name="z"><table:table-row>'
    '<table:table-cell table:formula="%s"/></table:table-row></table:table>'
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (ods(before='<!DOCTYPE x [<!ENTITY a "b">]>'), "no XML"),
        (packed({"mimetype": ODS_MIME, "content.xml": BOMB + b"<x/>"}), "document type"),
        (ods(after='<table:table table:name="y"><table:table-source xlink:href="file:///etc/passwd"/></table:table>'),
         "linked to other files"),
        (ods(after="<office:dde-source/>"), "DDE"),
        (ods(after=FORMULA % "of:=['file:///etc/passwd'#$Sheet1.A1]"), "other files or programs"),
        (ods(after=FORMULA % "of:=DDE(&quot;soffice&quot;;1;2)"), "other files or programs"),
        (packed({"mimetype": b"application/vnd.oasis.opendocument.text", "content.xml": b"<x/>"}), "no OpenDocument"),
        (packed({"mimetype": ODS_MIME}), "no OpenDocument"),
        (packed({"mimetype": ODS_MIME, "META-INF/manifest.xml": b"<manifest:encryption-data/>"}), "password"),
        (ods().replace(b"PK\x03\x04", b"PK\x03\x05", 1), "damaged|no whole"),
    ],
)  # fmt: skip
def test_a_dangerous_or_broken_document_is_refused_in_words(
    data: bytes, message: str, market: Market, answers: Answers
) -> None:
    with pytest.raises(WorkloadError, match=message):
        run("ods", data, market, answers)


def test_macros_of_a_document_are_left_out(market: Market, answers: Answers) -> None:
    scripts = "<office:scripts><office:event-listeners><x/></office:event-listeners></office:scripts>"
    data = ods(before=scripts)
    content = parts(data) | {"Basic/Standard/Module1.xml": b"<x/>", "Scripts/python/x.py": b"import os"}
    out, report = fill_bytes("ods", packed(content), FillOptions(), RowFiller(market, answers))
    assert report.notes
    assert not [name for name in parts(out) if name.startswith(("Basic", "Scripts"))]
    assert b"office:scripts" not in parts(out)["content.xml"]


# --- fuzz -----------------------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@FUZZ
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["xlsx", "ods"]), inside=st.booleans())
def test_a_damaged_workbook_never_crashes(seed: int, kind: str, inside: bool, market: Market, answers: Answers) -> None:
    chance = random.Random(seed)
    data = template_workbook() if kind == "xlsx" else ods()
    if inside:  # a well-formed zip around damaged parts
        content = parts(data)
        name = (
            chance.choice([SHEET, "xl/sharedStrings.xml", "xl/styles.xml", "xl/workbook.xml"])
            if kind == "xlsx"
            else "content.xml"
        )
        content[name] = _damaged(content[name], chance)
        data = packed(content)
    else:
        data = _damaged(data, chance)
    try:
        out = run(kind, data, market, answers)
    except WorkloadError:
        return
    assert zipfile.ZipFile(io.BytesIO(out)).testzip() is None


@FUZZ
@given(
    data=st.binary(max_size=300) | st.text(max_size=300).map(lambda t: f"model,tokens\n{t}".encode("utf-8", "replace"))
)
def test_any_bytes_as_a_csv_never_crash(data: bytes, market: Market, answers: Answers) -> None:
    with suppress(WorkloadError):
        run("csv", data, market, answers)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, a stretch cut out, doubled, or filled with markup."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place, length = chance.randrange(len(found)), chance.randrange(1, 40)
        piece = bytes(found[place : place + length])
        found[place : place + length] = chance.choice(
            [
                b"",
                piece * 2,
                chance.randbytes(length),
                b"<row><c t='s'><v>99999</v></c></row>",
                b"&lol;",
                b'r="ZZZ1"',
                b">",
            ]
        )
    return bytes(found)


# --- the file that is written ---------------------------------------------------------------------------------------


def test_a_file_that_is_open_in_a_spreadsheet_program_is_left_alone(
    workbook: Path, filler: RowFiller, tmp_path: Path
) -> None:
    target = tmp_path / "plan.xlsx"
    target.write_bytes(b"mine")
    for lock in (".~lock.plan.xlsx#", "~$plan.xlsx"):
        (tmp_path / lock).touch()
        with pytest.raises(WorkloadError, match="is open in a spreadsheet program"):
            fill_file(workbook, target, FillOptions(), filler)
        (tmp_path / lock).unlink()
    assert target.read_bytes() == b"mine"


def test_a_failure_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    target = tmp_path / "plan.xlsx"
    target.write_bytes(b"before")
    file = ExitStack()
    file.enter_context(whole_file(target)).write(b"half")
    with pytest.raises(RuntimeError, match="stopped"), file:
        raise RuntimeError("stopped")
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_place_that_cannot_be_written_is_said_so(workbook: Path, filler: RowFiller, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be written"):
        fill_file(workbook, tmp_path / "no" / "plan.xlsx", FillOptions(), filler)


@pytest.mark.parametrize(("name", "near"), [("plan.csv", "plan.xlsx"), ("plan.xlsm", "plan.xlsx")])
def test_the_kind_of_file_does_not_change_on_the_way(
    workbook: Path, filler: RowFiller, tmp_path: Path, name: str, near: str
) -> None:
    with pytest.raises(WorkloadError, match=near):
        fill_file(workbook, tmp_path / name, FillOptions(), filler)


def test_a_sheet_can_be_filled_in_place(workbook: Path, filler: RowFiller, tmp_path: Path) -> None:
    path = tmp_path / "own.xlsx"
    path.write_bytes(workbook.read_bytes())
    assert fill_file(path, path, FillOptions(), filler).rows == 14
    assert [p.name for p in tmp_path.iterdir()] == ["own.xlsx"]


def test_a_link_is_written_through_and_a_protected_file_is_left_alone(
    workbook: Path, filler: RowFiller, tmp_path: Path
) -> None:
    real, link = tmp_path / "real.xlsx", tmp_path / "link.xlsx"
    link.symlink_to(real)
    fill_file(workbook, link, FillOptions(), filler)
    assert link.is_symlink()
    assert zipfile.is_zipfile(real)
    real.chmod(0o444)
    with pytest.raises(WorkloadError, match="write-protected"):
        fill_file(workbook, link, FillOptions(), filler)


def test_a_process_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "plan.xlsx"
    target.write_bytes(b"mine")
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom estimator.sheets.output import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as file:\n    file.write(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"mine"
