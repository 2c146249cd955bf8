import math

import numpy as np
import pytest

from estimator.rows.arrays import prepare
from estimator.rows.cells import figure, lab_of, read_row, size_in_name
from estimator.terms import Method, Recompute, Sharding

BASE = {"source": "lab/code@1:README.md", "model": "llama3-8b", "task": "llm-pretrain", "gpu": "A100-SXM4-80GB"}


def one(**cells):
    prepared = prepare([BASE | cells])
    assert prepared.errors == [""], prepared.errors
    return prepared


@pytest.mark.parametrize("cell", ["", "nan", "-3", "0", "inf", "eight", None])
def test_figures_that_make_no_sense_are_blank(cell):
    assert math.isnan(figure({"gpus": cell}, "gpus"))


@pytest.mark.parametrize(
    ("source", "lab"),
    [
        ("NVIDIA/NeMo@4c73f77670:docs/performance.md", "nvidia-nemo"),
        ("NVIDIA-NeMo/Megatron-Bridge@1:docs/perf.md", "nvidia-nemo"),
        ("mosaicml/examples@abc:README.md", "mosaicml"),
        ("mlcommons/training_results_v4.0@1:Dell/results/x", "mlperf"),
        ("https://github.com/pytorch/ao/issues/1", "pytorch/ao"),
        ("https://example.org/blog", "example.org/blog"),
    ],
)
def test_a_source_belongs_to_the_laboratory_of_its_repository(source, lab):
    assert lab_of(source) == lab


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("foo-13b", (13000, None)), ("bar-30b-a3b", (30000, 3000)), ("moe-8x7b", (56000, None)), ("plain", (None, None))],
)
def test_sizes_are_read_from_names(name, sizes):
    found = [None if math.isnan(v) else v for v in size_in_name(name)]
    assert tuple(found) == sizes


def test_columns_that_would_give_the_answer_away_are_never_read():
    told = one(gpus="8", throughput="1", mfu="0.9", notes="seq_len=99", tflops_per_gpu="500", mem_gib_per_gpu="9")
    silent = one(gpus="8")
    assert told.work.tokens == silent.work.tokens
    assert np.array_equal(told.amount, silent.amount)


def test_blank_sequence_lengths_are_training_lengths_never_the_context_limit():
    assert one(model="llama4-scout-17b-16e").work.tokens[0] == 2048
    tuned = one(task="llm-finetune", micro_batch="8")
    assert 100 < tuned.work.tokens[0] < 600


def test_batches_are_completed_from_what_is_stated():
    both = one(gpus="8", micro_batch="2", global_batch="64", sharding="fsdp").layout
    assert (both.micro_batch[0], both.grad_accum[0], both.data[0]) == (2, 4, 8)
    small = one(gpus="8", micro_batch="16", global_batch="8", sharding="fsdp").layout
    assert small.micro_batch[0] * small.data[0] == 8


def test_layouts_that_ask_for_more_gpus_than_there_are_are_cut_down():
    layout = one(gpus="4", tp="8", pp="4").layout
    assert layout.tensor[0] * layout.pipeline[0] <= 4


def test_a_model_that_cannot_fit_unsharded_is_sharded_and_recomputed_by_default():
    layout = one(model="llama3-70b", gpus="64", micro_batch="4").layout
    assert layout.sharding[0] == Sharding.ZERO3
    assert layout.recompute[0] == Recompute.FULL


LORA = {"task": "llm-finetune", "peft": "lora", "gpus": "1", "seq_len": "2048", "micro_batch": "2"}


@pytest.mark.parametrize(
    ("cells", "recompute"),
    [
        ({"framework": "unsloth"}, Recompute.FULL),
        ({"framework": "LLaMA-Factory 0.9"}, Recompute.FULL),
        ({"framework": "trl", "peft": "qlora"}, Recompute.FULL),  # prepare_model_for_kbit_training
        ({"framework": "trl"}, Recompute.NONE),
        ({"framework": "litgpt"}, Recompute.NONE),
        ({"framework": "unsloth", "act_ckpt": "none"}, Recompute.NONE),
        ({"framework": "unsloth", "peft": "", "model": "qwen3-0.6b"}, Recompute.NONE),
    ],
)
def test_software_for_adapters_recomputes_where_that_is_its_default(cells, recompute):
    assert one(**LORA | cells).layout.recompute[0] == recompute


def test_the_date_of_a_row_tells_how_its_4_bit_base_is_unpacked():
    dates = {"": 1.0, "2024-03": 1.0, "2025-09": 1.0, "2025-10": 0.0, "2026-08": 0.0}
    found = {date: one(**LORA, date=date).execution.early_dequantise[0] for date in dates}
    assert found == dates
    assert one(**LORA | {"peft": "gptq-lora", "date": "2024-03"}).execution.early_dequantise[0] == 0.0


def test_a_stated_expert_parallel_degree_tells_of_a_library_that_groups_its_experts():
    mixture = {"model": "mixtral-8x7b", "task": "llm-finetune", "framework": "hf-trainer"}
    assert [one(**mixture | {"ep": ep}).execution.looped[0] for ep in ("", "1", "2")] == [1.0, 0.0, 0.0]
    assert one(model="mixtral-8x7b", framework="megatron-core").execution.looped[0] == 0.0


