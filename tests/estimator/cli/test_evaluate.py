"""`benchmarks evaluate`: which table is printed, and what cannot be asked together."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from estimator.cli.main import run
from estimator.evaluation import memory as memory_evaluation
from estimator.evaluation.memory import ErrorLine, MemoryEvaluation, StatedLine
from estimator.evaluation.memory_verdicts import VerdictLine
from estimator.terms import Verdict


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> MemoryEvaluation:
    pytest.importorskip("scipy")
    result = MemoryEvaluation(
        [ErrorLine("known group, all", 3, 9, 0.0912, 0.301, 0.8)],
        [
            StatedLine("one", "fits", 9.7, 12.4, Verdict.YES, True),
            StatedLine("two", "out of memory", float("nan"), 50.0, Verdict.YES, False),
        ],
        [VerdictLine("unseen laboratory", Verdict.YES, 0.5, 0.95)],
        {Verdict.YES: 5, Verdict.NO: 1},
    )
    monkeypatch.setattr(memory_evaluation, "evaluate", lambda: result)
    return result


@pytest.mark.usefixtures("found")
def test_memory_is_a_table_of_errors_the_stated_cases_and_a_count(
    quiet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["benchmarks", "evaluate", "--memory"]) == 0
    text = capsys.readouterr().out
    assert "known group, all" in text
    assert "9.1" in text
    assert "1 of 2 stated cases have the right verdict; 1 stated out-of-memory cases are said to fit" in text


@pytest.mark.usefixtures("found")
def test_memory_in_json_and_csv_has_the_same_figures(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["benchmarks", "evaluate", "--memory", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["memory"][0]["median_error_percent"] == 9.1
    assert document["memory"][0]["interval_holds_percent"] == 80.0
    assert document["verdicts"][0]["fits_percent"] == 95.0
    assert document["stated"][1]["gib"] is None
    assert document["verdicts_of_runs"] == {"yes": 5, "no": 1}
    assert run(["benchmarks", "evaluate", "--memory", "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["p90_error_percent"] == "30.1"


@pytest.mark.parametrize("words", [["--runs", "--memory"], ["--memory", "--plots", "x"], ["--runs", "--plots", "x"]])
def test_one_thing_is_evaluated_at_a_time(quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(["benchmarks", "evaluate", *words]) == 2
    assert "give one of --runs, --memory and --plots" in capsys.readouterr().err
    assert not (quiet / "x").exists()
