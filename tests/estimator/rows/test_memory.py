"""Memory of CSV rows: their programs' habits, what neighbours teach, and what people state in public."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks_db.models import resolve_model
from estimator.architectures import work_of
from estimator.evaluation.memory import line, stated_cases, twins_of
from estimator.rows.arrays import Prepared, prepare
from estimator.rows.memory import Question, question, row_memory
from estimator.rows.memory_neighbours import Features, corrected_memory, correction, implied_values, with_activations
from estimator.terms import Method, Verdict

LLAMA = {
    "source": "somebody/else@1",
    "model": "llama2-7b",
    "task": "llm-finetune",
    "gpu": "A100-SXM4-80GB",
    "gpus": "1",
    "precision": "bf16",
    "micro_batch": "4",
    "global_batch": "4",
    "seq_len": "2048",
    "act_ckpt": "full",
    "sharding": "none",
    "attention": "flash",
    "peft": "lora",
    "optimizer": "adamw",
    "framework": "transformers",
}


def rows(*changes: dict[str, str]) -> Prepared:
    prepared = prepare([LLAMA | change for change in changes])
    assert not any(prepared.errors), prepared.errors
    return prepared


def test_every_publicly_stated_case_gets_a_verdict_and_all_but_one_are_right() -> None:
    cases = stated_cases()
    assert len(cases) >= 45
    assert len([case for case in cases if not case.right]) <= 1


def test_what_was_stated_to_run_out_of_memory_is_never_said_to_fit() -> None:
    out = [case for case in stated_cases() if case.stated != "fits"]
    assert len(out) >= 6
    assert Verdict.YES not in {case.verdict for case in out}


def test_stated_memories_are_met_within_a_tenth_in_the_median() -> None:
    errors = [abs(case.predicted / case.gib - 1) for case in stated_cases() if np.isfinite(case.gib)]
    assert np.median(errors) < 0.10
    assert np.quantile(errors, 0.9) < 0.30


def test_a_row_without_any_batch_is_unknown() -> None:
    memory = row_memory(rows({"micro_batch": "", "global_batch": ""}))
    assert np.isnan(memory.stated[0])


def test_torch_meters_leave_out_the_context_that_the_card_must_still_hold() -> None:
    memory = row_memory(rows({"framework": "torchtitan"}, {"framework": "megatron-lm"}))
    assert memory.account.used[0] > memory.stated[0]
    assert memory.account.used[1] == pytest.approx(memory.stated[1])


def test_a_guessed_length_makes_memory_less_sure_and_a_stated_longest_sample_does_not() -> None:
    guessed, stated, longest = row_memory(rows({"seq_len": ""}, {}, {"seq_len": "", "longest_sample": "2048"})).half
    assert guessed > 1.5 * stated
    assert longest == pytest.approx(stated)


def test_memory_peaks_on_the_longest_sample() -> None:
    mean, peak = row_memory(rows({"seq_len": "512"}, {"seq_len": "512", "longest_sample": "4096"})).stated
    assert peak > mean + 3.0


def test_states_are_shared_over_context_parallel_ranks_too() -> None:
    full = {
        "peft": "none",
        "gpus": "8",
        "sharding": "fsdp",
        "micro_batch": "1",
        "global_batch": "1",
        "act_ckpt": "full",
    }
    alone, shared = row_memory(rows(full | {"cp": "8"}, full | {"cp": "8", "sharding": "none"})).stated
    assert alone < 0.5 * shared


def test_a_program_that_reads_all_weights_on_each_gpu_peaks_there() -> None:
    # litgpt tutorials/resource-tables.md: 20.7 GiB on two GPUs, where each holds 6.3 GiB of weights
    table = {"source": "Lightning-AI/litgpt@1", "framework": "litgpt/pytorch-2.1", "gpus": "2", "sharding": "fsdp"}
    memory = row_memory(rows(table | {"micro_batch": "1", "global_batch": "", "seq_len": "", "longest_sample": "1304"}))
    assert memory.stated[0] == pytest.approx(20.7, rel=0.1)


def test_rows_that_do_not_even_foretell_their_own_group_correct_nothing() -> None:
    names = np.array([[f"model-{i // 3}", "lora", "trl", "bf16", "T4"] for i in range(60)])
    known = Features(
        lab=np.full(60, "noise"),
        names=names,
        figures=np.zeros((60, 4)),
        group=np.array([f"g{i // 3}" for i in range(60)]),
    )
    signs = np.random.default_rng(0).choice([-1.0, 1.0], 20)
    noise = np.outer(signs, [0.7, 0.0, -0.1]).ravel()
    assert np.allclose(correction(known, known, noise), 0.0)
    steady = np.repeat(0.4 * signs, 3)
    assert np.abs(correction(known, known, steady)).max() > 0.15


def test_no_adapters_and_a_blank_are_one_answer_where_the_laboratory_is_known() -> None:
    told = {"source": "bigscience-workshop/bigscience", "task": "llm-pretrain"}
    found = corrected_memory(rows(told | {"peft": ""}, told | {"peft": "none"}))
    assert found.stated[0] == found.stated[1]


def test_what_a_row_leaves_open_does_not_widen_its_interval_to_nothing() -> None:
    bold = {"model": "llama3-8b", "peft": "none", "task": "llm-pretrain", "gpus": "8", "sharding": "", "act_ckpt": ""}
    found = corrected_memory(rows(bold | {"global_batch": "64", "micro_batch": "8", "gpu": "A100-SXM4-40GB"}))
    assert found.account.used[0] > found.capacity[0]
    assert found.half[0] < 0.6 * found.stated[0]


def test_adapters_on_queries_alone_keep_fewer_inputs_of_frozen_matrices() -> None:
    few, every = (
        work_of(resolve_model("llama2-7b").model, method=Method.LORA, lora_targets=targets)
        for targets in ("qv", "all-linear")
    )
    full = work_of(resolve_model("llama2-7b").model)
    assert float(few.stored_values) < float(every.stored_values) == float(full.stored_values)


def test_adapters_on_a_gptq_base_count_as_four_bit() -> None:
    gptq, nf4, lora = row_memory(rows({"peft": "gptq-lora"}, {"peft": "qlora"}, {"peft": "lora"})).stated
    assert gptq == pytest.approx(nf4)
    assert gptq < lora


def test_unsloth_keeps_checkpoints_in_host_memory() -> None:
    ordinary, unsloth = row_memory(rows({"micro_batch": "16"}, {"micro_batch": "16", "framework": "unsloth"})).stated
    assert unsloth < ordinary


def features(labs: list[str], models: list[str], tokens: list[float]) -> Features:
    names = np.array([[model, "lora", "hf", "bf16", "A100"] for model in models])
    figures = np.column_stack([np.zeros(len(labs)), np.zeros(len(labs)), np.log(tokens), np.zeros(len(labs))])
    group = np.array([f"{lab}|{model}" for lab, model in zip(labs, models, strict=True)])
    return Features(np.array(labs), names, figures, group)


def test_a_correction_fades_with_distance_and_stops_at_the_laboratory() -> None:
    known = features(["a"], ["m"], [1000.0])
    asked = features(["a", "a", "a", "b"], ["m", "m", "other", "m"], [1000.0, 8000.0, 1000.0, 1000.0])
    near, longer, other, elsewhere = correction(asked, known, np.array([0.3]))
    assert 0.3 > near > longer > 0
    assert near > other > 0
    assert elsewhere == 0


def test_rows_of_one_code_have_no_say_about_each_other() -> None:
    both = features(["a", "a"], ["m", "m"], [1000.0, 1000.0])
    code = np.array([0, 1])
    shift = correction(both, both, np.array([0.3, -0.3]), held_out=(code, code))
    assert shift[0] < 0 < shift[1]


def test_one_absurd_measurement_bends_no_more_than_the_limit() -> None:
    known = features(["a"], ["m"], [1000.0])
    assert correction(known, known, np.array([50.0]))[0] <= 0.8


def test_a_correction_without_evidence_is_none() -> None:
    nobody = features([], [], [])
    assert correction(features(["a"], ["m"], [1.0]), nobody, np.zeros(0)).tolist() == [0.0]


def test_implied_values_bring_the_account_to_what_was_stated() -> None:
    prepared = rows({"framework": "transformers", "act_ckpt": "none"})
    asked = question(prepared)
    stated = np.array([40.0])
    values = implied_values(asked, stated)
    kept = replace(asked.work, stored_values=values, stored_values_selective=0 * values, stored_values_full=0 * values)
    assert replace(asked, work=kept).account().used[0] == pytest.approx(40.0)
    assert np.isnan(implied_values(asked, np.array([1.0]))[0])


def test_counted_models_keep_their_activations_whatever_is_measured_nearby() -> None:
    prepared = rows({})
    asked = question(prepared)
    again = with_activations(asked, prepared, asked, prepared, np.array([40.0]))
    assert isinstance(again, Question)
    assert np.array_equal(np.asarray(again.work.stored_values), np.asarray(asked.work.stored_values))


def test_an_unknown_laboratory_gets_the_account_uncorrected() -> None:
    prepared = rows({})
    assert corrected_memory(prepared).stated[0] == pytest.approx(row_memory(prepared).stated[0])


def test_a_known_laboratory_pulls_towards_its_own_measurement() -> None:
    # fms-acceleration refs/a100_80gb.csv: Mistral-7B LoRA, 4 x 4,096 tokens: 28.88 GiB
    fms = {
        "source": "foundation-model-stack/fms-acceleration@876e2ed:scripts/benchmarks/refs/a100_80gb.csv",
        "model": "mistral-7b",
        "framework": "hf-trainer/fms-hf-tuning",
        "seq_len": "4096",
    }
    assert corrected_memory(rows(fms)).stated[0] == pytest.approx(28.0, rel=0.12)


def test_rows_that_nothing_tells_apart_share_a_code() -> None:
    code = twins_of(rows({}, {"micro_batch": "2"}, {}))
    assert code[0] == code[2] != code[1]


def test_groups_weigh_the_same_whatever_their_rows() -> None:
    logs = np.log([1.0, 1.0, 1.0, 1.0, 2.0])
    group = np.array(["a", "a", "a", "a", "b"])
    found = line("case", logs, group, np.ones(5, bool))
    assert (found.groups, found.rows) == (2, 5)
    assert found.p90 == pytest.approx(1.0)


def test_a_laboratory_whose_groups_disagree_teaches_only_about_the_same_group() -> None:
    models = [f"m{i}" for i in range(12)]
    known = features(["a"] * 12, models, [1000.0] * 12)
    agree, disagree = np.full(12, 0.3), 0.4 * np.array([1, -1] * 6, float)
    stranger = features(["a"], ["other"], [1000.0])
    assert correction(stranger, known, agree)[0] > 0.1
    assert correction(stranger, known, disagree)[0] == 0.0
    assert correction(features(["a"], ["m0"], [1000.0]), known, disagree)[0] > 0.1
