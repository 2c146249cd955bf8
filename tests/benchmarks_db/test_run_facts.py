"""Facts beside step time: each has a source, figures lie within their ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks_db import run_facts, schema, stated_cases
from benchmarks_db.microbench import load as load_microbench
from scripts import import_facts


def test_every_fact_has_a_source_and_a_known_topic() -> None:
    for fact in run_facts.load():
        assert fact.source not in ("", "none"), fact.item
        assert "memory-unverified" not in fact.notes, fact.item
        assert fact.topic in run_facts.TOPICS, fact.item
        assert fact.unit or fact.topic == "billing", fact.item  # billing rules are words


def test_low_and_high_enclose_the_value() -> None:
    for fact in run_facts.load():
        if fact.low is not None and fact.high is not None:
            assert fact.low <= fact.high, fact.item


def test_facts_are_found_by_topic_item_and_cloud() -> None:
    assert run_facts.find("startup")
    assert all(fact.cloud == "AWS" for fact in run_facts.find("startup", cloud="aws"))
    assert run_facts.find("failures", "no such thing") == ()


def test_stated_cases_carry_a_figure_and_where_it_was_said() -> None:
    cases = stated_cases.load()
    assert len({case["id"] for case in cases}) == len(cases) > 50
    for case in cases:
        assert case["source"], case["id"]
        assert case["value"] or case["mem_value"] or case["time_value"], case["id"]


def test_microbenchmarks_load_as_columns() -> None:
    table = load_microbench()
    assert len(table) > 400
    assert (table.number("value") > 0).all()


def test_a_mended_name_decides_whether_the_model_of_a_run_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_facts, "DATA", tmp_path)
    mends = tmp_path / "mends.csv"
    mends.write_text("table,match,field,old,new,reason\nruns,run=first,model,*,mpt-1b,its own name\n", encoding="utf-8")
    sources = tmp_path / "left_out_sources.csv"
    sources.write_text("source,licence\n", encoding="utf-8")
    columns = [name for name in schema.names(schema.RUN) if name not in ("id", "quality", "quality_reason", "mended")]
    cells = {"source": "a/b@c", "model": "mpt-1.3b", "task": "llm-pretrain", "gpu": "A100-SXM4-80GB", "tokens_b": "1"}
    import_facts.write(tmp_path / "runs" / "x.csv", columns, [cells | {"run": run} for run in ("first", "second")])
    found = import_facts.import_runs(tmp_path, import_facts.Mends(mends), import_facts.Leavings(sources))["runs/x"]
    assert [(row["model"], row["quality"]) for row in found] == [("mpt-1b", "ok"), ("mpt-1.3b", "unusable")]
