"""A market that stands still, and a finance analyst's sheet of fourteen runs over two quarters."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.styles import Font, PatternFill
from openpyxl.workbook.defined_name import DefinedName

from estimator.sheets.answers import Answers, Market, market_at
from estimator.sheets.rows import RowFiller
from pricing.offers import current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
HEADER = (
    "Run", "Team", "Quarter", "Model", "Method", "Tokens", "Images", "Epochs", "Seq len", "Precision", "GPU", "GPUs",
    "Market", "Deadline (h)", "Notes",
)  # fmt: skip
RUNS: tuple[tuple[object, ...], ...] = (
    ("support-bot", "NLP", "2027-Q1", "llama3-8b", "lora", "50M", None, 1, 2048, "bf16", "H100", 1, "on-demand", None,
     "first try"),
    ("support-bot-2", "NLP", "2027-Q1", "llama3-8b", "lora", "120M", None, 2, 2048, "bf16", "H100", 1, "spot", 24,
     None),
    ("legal-ft", "NLP", "2027-Q1", "mistral-7b", "full", "200M", None, 1, 4096, "bf16", "8x H100", None, "on-demand",
     None, None),
    ("code-70b", "Code", "2027-Q1", "llama3-70b", "qlora", "80M", None, 1, 2048, "bf16", "H100", 8, "on-demand", 72,
     None),
    ("code-70b-b", "Code", "2027-Q2", "llama3-70b", "lora", "300M", None, 1, 4096, "bf16", "H100:16", None,
     "on-demand", None, None),
    ("vision-a", "Vision", "2027-Q1", "resnet50", "pretrain", None, 1281167, 90, None, "fp16", "A100-80GB", 8, "spot",
     None, None),
    ("vision-b", "Vision", "2027-Q1", "vit-b-16", "pretrain", None, 1281167, 300, None, "bf16", "A100-80GB", 8, None,
     None, None),
    ("vision-c", "Vision", "2027-Q2", "resnet50", "pretrain", None, 1281167, 90, None, "fp32", "V100", 8, "on-demand",
     None, None),
    ("bert-dom", "NLP", "2027-Q2", "bert-large", "pretrain", "2B", None, 1, 512, "fp16", "A100-80GB", 8, "on-demand",
     None, None),
    ("=cmd|' /C calc'!A0", "Red", "2027-Q2", "llama3-8b", "lora", "10M", None, 1, 2048, "bf16", "L4", 1, "on-demand",
     None, None),
    ("typo", "NLP", "2027-Q2", "llama3-8bb", "lora", "10M", None, 1, 2048, "bf16", "H100", 1, "on-demand", None, None),
    ("small-gpu", "NLP", "2027-Q2", "llama3-70b", "full", "10M", None, 1, 2048, "fp16", "T4", 1, "on-demand", None,
     None),
    ("base-7b", "Core", "2027-Q2", "llama2-7b", "pretrain", "100B", None, 1, 4096, "bf16", "H100", 64, "on-demand",
     None, None),
    ("embed", "Core", "2027-Q2", "bert-base", "full", "200M", None, 1, 256, "fp16", "T4", 4, "spot", None, None),
)  # fmt: skip


@pytest.fixture(scope="session")
def market() -> Market:
    return market_at(current_offers(now=NOW), NOW)


@pytest.fixture(scope="session")
def answers() -> Answers:
    """Shared by the session: the same questions are asked by many tests."""
    return Answers()


@pytest.fixture
def filler(market: Market, answers: Answers) -> RowFiller:
    return RowFiller(market, answers)


@pytest.fixture(scope="session")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sheet as the analyst keeps it: title, colours, a comment, sums, a second sheet with a chart and a name."""
    path = tmp_path_factory.mktemp("sheets") / "budget.xlsx"
    book = openpyxl.Workbook()
    runs = book.active
    assert runs is not None
    runs.title = "Runs"
    runs["A1"] = "GPU budget Q1-Q2 2027"
    runs["A1"].font = Font(bold=True, size=14)
    for column, title in enumerate(HEADER, start=1):
        cell = runs.cell(3, column, title)
        cell.font = Font(bold=True, color="FFFFFF")
        cell.fill = PatternFill("solid", fgColor="1F4E78")
    for row, run in enumerate(RUNS, start=4):
        for column, value in enumerate(run, start=1):
            cell = runs.cell(row, column, value)  # type: ignore[arg-type]
            if isinstance(value, str):
                cell.data_type = "s"
    runs["F4"].comment = Comment("counted with our tokenizer", "Ana")
    runs["A19"], runs["H19"] = "Total", "=SUM(H4:H17)"
    runs.freeze_panes = "A4"
    runs.auto_filter.ref = "A3:O17"
    budget = book.create_sheet("Budget")
    for row, line in enumerate([("Team", "USD"), ("NLP", 2000), ("Code", 3000), ("Total", "=SUM(B2:B3)")], start=1):
        budget.cell(row, 1, line[0])
        budget.cell(row, 2, line[1])
    chart = BarChart()
    chart.add_data(Reference(budget, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    budget.add_chart(chart, "D2")
    book.defined_names["planned"] = DefinedName("planned", attr_text="Budget!$B$4")
    book.save(path)
    return path


Office = Callable[[Path, str], Path]
ManyOffice = Callable[[list[Path], str], dict[str, Path]]


@pytest.fixture(scope="session")
def many_office(tmp_path_factory: pytest.TempPathFactory) -> ManyOffice:
    """LibreOffice opens files and saves them in another format, in one start; gives the new files by name."""
    if shutil.which("soffice") is None:
        pytest.skip("needs LibreOffice (Debian package libreoffice-calc)")
    profile = tmp_path_factory.mktemp("office")

    def convert(paths: list[Path], ending: str) -> dict[str, Path]:
        folder = Path(tempfile.mkdtemp(dir=profile))
        done = subprocess.run(
            ["soffice", f"-env:UserInstallation=file://{profile}/profile", "--headless", "--convert-to", ending,
             "--outdir", str(folder), *map(str, paths)],
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        found = {path.stem: path for path in folder.iterdir()}
        assert len(found) == len(paths), f"{done.stdout}\n{done.stderr}"
        return found

    return convert


@pytest.fixture(scope="session")
def office(many_office: ManyOffice) -> Office:
    """The same for one file."""
    return lambda path, ending: many_office([path], ending)[path.stem]


def parts(data: bytes) -> dict[str, bytes]:
    """A workbook as its parts."""
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        return {name: book.read(name) for name in book.namelist()}


def packed(content: dict[str, bytes]) -> bytes:
    """The parts as a workbook."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as book:
        for name, data in content.items():
            book.writestr(name, data)
    return out.getvalue()