def test_gemma_3_runs_in_fp32_where_a_card_has_no_bf16():
    asked = LORA | {"gpu": "T4", "precision": "amp-fp16", "framework": "unsloth"}
    wide, narrow = (one(**asked, model=name) for name in ("gemma3-4b", "llama3.2-3b"))
    assert wide.hardware.matmul_tflops[0] < 0.2 * narrow.hardware.matmul_tflops[0]


def test_samples_of_unknown_length_are_marked_and_padded_to_the_longest_of_a_micro_batch():
    lengths = [one(**LORA | {"seq_len": "", "micro_batch": n}) for n in ("1", "8")]
    assert [row.execution.length_assumed[0] for row in lengths] == [1.0, 1.0]
    assert 1.3 < lengths[1].work.tokens[0] / lengths[0].work.tokens[0] < 1.6
    assert one(**LORA | {"seq_len": "", "longest_sample": "200"}).work.tokens[0] == 200.0
    assert one(**LORA).execution.length_assumed[0] == 0.0
    assert one(gpus="8").execution.length_assumed[0] == 0.0


def test_where_nothing_is_said_of_the_batch_enough_is_accumulated_to_hide_the_gradients():
    asked = {"model": "gpt2-124m", "gpu": "RTX-4090", "gpus": "2", "seq_len": "1024"}
    assert one(**asked).layout.grad_accum[0] == 4.0
    assert one(**asked, micro_batch="4").layout.grad_accum[0] == 1.0
    assert one(**asked | {"gpus": "1"}).layout.grad_accum[0] == 1.0
    assert one(**asked | {"framework": "maxtext"}).layout.grad_accum[0] == 1.0


def test_megatron_rows_without_degrees_are_cut_by_tensor_then_pipeline():
    layout = one(model="gpt3-175b", gpus="128", framework="nemo-24.07").layout
    assert layout.tensor[0] == 8
    huge = one(model="megatron-gpt-1008b", gpus="512", framework="megatron-lm").layout
    assert huge.pipeline[0] > 1


def test_thousands_of_gpus_get_stages_rather_than_replicas_without_work():
    asked = {"model": "gpt3-175b", "stack": "tuned", "seq_len": "2048", "global_batch": "2688"}
    few, many = (one(gpus=gpus, **asked).layout for gpus in ("512", "10752"))
    assert many.pipeline[0] > few.pipeline[0]
    adapters = one(model="llama2-70b", stack="tuned", gpus="1024", global_batch="64", peft="lora").layout
    assert adapters.pipeline[0] * adapters.tensor[0] < 32


def test_tuned_encoders_leave_out_padding_and_tuned_convolutions_are_channels_last():
    bert = {"model": "bert-large", "gpus": "8", "seq_len": "512", "unit": "samples/s"}
    padded, real = one(**bert).work, one(**bert, stack="tuned").work
    assert real.matmul_flops[0] == pytest.approx(0.5 * padded.matmul_flops[0])
    resnet = {"model": "resnet50", "task": "image-classification", "gpus": "8"}
    layouts = [one(**resnet, **how).execution.channels_last[0] for how in ({}, {"stack": "tuned"})]
    assert layouts == [0.0, 1.0]


def test_units_and_scope_turn_seconds_into_the_rows_own_figure():
    cells = {"gpus": "8", "micro_batch": "1", "global_batch": "8", "seq_len": "1000"}
    two = np.array([2.0])
    assert one(**cells, unit="tokens/s").throughput(two)[0] == pytest.approx(4000)
    assert one(**cells, unit="tokens/s", scope="per_gpu").throughput(two)[0] == pytest.approx(500)
    assert one(**cells, unit="samples/s").throughput(two)[0] == pytest.approx(4)
    assert one(**cells, unit="s/step").throughput(two)[0] == pytest.approx(2)
    assert one(**cells, unit="ms/step").throughput(two)[0] == pytest.approx(2000)
    assert one(**cells).units == ["tokens/s"]


def test_throughput_and_seconds_are_each_others_inverse():
    prepared = one(gpus="8", unit="ms/step")
    assert prepared.seconds(prepared.throughput(np.array([3.0])))[0] == pytest.approx(3.0)


def test_methods_follow_peft_then_task():
    assert read_row(BASE | {"peft": "gptq-lora"}).method is Method.QLORA
    assert read_row(BASE | {"peft": "lora"}).method is Method.LORA
    assert read_row(BASE | {"task": "llm-finetune", "peft": "none"}).method is Method.FULL
    assert read_row(BASE).method is Method.PRETRAIN


def test_bf16_on_a_card_without_it_is_taken_at_the_fp32_rate():
    assert read_row(BASE | {"gpu": "T4", "precision": "bf16"}).format == "fp32"


def test_an_unknown_model_with_a_size_is_predicted_and_one_without_is_an_error():
    prepared = prepare([BASE | {"model": "brand-new-9b"}, BASE | {"model": "brand-new"}, BASE | {"gpu": "RTX-9999"}])
    assert prepared.rows[0].model.params_m == 9000
    assert prepared.errors[0] == ""
    assert "brand-new" in prepared.errors[1]
    assert "RTX-9999" in prepared.errors[2]
    assert prepared.index.tolist() == [0]


def test_a_guessed_recomputation_is_no_more_than_what_memory_asks_for():
    kinds = [
        one(
            model="llama3-8b", gpu="H100-SXM5-80GB", gpus="8", micro_batch=n, seq_len="4096", sharding="fsdp"
        ).layout.recompute[0]
        for n in ("1", "2", "3", "4", "5", "6", "7", "8")
    ]
    assert kinds == sorted(kinds)
    assert set(kinds) == set(Recompute)
