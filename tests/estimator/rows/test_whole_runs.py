from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks_db.errors import WorkloadError
from estimator.evaluation.whole_runs import evaluate_runs, fitted, judged
from estimator.rows.run_amounts import amount_of
from estimator.rows.run_kinds import kind_of, overhead
from estimator.rows.run_steps import READS, filled, objective_for, step_row
from estimator.rows.whole_runs import ADDED, dollars_an_hour, predict_runs
from pricing.snapshot import snapshot_table

RUN = {
    "source": "somebody/trainer@abc:README.md",
    "model": "llama3-8b",
    "task": "llm-finetune",
    "samples_m": "0.05",
    "epochs": "1",
    "gpu": "A100-SXM4-80GB",
    "gpus": "8",
    "nodes": "1",
    "precision": "bf16",
    "seq_len": "2048",
    "global_batch": "64",
}
BLANK = dict.fromkeys(READS, "")


def predicted(**change: str) -> dict[str, str]:
    return predict_runs([{**RUN, **change}])[0]


def test_a_run_comes_out_with_hours_in_order() -> None:
    answer = predicted()
    low, middle, high = (float(answer[f"predicted_hours_{q}"]) for q in ("p10", "p50", "p90"))
    assert 0 < low < middle < high
    assert float(answer["predicted_gpu_hours_p50"]) == pytest.approx(8 * middle, rel=1e-4)
    assert answer["error"] == ""
    assert [answer[f"predicted_cost_usd_{q}"] for q in ("p10", "p50", "p90")] == ["", "", ""]


def test_twice_the_data_takes_twice_as_long() -> None:
    once, twice = predicted(), predicted(samples_m="0.1")
    assert float(twice["predicted_hours_p50"]) == pytest.approx(2 * float(once["predicted_hours_p50"]), rel=1e-4)


def test_what_the_run_took_is_never_read() -> None:
    told = predicted(wall_hours="5", gpu_hours="40", cost_usd="100", mfu="0.9", notes="5 hours", run="x")
    assert {k: told[k] for k in ADDED} == {k: predicted()[k] for k in ADDED}
    assert not {"wall_hours", "gpu_hours", "cost_usd", "mfu", "notes"} & set(READS)


def test_a_run_without_a_number_of_gpus_has_gpu_hours_alone() -> None:
    answer = predicted(gpus="", nodes="")
    assert answer["predicted_hours_p50"] == ""
    assert float(answer["predicted_gpu_hours_p50"]) > 0


def test_the_gpus_of_a_run_may_be_counted_where_the_gpu_is_named() -> None:
    apart, together = predicted(gpus="4"), predicted(gpus="", gpu="A100-SXM4-80GB:4")
    assert {k: apart[k] for k in ADDED} == {k: together[k] for k in ADDED}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpus": "none of them"}, "gpus: 'none of them' is not a number above 0"),
        ({"samples_m": "", "epochs": ""}, "tokens_b"),
        ({"samples_m": "", "dataset": "unheard-of"}, "tokens_b"),
        ({"gpu": "H1000"}, "H1000"),
        ({"model": "nobody-knows"}, "nobody-knows"),
        ({"samples_m": "-5"}, "samples_m: '-5' is not a number above 0"),
    ],
)
def test_a_run_that_cannot_be_predicted_says_why_and_the_others_go_on(change: dict[str, str], message: str) -> None:
    bad, good = predict_runs([{**RUN, **change}, RUN])
    assert message in bad["error"]
    assert bad["predicted_hours_p50"] == ""
    assert good["error"] == ""


@pytest.mark.parametrize(
    ("row", "amount"),
    [
        ({"tokens_b": "300"}, (300e9, "tokens/s")),
        ({"samples_m": "115.305", "epochs": "90", "dataset": "imagenet-1k"}, (115.305e6, "samples/s")),
        ({"samples_m": "1.281", "epochs": "100", "dataset": "imagenet-1k"}, (128.1e6, "samples/s")),
        ({"epochs": "2", "dataset": "squad-1.1"}, (175_198, "samples/s")),
        ({"samples_m": "0.13", "epochs": "200", "dataset": "imagenet100 (100 classes x 1300)"}, (26e6, "samples/s")),
    ],
)
def test_the_amount_of_data_is_what_was_trained_on_in_all(row: dict[str, str], amount: tuple[float, str]) -> None:
    found, unit = amount_of({**BLANK, **row})
    assert (found, unit) == (pytest.approx(amount[0]), amount[1])


def test_no_amount_is_an_error() -> None:
    with pytest.raises(WorkloadError):
        amount_of(BLANK)


