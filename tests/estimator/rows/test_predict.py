import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.rows.cells import READS
from estimator.rows.predict import ADDED, predict_rows
from estimator.terms import EvidenceKind

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

KNOWN = {
    "source": "mosaicml/llm-foundry@8c8dd48:scripts/train/benchmarking/README.md",
    "date": "2024-01", "model": "mpt-7b", "task": "llm-pretrain", "gpu": "H100-SXM5-80GB", "gpus": "8", "nodes": "1",
    "precision": "amp-bf16", "micro_batch": "6", "global_batch": "48", "seq_len": "2048", "act_ckpt": "none",
    "sharding": "fsdp", "tp": "1", "pp": "1", "attention": "flash", "framework": "llm-foundry/composer",
    "unit": "tokens/s", "scope": "total",
}  # fmt: skip


def test_every_row_comes_out_in_order_and_a_bad_one_does_not_stop_the_others():
    rows = [
        KNOWN | {"x": "1"},
        {"model": "?", "gpu": "", "x": "2"},
        KNOWN | {"gpu": "Gaudi2", "x": "3"},
        KNOWN | {"x": "4"},
    ]
    out = predict_rows(rows)
    assert [row["x"] for row in out] == ["1", "2", "3", "4"]
    assert [bool(row["error"]) for row in out] == [False, True, True, False]
    assert all(set(ADDED) <= set(row) for row in out)
    assert out[1]["predicted_throughput"] == ""


def test_a_known_row_is_near_its_measurement_inside_its_interval():
    out = predict_rows([KNOWN])[0]
    low, value, high = (float(out[f"predicted_{k}"]) for k in ("low", "throughput", "high"))
    assert low <= value <= high
    assert value == pytest.approx(86_000, rel=0.25)
    assert out["evidence"] == EvidenceKind.GROUP
    assert out["predicted_unit"] == "tokens/s"
    assert out["fits"] in ("yes", "tight", "no", "unknown")
    low, memory, high = (float(out[f"predicted_memory_{name}gib"]) for name in ("low_", "", "high_"))
    assert 0 < low < memory < high < 2 * memory


def test_the_interval_is_ordered_for_times_too():
    out = predict_rows([KNOWN | {"unit": "s/step"}])[0]
    assert float(out["predicted_low"]) <= float(out["predicted_throughput"]) <= float(out["predicted_high"])
    assert 0.1 < float(out["predicted_throughput"]) < 10


def test_a_stranger_gets_a_wider_interval_than_a_known_group():
    def width(row):
        out = predict_rows([row])[0]
        return float(out["predicted_high"]) / float(out["predicted_low"]), out["evidence"]

    known, kind = width(KNOWN)
    stranger, far = width(KNOWN | {"source": "someone/else@1:README"})
    assert (kind, far) == ("group", "unseen-lab")
    assert stranger > known


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"unit": "furlongs"}, "unit: unknown unit 'furlongs'"),
        ({"unit": "sampels/sec"}, "unit: unknown unit 'sampels/s' (did you mean samples/s"),
        ({"unit": "tokens/s/gpu", "scope": "total"}, "unit: 'tokens/s/gpu' is of one GPU, the scope is total"),
        ({"gpus": "-1"}, "gpus: '-1' is not a number above 0"),
        ({"gpus": "eight"}, "gpus: 'eight' is not a number above 0"),
        ({"tp": "0"}, "tp: '0' is not a number above 0"),
        ({"seq_len": "2.048"}, "seq_len: '2.048' is not a whole number (did you mean 2?)"),
        ({"micro_batch": "many"}, "micro_batch: 'many' is not a number above 0"),
        ({"params_m": "-7000"}, "params_m: '-7000' is not a number above 0"),
        ({"precision": "int3"}, "precision: unknown precision 'int3' (did you mean int8"),
        ({"scope": "cluster"}, "scope: unknown scope 'cluster' (did you mean"),
        ({"gpu": "H1000"}, "gpu: unknown GPU 'H1000' (did you mean H100"),
        ({"model": "lama"}, "model: unknown model 'lama' and no size to derive its shape from (did you mean"),
    ],
)
def test_a_cell_that_makes_no_sense_is_refused_with_what_would(wrong, error):
    out = predict_rows([KNOWN | wrong])[0]
    assert out["error"].startswith(error)
    assert out["predicted_throughput"] == ""


