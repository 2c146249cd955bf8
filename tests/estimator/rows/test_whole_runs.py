from __future__ import annotations

import math

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.evaluation.whole_runs import evaluate_runs, fitted, judged
from estimator.rows.whole_runs import ADDED, READS, amount_of, dollars_an_hour, kind_of, predict_runs

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


def test_self_supervised_images_pass_in_two_views_and_no_faster_than_they_are_augmented() -> None:
    task = {"task": "self-supervised-vision", "dataset": "imagenet-1k", "model": "resnet18"}
    run = {**BLANK, **task, "epochs": "2"}
    assert amount_of(run) == (4 * 1281167.0, "samples/s")
    assert amount_of({**run, "model": "mae-vit-l16"}) == (2 * 1281167.0, "samples/s")
    answer = predicted(
        **task, samples_m="", epochs="10", seq_len="", global_batch="256", gpu="H100-SXM5-80GB", gpus="1"
    )
    slowest = 2 * 10 * 1281167.0 / (8 / 0.007) / 3600.0
    assert float(answer["predicted_hours_p50"]) > 0.5 * slowest