@pytest.mark.parametrize(
    ("basis", "instance", "rate"),
    [
        ("submitter costPerHour $3.06/h for the whole cluster x hours to target", "", 3.06),
        ("$0.26 per GPU-hour", "", 0.26 * 8),
        ("approximate cost (implies ~$4/GPU-h)", "", 32.0),
        ("$1,212.5/hour on demand", "", 1212.5),
        ("authors' total", "", None),
        ("", "no-such-machine", None),
    ],
)
def test_dollars_come_only_from_a_stated_rate(basis: str, instance: str, rate: float | None) -> None:
    found = dollars_an_hour({**BLANK, "price_basis": basis, "cloud_instance": instance}, 8)
    assert found == (None if rate is None else pytest.approx(rate))


def test_a_price_too_old_to_be_ranked_speaks_only_for_machines_that_have_no_other() -> None:
    def lowest(name: str, kept: np.ndarray) -> float:
        mine = table.where("market", lambda market: market == "on-demand") & ~np.isnan(table.usd_per_hour)
        mine &= table.where("instance_type", lambda text: text == name) & kept
        return float(table.usd_per_hour[mine].min())

    table = snapshot_table()
    renewed, retired = "Standard_NCC40ads_H100_v5", "Standard_NC24"  # the first has an older, lower price as well
    assert lowest(renewed, ~table.ranked) < lowest(renewed, table.ranked)
    paid = [dollars_an_hour({**BLANK, "cloud_instance": name}, 1) for name in (renewed, retired)]
    assert paid == [lowest(renewed, table.ranked), lowest(retired, ~table.ranked)]


def test_dollars_of_a_named_machine_are_its_shipped_price() -> None:
    one, two = (dollars_an_hour({**BLANK, "cloud_instance": "p4d.24xlarge"}, gpus) for gpus in (8, 16))
    assert one is not None
    assert two == pytest.approx(2 * one)


def test_kinds_of_runs_are_told_apart() -> None:
    assert kind_of({**BLANK, "source": "mlcommons/training_results_v2.0@8437"}) == "mlperf"
    assert kind_of({**BLANK, "tokens_b": "300"}) == "pretraining"
    assert kind_of({**BLANK, "task": "rlhf"}) == "rlhf"
    assert kind_of(BLANK | RUN) == "fine-tuning"


def test_the_interval_holds_on_the_runs_it_was_made_from() -> None:
    data = judged()
    known = fitted(data, data.weight > 0)
    inside = [abs(r - known[k][0]) <= known[k][1] for r, k in zip(data.residual, data.kind.tolist(), strict=True)]
    assert sum(w for w, held in zip(data.weight, inside, strict=True) if held) / data.weight.sum() >= 0.8


def test_the_table_has_a_line_for_every_kind_and_one_for_all() -> None:
    scores = evaluate_runs()
    assert scores[-1].kind == "all"
    assert sum(score.runs for score in scores[:-1]) == scores[-1].runs > 300
    assert all(math.isfinite(score.median) and score.width > 1 for score in scores)


def test_mlperfs_adapters_are_told_by_their_benchmark() -> None:
    board = "mlcommons/training_results_v4.0@1:Somebody/results/box"
    lora, full = (predicted(source=f"{board}/{name}", model="llama2-70b") for name in ("llama2_70b_lora", "llama2_70b"))
    assert float(lora["predicted_gpu_hours_p50"]) < float(full["predicted_gpu_hours_p50"])


def test_reasoning_traces_are_long() -> None:
    short, long = (predicted(seq_len="", dataset=name) for name in ("50k instructions", "17k traces"))
    assert float(long["predicted_hours_p50"]) > 5 * float(short["predicted_hours_p50"])


SELF_SUPERVISED = {"task": "self-supervised-vision", "dataset": "imagenet-1k", "seq_len": "", "samples_m": ""}


def test_self_supervised_images_pass_in_two_views_and_no_faster_than_they_are_augmented() -> None:
    run = SELF_SUPERVISED | {"model": "resnet18", "epochs": "10", "global_batch": "256", "gpus": "1"}
    assert objective_for({**BLANK, **run}) == "simclr"
    answer = predicted(**run, gpu="H100-SXM5-80GB")
    slowest = 10 * 1281167.0 * (15 + 2 * 9) * 1e-3 / 8 / 3600.0
    hours = float(answer["predicted_hours_p50"]) / overhead("self-supervised").factor
    assert hours == pytest.approx(slowest, rel=1e-3)


def test_an_objective_is_a_column_or_stands_in_front_of_the_models_name() -> None:
    run = SELF_SUPERVISED | {"epochs": "10", "global_batch": "256", "gpus": "1"}
    apart = predicted(**run, model="vit_small_patch16_224", objective="DINO")
    together = predicted(**run, model="dino-vit-s16")
    two_views = predicted(**run, model="vit_small_patch16_224")
    assert apart["predicted_hours_p50"] == together["predicted_hours_p50"]
    assert float(apart["predicted_hours_p50"]) > 1.3 * float(two_views["predicted_hours_p50"])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"objective": "dina"}, "dino"), ({"objective": "dino", "model": "llama3-8b"}, "no vision model")],
)
def test_an_objective_that_cannot_be_is_refused(change: dict[str, str], message: str) -> None:
    assert message in predicted(**change)["error"]


