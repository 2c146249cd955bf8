"""The command line inside one process: flags, files, formats and failures."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks_db.errors import EstimatorError, NoFeasiblePlan, PricesUnavailable, UnknownName, WorkloadError
from estimator.cli.errors import report
from estimator.cli.main import run
from estimator.cli.request_flags import workload_of
from estimator.request.workload import Workload
from tests.estimator.cli.conftest import SMALL, output

# --- output ------------------------------------------------------------------------------------------------------


def test_the_ending_of_the_file_chooses_the_format(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "plan", *SMALL, "-o", "plan.json") == ""
    assert json.loads((quiet / "plan.json").read_text())["plans"]
    assert output(capsys, "plan", *SMALL, "-o", "plan.md") == ""
    assert "| --- |" in (quiet / "plan.md").read_text()
    assert output(capsys, "plan", *SMALL, "-o", "plan.csv") == ""
    assert (quiet / "plan.csv").read_text().startswith("rank,cloud,")


def test_a_file_that_cannot_be_written_is_exit_2(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *SMALL, "-o", "no/such/folder/plan.json"]) == 2
    assert capsys.readouterr().err.startswith("error: --output: ")


def test_csv_and_json_hold_the_same_numbers(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output(capsys, "plan", *SMALL, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(output(capsys, "plan", *SMALL, "--format", "csv"))))
    assert len(rows) == len(document["plans"])
    for row, plan in zip(rows, document["plans"], strict=True):
        assert float(row["hours_p50"]) == pytest.approx(plan["hours"]["p50"])
        assert float(row["cost_usd_p90"]) == pytest.approx(plan["cost_usd"]["p90"])
        assert float(row["memory_gib_used"]) == pytest.approx(plan["memory_gib"]["used"])
        assert row["fits"] == plan["memory_gib"]["verdict"]
        assert int(row["micro_batch"]) == plan["layout"]["micro_batch"]


def test_an_estimate_compares_what_is_named(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["estimate", *SMALL, "--gpu", "V100-SXM2-16GB", "--gpu", "A100-SXM4-40GB:8"]
    document = json.loads(output(capsys, *words, "--format", "json"))
    assert [(entry["gpu"], entry["gpus"]) for entry in document["estimates"]] == [
        ("V100-SXM2-16GB", 1),
        ("A100-SXM4-40GB", 8),
    ]
    text = output(capsys, *words)
    assert re.match(r"Fastest: 8 x A100-SXM4-40GB; \d+ x .* takes \d+\.\d\d x as long", text)
    assert "tokens/s" in text


def test_an_estimate_of_nothing_asks_for_hardware(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["estimate", *SMALL]) == 2
    assert "H100:8" in capsys.readouterr().err


def test_the_question_can_be_turned_round(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", *SMALL, "--solve-for", "budget", "--deadline", "24h"]
    answer = json.loads(output(capsys, *words, "--format", "json"))
    assert answer["value"] == pytest.approx(answer["plan"]["cost_usd"]["p50"])
    assert output(capsys, *words).startswith("Least cost: $")
    assert output(capsys, *words, "--format", "csv").startswith("solve_for,value,unit,rank,")
    assert run(["plan", *SMALL, "--solve-for", "happiness"]) == 2
    assert run(["plan", *SMALL, "--solve-for", "budget", "--max-usd-per-hour", "0.000001"]) == 3


def test_the_answer_to_explain_is_the_same_on_every_face(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output(capsys, "plan", *SMALL, "--explain", "--top", "1", "--format", "json"))
    lines = document["plans"][0]["explanation"]
    assert [line for line in lines if line.startswith(("steps = ", "step = ", "memory = ", "hours = ", "dollars = "))]
    text = output(capsys, "plan", *SMALL, "--explain", "--top", "1")
    assert all(line in text for line in lines)


def test_an_own_machine_is_planned_beside_the_clouds(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = "name=lab,gpu=RTX-3090,gpus_per_node=8,usd_per_hour=0"
    document = json.loads(output(capsys, "plan", *SMALL, "--own", own, "--format", "json"))
    assert document["plans"][0]["market"] == "own"
    assert document["plans"][0]["cost_usd"]["p50"] == 0


@pytest.mark.parametrize("command", ["gpus", "models", "instances"])
def test_a_listing_is_a_table_json_or_csv_of_the_same_rows(
    quiet: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    document = json.loads(output(capsys, command, "--format", "json"))
    assert document["version"] == "1"
    rows = document[command]
    sheet = list(csv.DictReader(io.StringIO(output(capsys, command, "--format", "csv"))))
    assert len(sheet) == len(rows) > 20
    assert list(sheet[0]) == list(rows[0])
    assert len(output(capsys, command).splitlines()) == len(rows) + 1


def test_a_listing_is_filtered_by_name_or_pattern(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def names(*words: str) -> list[str]:
        return [row["name"] for row in json.loads(output(capsys, "gpus", *words, "--format", "json"))["gpus"]]

    assert names("H100-PCIE-80GB") == ["H100-PCIE-80GB"]
    assert set(names("h100")) >= {"H100-PCIE-80GB", "H100-SXM5-80GB"}
    assert all(name.startswith("A100") for name in names("A100*"))
    assert names("a100 80gb")


@pytest.mark.parametrize(
    "words",
    [
        ["gpus", "H1000"],
        ["models", "llama3-9c"],
        ["instances", "p5.49xlarge"],
        ["instances", "--cloud", "awz"],
        ["instances", "--gpu", "H1000"],
        ["models", "--kind", "decodr"],
        ["benchmarks", "list", "--gpu", "H1000000"],
    ],
)
def test_an_unknown_name_is_exit_2_with_near_names(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run(words) == 2
    assert "did you mean" in capsys.readouterr().err


def test_measurements_are_listed_with_their_sources(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output(capsys, "benchmarks", "list", "--model", "resnet50", "-n", "5", "--format", "json"))
    assert len(rows["benchmarks"]) == 5
    assert all(row["source"] and row["throughput"] > 0 and row["model"] == "resnet50" for row in rows["benchmarks"])
    rows = json.loads(output(capsys, "benchmarks", "list", "--gpu", "H100:8", "--format", "json"))
    assert {row["gpus"] for row in rows["benchmarks"]} == {8}


def test_offers_of_a_gpu_come_cheapest_first_however_it_is_named(
    quiet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flag, word = (output(capsys, "offers", *how, "--format", "json") for how in (("--gpu", "H100:8"), ("H100:8",)))
    assert flag == word
    prices = [offer["price_usd_per_hour"] for offer in json.loads(flag)["offers"]]
    assert prices == sorted(prices)


def test_tokens_prints_a_request_that_plan_reads(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "data.jsonl").write_text('{"text": "hello there"}\n' * 100)
    text = output(capsys, "tokens", "data.jsonl", "--seq-len", "128")
    assert Workload.from_yaml("model: gpt2-124m\n" + text).samples == 100
    assert json.loads(output(capsys, "tokens", "data.jsonl", "--format", "json"))["samples"] == 100
    assert run(["tokens", "data.jsonl", "--seq-len", "0"]) == 2
    assert run(["tokens", "missing.jsonl"]) == 2


# --- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WorkloadError("wrong", field="epochs"), 2),
        (UnknownName("model", "x", ["y"]), 2),
        (NoFeasiblePlan("none", field="budget"), 3),
        (PricesUnavailable("none"), 4),
    ],
)
def test_each_failure_has_its_exit_code(capsys: pytest.CaptureFixture[str], error: EstimatorError, code: int) -> None:
    assert report(error) == code
    further = (
        "; `estimator models` lists" if isinstance(error, UnknownName) else "\n"
    )  # one line, with what to type next
    told = capsys.readouterr().err
    assert told.startswith(f"error: {error}{further}")
    assert told.count("\n") == 1


def test_predict_keeps_order_and_columns(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "rows.csv").write_text(
        "mine,model,gpu,gpus,precision,micro_batch,seq_len,unit\n"
        "a,llama3-8b,A100-SXM4-80GB,8,bf16,1,2048,tokens/s\n"
        "b,llama3-8b,H1000,8,bf16,1,2048,tokens/s\n"
        "c,resnet50,V100-SXM2-16GB,1,fp16,128,,samples/s,one,too,many\n"
        "d,resnet50,V100-SXM2-16GB,1,fp16,128,,\n"
    )
    assert run(["predict", "rows.csv", "-o", "out.csv"]) == 0
    assert "2 of 4 rows predicted, 2 with an error" in capsys.readouterr().err
    rows = list(csv.DictReader(io.StringIO((quiet / "out.csv").read_text())))
    assert [row["mine"] for row in rows] == ["a", "b", "c", "d"]
    assert list(rows[0])[:8] == ["mine", "model", "gpu", "gpus", "precision", "micro_batch", "seq_len", "unit"]
    assert list(rows[0])[8:] == [
        "predicted_throughput", "predicted_low", "predicted_high", "predicted_unit", "predicted_memory_gib",
        "predicted_memory_low_gib", "predicted_memory_high_gib", "fits",
        "bound_by", "evidence", "error",
    ]  # fmt: skip
    assert [bool(row["error"]) for row in rows] == [False, True, True, False]
    assert "line 4: 11 cells under 8 headers" in rows[2]["error"]
    assert float(rows[0]["predicted_low"]) <= float(rows[0]["predicted_throughput"]) <= float(rows[0]["predicted_high"])


def test_predict_runs_adds_hours_and_dollars(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "runs.csv").write_text(
        "model,task,samples_m,gpu,gpus,precision,price_basis\nresnet50,image-classification,115,V100,8,fp16,$3/h\n"
    )
    rows = json.loads(output(capsys, "predict", "runs.csv", "--runs", "--format", "json"))["rows"]
    hours, dollars = float(rows[0]["predicted_hours_p50"]), float(rows[0]["predicted_cost_usd_p50"])
    assert dollars == pytest.approx(3 * hours, rel=1e-4)


@pytest.mark.parametrize("content", ["", "\n", "model,model\na,b\n"])
def test_a_sheet_that_is_none_is_refused(quiet: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (quiet / "rows.csv").write_text(content)
    assert run(["predict", "rows.csv"]) == 2
    assert capsys.readouterr().err.startswith("error: ROWS: rows.csv ")


def test_a_value_cannot_move_the_cursor(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "\x1b[2Jevil\nerror: fake", "--tokens", "5M"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


def test_a_fault_of_the_program_is_one_line(
    quiet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by nobody")

    monkeypatch.setattr("estimator.planning.planner.plan", broken)
    assert run(["plan", *SMALL]) == 70
    streams = capsys.readouterr()
    assert streams.err == (
        "error: internal fault, please report it: ZeroDivisionError: by nobody (ESTIMATOR_DEBUG=1 shows where)\n"
    )


def test_every_command_has_help(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.main import get_command

    from estimator.cli.app import app_of

    commands: dict[str, Any] = get_command(app_of()).commands  # type: ignore[attr-defined]
    expected = {
        "plan",
        "estimate",
        "predict",
        "offers",
        "instances",
        "gpus",
        "models",
        "tokens",
        "benchmarks",
        "prices",
        "serve",
    }
    assert set(commands) >= expected
    for name in commands:
        assert run([name, "--help"]) == 0
    assert "Usage: " in capsys.readouterr().out


def test_shell_completion_can_be_shown(
    quiet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(sys, "argv", ["estimator"])
    assert run(["--show-completion", "bash"]) == 0
    assert "estimator" in capsys.readouterr().out


# --- own measurements --------------------------------------------------------------------------------------------

MEASURED = "model,gpu,gpus,precision,micro_batch,throughput,unit\nresnet50,RTX-3090,1,fp16,128,1200,samples/s\n"


def test_measurements_are_kept_once_and_listed(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "mine.csv").write_text(MEASURED)
    assert output(capsys, "benchmarks", "list", "--own", "--format", "csv").count("\n") == 1
    assert run(["benchmarks", "add", "mine.csv", "--dry-run"]) == 0
    assert not (quiet / "data").exists()
    assert run(["benchmarks", "add", "mine.csv"]) == 0
    assert "1 new rows" in capsys.readouterr().err
    assert run(["benchmarks", "add", "mine.csv"]) == 0
    assert "0 new rows" in capsys.readouterr().err
    kept = json.loads(output(capsys, "benchmarks", "list", "--own", "--format", "json"))["benchmarks"]
    assert [(row["gpu"], row["throughput"], row["quality"]) for row in kept] == [("RTX-3090", 1200, "ok")]


@pytest.mark.parametrize(
    "content", ["", "model,gpu\nresnet50,T4\n", MEASURED.replace("1200", "9e9"), MEASURED + "a,b,c,d,e,f,g,h\n"]
)
def test_measurements_that_cannot_be_used_are_not_kept(
    quiet: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (quiet / "mine.csv").write_text(content)
    assert run(["benchmarks", "add", "mine.csv"]) == 2
    assert "mine.csv" in capsys.readouterr().err
    assert not (quiet / "data").exists()


def test_files_of_measurements_lie_beside_the_request(tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_text("model: resnet50\nimages: 5k\nmeasured: mine.csv\n")
    assert workload_of(tmp_path / "request.yaml", {}).measured == (str(tmp_path / "mine.csv"),)


def test_the_fit_and_its_evaluation_are_commands(
    quiet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("scipy", reason="needs scipy")
    fitted: list[Path] = []

    def fit(*, intervals: bool, path: Path) -> dict[str, object]:
        fitted.append(path)
        return {"fingerprint": "0123456789abcdef"}

    monkeypatch.setattr("estimator.fitting.run.run", fit)
    assert run(["benchmarks", "fit", "--quick", "-o", "fit.json"]) == 0
    assert fitted == [Path("fit.json")]
    assert "0123456789ab" in capsys.readouterr().err

    monkeypatch.setattr("estimator.evaluation.evaluate.evaluate", dict)
    monkeypatch.setattr(
        "estimator.evaluation.evaluate.FORMATS", {"json": lambda _: "{}", "markdown": lambda _: "| case |"}
    )
    assert output(capsys, "benchmarks", "evaluate", "--format", "json") == "{}\n"
    assert output(capsys, "benchmarks", "evaluate") == "| case |\n"


def test_diff_compares_requests_and_plans(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quiet / "a.yaml").write_text("model: gpt2-124m\ntokens: 10M\nseq_len: 1024\n")
    (quiet / "b.yaml").write_text("model: gpt2-124m\ntokens: 1B\nseq_len: 1024\n")
    assert run(["plan", "a.yaml", "-o", "a.json"]) == 0
    assert run(["diff", "a.json", "a.yaml", "--max-increase", "0%"]) == 0
    assert "+0% time" in capsys.readouterr().out
    assert run(["diff", "a.yaml", "b.yaml", "--max-increase", "10%"]) == 1
    streams = capsys.readouterr()
    assert "tokens: 1e+07 -> 1e+09" in streams.out
    assert "error: b.yaml: cost_usd grew by more than 10%" in streams.err
    assert output(capsys, "diff", "a.yaml", "b.yaml").startswith("+")
    document = json.loads(output(capsys, "diff", "b.yaml", "a.yaml", "--format", "json"))
    assert document["hours"]["percent"] < 0
    assert output(capsys, "diff", "a.yaml", "b.yaml", "--format", "csv").startswith(
        "figure,before,after,change,percent\n"
    )


@pytest.mark.parametrize(
    ("content", "field"), [('{"plans": [{}], "workload": {}}', "plan"), ("[]", "request"), ("{}", "model")]
)
def test_diff_names_the_side_that_cannot_be_read(
    quiet: Path, capsys: pytest.CaptureFixture[str], content: str, field: str
) -> None:
    (quiet / "a.json").write_text(content)
    assert run(["diff", "a.json", "a.json"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {field}: ")


def test_a_running_job_is_tracked_and_a_finished_one_reconciled(
    quiet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", *SMALL, "-o", "plan.json"]) == 0
    plan = json.loads((quiet / "plan.json").read_text())["plans"][0]
    each = plan["step_ms"] / 1e3
    lines = [f"step {s}/{plan['steps']} {each:.6f} s/it" for s in range(1, plan["steps"] // 2)]
    (quiet / "job.log").write_text("\n".join(lines))
    found = json.loads(output(capsys, "track", "job.log", "--plan", "plan.json", "--format", "json"))
    assert found["steps_total"] == plan["steps"]
    assert found["total_hours"]["p10"] < found["total_hours"]["p50"] < found["total_hours"]["p90"]
    assert "still to go: " in output(capsys, "track", "job.log", "--plan", "plan.json")

    words = ["reconcile", "plan.json", "--hours", str(1.5 * plan["hours"]["p50"]), "--cost", "$3", "--name", "=run"]
    assert json.loads(output(capsys, *words, "--dry-run", "--format", "json"))["hours_multiplier"]["runs"] == 1
    assert not (quiet / "data").exists()
    assert run(words) == 0
    assert "your multiplier of hours" in capsys.readouterr().out
    again = json.loads(output(capsys, *words, "--format", "json"))
    assert again["hours_multiplier"]["runs"] == 2
    assert again["hours_ratio"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["track", "no.log"], "LOG"),
        (["track", "empty.log"], "LOG"),
        (["track", "empty.log", "--plan", "no.json"], "PLAN.json"),
        (["track", "empty.log", "--steps", "-4"], "--steps"),
        (["reconcile", "plan.json"], "reconcile"),
        (["reconcile", "plan.json", "--hours", "1e9"], "--hours"),
        (["reconcile", "plan.json", "--hours", "-1"], "--hours"),
        (["reconcile", "plan.json", "--hours", "1", "--rank", "999"], "--rank"),
        (["reconcile", "empty.log", "--hours", "1"], "model"),
        (["reconcile", "plan.json", "--focus", "no.csv"], "--focus"),
        (["reconcile", "plan.json", "--focus", "empty.log"], "--focus"),
    ],
)
def test_following_names_what_it_cannot_read(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str], field: str
) -> None:
    (quiet / "empty.log").write_text("")
    if "plan.json" in words:
        assert run(["plan", *SMALL, "-o", "plan.json"]) == 0
    assert run(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {field}: ")


def test_quotas_come_from_a_file_too(tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.csv"
    quotas.write_text("cloud,gpu,max_gpus\naws,H100,8\ngcp,,0\n")
    request = workload_of(
        None, {"model": "llama3-8b", "tokens": "1M", "quotas": [str(quotas), "cloud=azure,max_gpus=4"]}
    )
    assert [(q.cloud, q.gpu, q.max_gpus) for q in request.constraints.quotas] == [
        ("aws", "H100", 8), ("gcp", None, 0), ("azure", None, 4),
    ]  # fmt: skip
    quotas.write_text("cloud,gpu\naws,H100\n")
    with pytest.raises(WorkloadError, match="header with max_gpus"):
        workload_of(None, {"model": "llama3-8b", "quotas": [str(quotas)]})


def test_what_to_do_about_interruptions_and_a_second_currency_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "plan", *SMALL, "--currency", "EUR=0.5", "--deadline", "48h")
    assert " = EUR " in shown
    assert "EUR p50 (p10-p90)" in shown
    assert "When its spot machines are taken (plan 1):" in shown
    assert "wait for spot machines again: $" in shown


def test_prices_that_only_the_customer_knows_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *SMALL, "--market", "reserved"]) == 3
    assert "--overrides FILE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--solve-for", "speed"], "error: --solve-for: 'speed' is not one of tokens, deadline, budget, gpus, "),
        (["--measured", "fast"], "error: measured: 'fast' is neither a file nor words such as '3100 tokens/s on "),
    ],
)
def test_what_would_be_understood_is_named(
    quiet: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(["plan", *SMALL, *words]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize("what", ["context", "model"])
def test_inverse_questions_name_what_stops_them(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "plan", *SMALL, "--solve-for", what, "--budget", "3", "--gpu", "L4", "--cloud", "aws")
    assert shown.startswith(("Longest sequence: ", "Largest model: "))
    assert "Why no more:" in shown