def answer(row):
    return [float(row[name]) if re.fullmatch(r"[\d.e+-]+", row[name]) else row[name] for name in ADDED]


def like(row):
    """The answer of `row` but for what sums of floats differ by with the row's place in a table."""
    return [pytest.approx(cell, rel=1e-4) if isinstance(cell, float) else cell for cell in answer(row)]


@pytest.mark.parametrize(
    "same",
    [
        {"seq_len": "2,048"}, {"seq_len": "2 048"}, {"micro_batch": "6,0"}, {"scope": "Total "}, {"pp": "none"},
        {"params_m": "n/a"},
    ],
)  # fmt: skip
def test_other_spellings_of_the_same_figure_give_the_same_answer(same):
    told, usual = predict_rows([KNOWN | same, KNOWN])
    assert answer(told) == like(usual)


SPELLINGS = {
    ("precision", "bf16"): ("BF16", "bfloat16", "torch.bfloat16", "bf16-mixed", "mixed bf16", "amp_bf16", "bf16/fp32"),
    ("precision", "fp16"): ("half", "float16", "16", "16-mixed", "AMP", "mixed precision", "fp16-amp", "amp O2"),
    ("precision", "tf32"): ("TensorFloat-32", "TF-32"),
    ("precision", "fp32"): ("float32", "32-true", "single precision", "no", "full precision"),
    ("precision", ""): ("none", "auto", "n/a"),
    ("sharding", "zero3"): ("ZeRO-3", "zero_3", "stage3", "DeepSpeed ZeRO Stage 3", "ds-zero3", "zero3-offload"),
    ("sharding", "fsdp"): ("FSDP2", "full_shard", "FSDP (full_shard)", "HYBRID_SHARD"),
    ("sharding", "zero2"): ("ZeRO 2", "shard_grad_op", "fsdp-shard_grad_op"),
    ("sharding", "ddp"): ("DP", "data parallel", "DistributedDataParallel"),
    ("act_ckpt", "full"): ("True", "yes", "Full recompute", "block"),
    ("act_ckpt", "none"): ("False", "off", "no"),
    ("act_ckpt", "selective"): ("Selective (attention)", "selective_recompute"),
    ("compiled", "yes"): ("True", "1", "torch.compile"),
    ("attention", "eager"): ("Eager", "vanilla"),
    ("attention", "flash"): ("FA2", "flash_attention_2", "Flash Attention"),
    ("peft", "qlora"): ("QLoRA", "Q-LoRA", "q_lora"),
    ("peft", "none"): ("None", "full", "no"),
    ("task", "llm-finetune"): ("LLM fine-tuning", "llm_finetuning", "llm-sft", "llm-fine-tune"),
    ("task", "llm-pretrain"): ("LLM pre-training", "llm_pretraining"),
    ("optimizer", "adamw-8bit"): ("AdamW 8bit", "ADAMW_8BIT"),
    ("framework", "megatron-lm"): ("Megatron LM", "megatron_lm"),
    ("framework", "pytorch-2.1"): ("PyTorch 2.1", "torch 2.1", "torch==2.1", "pytorch_2.1"),
    ("framework", "llm-foundry/composer"): ("LLM Foundry/Composer",),
    ("framework", "litgpt"): ("Lit-GPT",),
    ("stack", "tuned"): ("Tuned",),
    ("date", "2023-06"): ("2023/06", "06/2023", "June 2023", "2023-06-15", "15 Jun. 2023", "Jun 5, 2023"),
    ("unit", "tokens/s"): ("tok/s", "tokens/sec", "Tokens per second", "token/s", "tokens_per_second"),
    ("unit", "samples/s"): ("samples/sec", "samples per second", "examples/second"),
    ("unit", "ms/step"): ("ms/iter", "ms per step", "milliseconds/iteration"),
    ("unit", "s/step"): ("sec/it", "seconds per step", "s / iter"),
    ("unit", "steps/s"): ("it/s", "iterations per second"),
}