def test_what_a_table_states_of_the_step_counts() -> None:
    full, adapters = predicted(peft="none"), predicted(peft="lora")
    assert float(adapters["predicted_hours_p50"]) < float(full["predicted_hours_p50"])
    picture = {"task": "image-classification", "model": "resnet50", "epochs": "90", "dataset": "imagenet-1k"}
    small, large = (
        predicted(**picture, samples_m="", seq_len="", global_batch="2048", image_size=size) for size in ("128", "224")
    )
    assert float(small["predicted_hours_p50"]) < 0.6 * float(large["predicted_hours_p50"])


IMAGENET = {**BLANK, "task": "image-classification", "model": "resnet50", "gpu": "V100-SXM2-16GB", "gpus": "64"}


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        ({"epochs": "30", "target": "93% top-5 ImageNet val", "dataset": "imagenet-1k"}, "image_size", "176"),
        ({"epochs": "90", "target": "93% top-5 ImageNet val", "dataset": "imagenet-1k"}, "image_size", ""),
        ({"epochs": "30", "target": "MLPerf v1.1: 75.9% top-1", "dataset": "imagenet-1k"}, "image_size", ""),
        ({"epochs": "30", "dataset": "imagenet-1k"}, "image_size", ""),
        ({"dataset": "cifar10"}, "image_size", "128"),
        ({"dataset": "cifar10", "model": "resnet164-bottleneck"}, "image_size", ""),
        ({"framework": "tensorflow 1.5"}, "precision", "fp32"),
        ({"framework": "tensorflow v1.15"}, "precision", ""),
        ({"framework": "tensorflow 1.8", "gpu": "TPU-v2"}, "precision", ""),
        ({}, "micro_batch", "128"),
        ({"gpus": "8"}, "micro_batch", ""),
        ({"global_batch": "8192"}, "micro_batch", "128"),
        ({"model": "gpt3-175b", "task": "llm-pretrain", "params_m": "175000", "date": "2022-05"}, "act_ckpt", "full"),
        ({"model": "gpt3-175b", "task": "llm-pretrain", "params_m": "175000", "date": "2024-05"}, "act_ckpt", ""),
    ],
)
def test_blanks_are_filled_by_what_was_usual(change: dict[str, str], column: str, value: str) -> None:
    assert step_row({**IMAGENET, **change}, "samples/s")[column] == value


def test_a_small_language_model_fills_the_memory_and_a_large_one_is_left_alone() -> None:
    run = {**BLANK, "task": "llm-pretrain", "gpu": "H100-SXM5-80GB", "gpus": "8", "seq_len": "1024"}
    steps = [step_row({**run, "model": name}, "tokens/s") for name in ("gpt2-124m", "llama3-8b")]
    small, large = filled(steps)
    assert (small["micro_batch"], large["micro_batch"]) == ("32", "")
    assert filled([{**steps[0], "global_batch": "64"}])[0]["micro_batch"] == "8"


def test_every_kind_that_a_run_may_be_of_has_a_factor() -> None:
    rows = [
        {}, {"task": "rlhf"}, {"task": "llm-pretrain"}, {"task": "llm-pretrain", "tokens_b": "300"},
        {"task": "llm-finetune"}, {"task": "llm-finetune", "framework": "litgpt"}, SELF_SUPERVISED,
        {"source": "mlcommons/training_results_v4.0@1"}, {"source": "stanford-futuredata/dawn-bench-entries@f"},
        {"source": "NVIDIA/DeepLearningExamples@7"},
    ]  # fmt: skip
    kinds = [kind_of({**BLANK, **row}) for row in rows]
    assert len(set(kinds)) == len(rows)
    assert all(overhead(kind).factor > 0 for kind in kinds)


def test_dollars_are_judged_at_a_price_that_the_run_itself_did_not_give_away() -> None:
    data = judged()
    assert sum(math.isfinite(value) for value in data.dollars) > 60
    assert 0.7 <= evaluate_runs()[-1].dollar_coverage / 100 <= 1.0  # type: ignore[operator]


def test_a_source_that_nobody_measured_is_no_surer_than_one_with_measured_steps() -> None:
    run = {
        **RUN,
        "source": "mlcommons/training_results_v4.0@6fe9543:NVIDIA/results/dgxh100/bert",
        "task": "llm-pretrain",
        "model": "bert-large",
        "gpu": "H100-SXM5-80GB",
        "seq_len": "512",
        "global_batch": "896",
    }
    near, far = predict_runs([run])[0], predict_runs([run], known_sources=False)[0]
    spread = [float(a["predicted_hours_p90"]) / float(a["predicted_hours_p50"]) for a in (near, far)]
    assert spread[0] < spread[1]
    data = judged()
    assert all(wide >= half for _, half, wide in fitted(data, data.weight > 0).values())
