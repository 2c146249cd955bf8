"""What does a person start from who has no sheet yet? A workbook with the columns that are read and an example each."""

from __future__ import annotations

import io
from typing import Any

from benchmarks_db.errors import WorkloadError
from estimator.sheets.columns import RESULTS, SYNONYMS, UNITS
from estimator.terms import Method, Precision
from pricing.market import Market

COLUMNS = (
    "name", "team", "quarter", "model", "method", "tokens", "samples", "images", "epochs", "seq_len", "image_size",
    "precision", "global_batch", "gpu", "gpus", "cloud", "region", "market", "deadline", "budget",
)  # fmt: skip
EXAMPLES: tuple[dict[str, Any], ...] = (
    {"name": "support bot", "team": "NLP", "quarter": "2027-Q1", "model": "llama3-8b", "method": "lora",
     "tokens": "50M", "epochs": 1, "seq_len": 2048, "precision": "bf16", "gpu": "H100", "gpus": 1,
     "market": "on-demand"},
    {"name": "code model", "team": "NLP", "quarter": "2027-Q1", "model": "llama3-70b", "method": "qlora",
     "tokens": "80M", "epochs": 1, "seq_len": 2048, "precision": "bf16", "global_batch": 64, "gpu": "H100", "gpus": 8,
     "cloud": "aws", "market": "on-demand", "deadline": "72h"},
    {"name": "image classes", "team": "Vision", "quarter": "2027-Q2", "model": "resnet50", "method": "pretrain",
     "images": 1281167, "epochs": 90, "image_size": 224, "precision": "fp16", "market": "spot", "budget": 200},
)  # fmt: skip
HELP = {
    "name": "What you call the run; not read.",
    "team": "Whose it is; not read.",
    "quarter": "When; not read.",
    "model": "A model by name: llama3-8b, resnet50. `estimator models` lists them.",
    "method": "pretrain, full, lora or qlora.",
    "tokens": "Size of the data set in tokens: 50M, 1.5T. Or samples, or images: one of the three.",
    "samples": "Size of the data set in samples.",
    "images": "Size of the data set in images.",
    "epochs": "Passes over the data set; 1 unless given.",
    "seq_len": "Tokens of a sequence.",
    "image_size": "Pixels on a side.",
    "precision": "bf16, fp16, fp32, ...; auto unless given.",
    "global_batch": "Samples of an optimizer step.",
    "gpu": "Which GPU: H100, A100-80GB; H100:8 with the count. Empty: the cheapest that works.",
    "gpus": "How many GPUs of that kind in all.",
    "cloud": "aws, gcp, azure; empty: any.",
    "region": "A region, place or pattern: us-east-1, Frankfurt, us-*.",
    "market": "on-demand (unless given), spot, reserved.",
    "deadline": "Longest run: 24h, 3 days; a bare number is hours.",
    "budget": "Highest cost of the run in dollars.",
}
RESULT_HELP = {
    "cost_usd_p50": "Median cost of the cheapest plan, dollars.",
    "cost_usd_p10": "One run in ten costs less.",
    "cost_usd_p90": "One run in ten costs more.",
    "hours_p50": "Median hours on the clock.",
    "gpu_hours": "Hours x GPUs.",
    "fits": "Memory: yes, tight, no or unknown.",
    "memory_gib": "GiB that one GPU holds.",
    "plan_cloud": "Where the cheapest plan runs.",
    "plan_region": "Its region.",
    "plan_instance": "Its machine type.",
    "plan_market": "on-demand, spot, reserved.",
    "usd_per_hour": "Price of the whole job an hour, dollars.",
    "price_date": "When that price was seen.",
    "price_source": "Who states it.",
    "evidence": "What the speed rests on: own, group, lab, unseen-model, unseen-gpu, unseen-lab.",
    "error": "Why a row has no plan.",
}
ROWS = 500


def xlsxwriter() -> Any:
    """The library that writes new workbooks; WorkloadError naming the extra where it is not installed."""
    try:
        import xlsxwriter as library
    except ImportError:
        raise WorkloadError(
            "new workbooks need the extra `sheets`: pip install 'gpu-cost-estimator[sheets]'", field="format"
        ) from None
    return library


def template_workbook() -> bytes:
    """The workbook, as bytes of an XLSX file."""
    out = io.BytesIO()
    book = xlsxwriter().Workbook(out, {"in_memory": True})
    title = book.add_format({"bold": True, "font_color": "#FFFFFF", "bg_color": "#1F4E78", "border": 1})
    runs = book.add_worksheet("Runs")
    runs.freeze_panes(1, 1)
    for column, name in enumerate(COLUMNS):
        runs.write_string(0, column, name, title)
        runs.write_comment(0, column, HELP[name], {"x_scale": 1.5})
    for row, example in enumerate(EXAMPLES, start=1):
        for column, name in enumerate(COLUMNS):
            if name in example:
                runs.write(row, column, example[name])
    runs.autofilter(0, 0, ROWS, len(COLUMNS) - 1)
    choices = {
        "method": [m.value for m in Method],
        "precision": [p.value for p in Precision],
        "market": [m.value for m in Market if m is not Market.OWN],
        "cloud": ["aws", "gcp", "azure"],
    }
    for name, words in choices.items():
        column = COLUMNS.index(name)
        runs.data_validation(
            1,
            column,
            ROWS,
            column,
            {"validate": "list", "source": words, "error_type": "warning", "ignore_blank": True},
        )
    runs.set_column(0, 0, 18)
    runs.set_column(3, 3, 16)
    runs.set_column(4, len(COLUMNS) - 1, 11)
    about = book.add_worksheet("Help")
    about.set_column(0, 0, 16)
    about.set_column(1, 1, 90)
    about.set_column(2, 2, 60)
    lines = [("column", "what it holds", "also understood")]
    lines += [(name, HELP[name], _also(name)) for name in COLUMNS]
    lines += [("written back", "", "")] + [(name, RESULT_HELP[name], "") for name in RESULTS]
    for row, line in enumerate(lines):
        about.write_row(row, 0, line, title if row == 0 else None)
    about.freeze_panes(1, 0)
    book.close()
    return out.getvalue()


def _also(name: str) -> str:
    units = f"; units in brackets: {', '.join(UNITS[name])}" if name in UNITS else ""
    return ", ".join(SYNONYMS[name]) + units
