"""`benchmarks evaluate --memory`: errors of the memory account on unseen rows, and the publicly stated cases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from estimator.cli.flags import surroundings
from estimator.cli.numbers import UNKNOWN, figure
from estimator.cli.output import Column, as_csv, as_json, as_table, chosen_format, emit

if TYPE_CHECKING:
    from estimator.evaluation.memory import MemoryEvaluation

_ERRORS = (
    Column("memory", lambda r: str(r["case"])),
    Column("groups", lambda r: str(r["groups"]), right=True),
    Column("rows", lambda r: str(r["rows"]), right=True),
    Column("median error %", lambda r: figure(r["median_error_percent"]), right=True),
    Column("p90 error %", lambda r: figure(r["p90_error_percent"]), right=True),
    Column("80% interval holds %", lambda r: _or_unknown(r["interval_holds_percent"]), right=True),
)
_VERDICTS = (
    Column("cards near the limit", lambda r: str(r["split"])),
    Column("verdict", lambda r: str(r["verdict"])),
    Column("said %", lambda r: figure(r["said_percent"]), right=True),
    Column("fits %", lambda r: figure(r["fits_percent"]), right=True),
)
_STATED = (
    Column("stated case", lambda r: str(r["case"]), spare=1),
    Column("stated", lambda r: str(r["stated"])),
    Column("GiB stated", lambda r: figure(r["gib"]) if r["gib"] is not None else UNKNOWN, right=True),
    Column("GiB predicted", lambda r: figure(r["predicted_gib"]), right=True),
    Column("verdict", lambda r: str(r["verdict"])),
    Column("right", lambda r: "yes" if r["right"] else "NO"),
)


def evaluate_memory(format: str | None, output: Path | None) -> None:
    """Print the tables; JSON holds `memory`, `stated`, `verdicts` and `verdicts_of_runs`, CSV the errors alone."""
    from estimator.evaluation.memory import evaluate

    how = chosen_format(format, output)
    found = evaluate()
    errors, stated, said = error_rows(found), stated_rows(found), verdict_rows(found)
    if how == "json":
        verdicts = {verdict.value: count for verdict, count in found.ran.items()}
        tables: dict[str, Any] = {"memory": errors, "stated": stated, "verdicts": said, "verdicts_of_runs": verdicts}
        emit(as_json({"version": "1"} | tables), output)
        return
    if how == "csv":
        emit(as_csv(errors, list(errors[0])), output)
        return
    here = surroundings(output=output)
    ran = ", ".join(f"{count} {verdict.value}" for verdict, count in found.ran.items())
    words = (
        f"{len(found.stated) - len(found.wrong)} of {len(found.stated)} stated cases have the right verdict; "
        f"{len(found.false_yes)} stated out-of-memory cases are said to fit.\n"
        f"Verdicts on measured runs, all of which fitted: {ran}."
    )
    parts = (
        as_table(errors, _ERRORS, how, here),
        as_table(said, _VERDICTS, how, here),
        as_table(stated, _STATED, how, here),
        words,
    )
    emit("\n\n".join(part.rstrip() for part in parts), output)


def _or_unknown(value: float | None) -> str:
    return UNKNOWN if value is None else figure(value)


def error_rows(found: MemoryEvaluation) -> list[dict[str, Any]]:
    """The error table, in percent."""
    return [
        {
            "case": line.case,
            "groups": line.groups,
            "rows": line.rows,
            "median_error_percent": round(100.0 * line.median, 1),
            "p90_error_percent": round(100.0 * line.p90, 1),
            "interval_holds_percent": None if line.inside != line.inside else round(100.0 * line.inside, 1),
        }
        for line in found.errors
    ]


def verdict_rows(found: MemoryEvaluation) -> list[dict[str, Any]]:
    """How often each verdict is said of cards within a factor of two of what a row took, and how often it fits."""
    return [
        {
            "split": line.split,
            "verdict": line.verdict.value,
            "said_percent": round(100.0 * line.said, 1),
            "fits_percent": round(100.0 * line.fits, 1),
        }
        for line in found.verdicts
    ]


def stated_rows(found: MemoryEvaluation) -> list[dict[str, Any]]:
    """The stated cases; `gib` None where only the outcome was stated."""
    return [
        {
            "case": line.case,
            "stated": line.stated,
            "gib": None if line.gib != line.gib else line.gib,
            "predicted_gib": round(line.predicted, 2),
            "verdict": line.verdict.value,
            "right": line.right,
        }
        for line in found.stated
    ]
