"""What is remembered of step times changes no answer, and is asked for again wherever it depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from estimator import Workload, plan
from estimator.job import Job
from estimator.planning import step_times
from estimator.planning.machines import Fleet
from estimator.planning.search import Found, search
from estimator.planning.step_times import StepTimes
from pricing.offers import current_offers

NOW = datetime(2026, 9, 1, tzinfo=UTC)
MARKET = current_offers(now=NOW)
LORA: dict[str, object] = {"model": "llama3-8b", "method": "lora", "tokens": "50M", "seq_len": 2048, "global_batch": 64}
LEAVES_STEPS_ALONE: list[dict[str, object]] = [
    {"tokens": "49M"},
    {"constraints": {"deadline": "24h", "budget": 50, "confidence": 0.9}},
    {"constraints": {"clouds": ["aws"], "markets": ["on-demand"]}},
    {"options": {"top": 3, "sort": "time"}},
    {"run": {"checkpoints": False, "trials": 3}, "bill": {"tax_percent": 19}},
    {"spot": {"hazard_per_hour": 0.2}},
]
CHANGES_STEPS: list[dict[str, object]] = [
    {"model": "mistral-7b"},
    {"method": "qlora"},
    {"lora": {"rank": 64}},
    {"seq_len": 4096},
    {"global_batch": 128},
    {"micro_batch": 2},
    {"precision": "fp8"},
    {"precision": "fp16"},
    {"optimizer": "adamw-8bit"},
    {"attention": "eager"},
    {"compiled": True},
    {"software": "tuned"},
    {"sharding": "zero3"},
    {"activation_checkpointing": "full"},
    {"cpu_offload": True},
    {"measured": ["2100 tokens/s on A100-80GB:1"]},
]


def planned(change: Mapping[str, object], known: StepTimes | None = None) -> str:
    return plan(Workload.model_validate({**LORA, **change}), offers=MARKET, now=NOW, step_times=known).model_dump_json()


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many machines each search looked at."""
    found: list[int] = []

    def counted(job: Job, fleet: Fleet) -> Found:
        found.append(len(fleet.kind))
        return search(job, fleet)

    monkeypatch.setattr(step_times, "search", counted)
    return found


@pytest.mark.parametrize("change", LEAVES_STEPS_ALONE)
def test_what_leaves_the_step_alone_searches_nothing_again(change: dict[str, object], searched: list[int]) -> None:
    known = StepTimes()
    planned({}, known)
    assert searched.pop() > 100
    quick = planned(change, known)
    assert not searched
    assert quick == planned(change)


def test_more_tokens_search_only_the_larger_clusters_that_they_bring(searched: list[int]) -> None:
    known = StepTimes()
    planned({}, known)
    planned({"tokens": "5B"}, known)
    first, more = searched
    assert 0 < more < first
    assert planned({"tokens": "5B"}, known) == planned({"tokens": "5B"})


@pytest.mark.parametrize("change", CHANGES_STEPS)
def test_what_changes_the_step_is_searched_for(change: dict[str, object], searched: list[int]) -> None:
    known = StepTimes()
    planned({}, known)
    searched.clear()
    found = planned(change, known)
    assert searched
    assert found == planned(change)


def test_old_searches_are_forgotten_and_several_threads_get_the_same_answers(searched: list[int]) -> None:
    known = StepTimes(most=700)
    changes = [{"seq_len": length, "tokens": f"{size}M"} for length in (512, 1024) for size in (10, 400)] * 3
    alone = [planned(change) for change in changes[:4]] * 3
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda change: planned(change, known), changes)) == alone
    searched.clear()
    planned({"model": "mistral-7b"}, known)
    planned({"model": "gemma2-9b"}, known)
    planned({"model": "mistral-7b"}, known)
    assert len(searched) == 3


def test_every_key_of_a_request_is_known_to_change_steps_or_to_leave_them_alone() -> None:
    """A new key has to be put into one of the lists above, or here, by who adds it."""
    alone = {"name", "samples", "images", "epochs", "own", "negotiated"}
    through_the_work = {
        "architecture", "hf_config", "custom", "image_size", "packing", "mean_tokens_per_sample", "objective",
    }  # fmt: skip
    like_another = {
        "grad_accum", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "memory_format",
        "data_kind",
    }  # fmt: skip
    listed = {key for change in (*LEAVES_STEPS_ALONE, *CHANGES_STEPS) for key in change}
    assert set(Workload.model_fields) - listed - alone - through_the_work - like_another == set()
    assert alone | through_the_work | like_another <= set(Workload.model_fields)