@pytest.mark.parametrize(("column", "word"), SPELLINGS)
@pytest.mark.parametrize("row", ["known", "stranger"])
def test_other_spellings_of_the_same_word_give_the_same_answer(column, word, row):
    base = KNOWN if row == "known" else KNOWN | {"source": "", "task": "llm-finetune", "framework": "", "seq_len": ""}
    usual, *told = predict_rows([base | {column: text} for text in (word, *SPELLINGS[column, word])])
    assert not usual["error"]
    assert [answer(other) for other in told] == [like(usual)] * len(told)


def test_an_image_is_as_large_by_one_side_by_both_and_with_its_channels():
    row = {"model": "resnet50", "gpu": "T4", "micro_batch": "32"}
    usual, *told = predict_rows([row | {"image_size": text} for text in ("288", "288x288", "3 x 288 x 288", "288 px")])
    assert not usual["error"]
    assert [answer(other) for other in told] == [like(usual)] * 3
    (oblong,) = predict_rows([row | {"image_size": "384x216"}])
    assert answer(oblong) == like(usual)


def test_a_unit_that_names_the_gpu_is_of_one_gpu():
    texts = ("tokens/s", "tokens/s/gpu", "tok/sec per device", "tokens/gpu/s", "tokens/second/GPU")
    usual, *told = predict_rows([KNOWN | {"unit": text, "scope": "per_gpu"} for text in texts])
    blank = predict_rows([KNOWN | {"unit": text, "scope": ""} for text in texts[1:]])
    assert [answer(row) for row in told + blank] == [like(usual)] * 8


def test_steps_a_second_are_the_inverse_of_seconds_a_step_whatever_the_scope():
    steps, one, seconds = predict_rows(
        [KNOWN | {"unit": "steps/s"}, KNOWN | {"unit": "it/s", "scope": "per_gpu"}, KNOWN | {"unit": "s/step"}]
    )
    assert float(steps[ADDED[0]]) == pytest.approx(1 / float(seconds[ADDED[0]]), rel=1e-5)
    assert answer(steps) == like(one)


def test_throughput_of_one_gpu_is_so_however_the_scope_is_written():
    rows = predict_rows([KNOWN | {"scope": scope} for scope in ("per_gpu", "per GPU", "per-device")])
    assert len({row["predicted_throughput"] for row in rows}) == 1
    assert float(rows[0]["predicted_throughput"]) * 8 == pytest.approx(
        float(predict_rows([KNOWN])[0]["predicted_throughput"]), rel=1e-5
    )


def test_weights_in_four_bits_are_no_format_to_compute_in():
    plain = predict_rows([KNOWN | {"precision": "", "peft": "qlora"}])[0]
    for stated in ("nf4", "4bit", "nf4+bf16"):
        assert predict_rows([KNOWN | {"precision": stated, "peft": "qlora"}])[0][ADDED[0]] == plain[ADDED[0]]


def test_answers_do_not_depend_on_what_must_not_be_read():
    told = predict_rows(
        [KNOWN | {"throughput": "1", "mfu": "0.01", "notes": "x", "tflops_per_gpu": "1", "mem_gib_per_gpu": "1"}]
    )
    silent = predict_rows([KNOWN])
    assert [told[0][name] for name in ADDED] == [silent[0][name] for name in ADDED]


cells = st.one_of(
    st.sampled_from(["", "nan", "-1", "0", "1e30", "8", "3.5", "text", "ünïcode", "1,024"]), st.text(max_size=8)
)


@given(st.dictionaries(st.sampled_from(READS), cells, max_size=12), st.booleans())
def test_weird_cells_give_an_answer_or_an_error_never_an_exception(row, known):
    out = predict_rows([KNOWN | row if known else row])[0]
    assert bool(out["error"]) != bool(out["predicted_throughput"])
    if not out["error"]:
        assert 0 < float(out["predicted_low"]) <= float(out["predicted_throughput"]) <= float(out["predicted_high"])


def test_it_reads_what_a_csv_reader_yields():
    text = "model,gpu,seq_len\nllama3-8b,A100-SXM4-80GB\n"
    out = predict_rows(list(csv.DictReader(io.StringIO(text))))
    assert out[0]["error"] == ""
    assert predict_rows([]) == []
