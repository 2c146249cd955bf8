from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts, resolve_model
from estimator.request.custom import work_of_custom
from estimator.request.training import Training, need_data, training_of
from estimator.request.workload import Custom, Workload


def facts(name: str) -> ModelFacts:
    return resolve_model(name).model


def training(model: str = "llama3-8b", **keys: Any) -> Training:
    return training_of(Workload(model=model, **keys), facts(model))


def refusal(model: str = "llama3-8b", **keys: Any) -> WorkloadError:
    with pytest.raises(WorkloadError) as caught:
        training(model, **keys)
    return caught.value


def test_packed_tokens_fill_sequences() -> None:
    run = training(tokens="50M", seq_len=2048, global_batch=64, packing=True)
    assert run.samples == pytest.approx(50e6 / 2048)
    assert run.steps == math.ceil(50e6 / 2048 / 64)
    assert run.tokens == pytest.approx(50e6)
    assert run.padding_share == 0


def test_epochs_multiply_what_is_trained_on() -> None:
    once, thrice = (training(tokens="50M", seq_len=2048, global_batch=64, epochs=n) for n in (1, 3))
    assert thrice.tokens == pytest.approx(3 * (once.tokens or 0))
    assert thrice.steps == math.ceil(3 * 50e6 / 2048 / 64)


def test_padding_is_work_that_is_not_use() -> None:
    run = training(samples=1000, mean_tokens_per_sample=512, seq_len=2048, global_batch=10)
    assert run.steps == 100
    assert run.tokens == pytest.approx(512_000)
    assert run.padding_share == pytest.approx(0.75)


def test_packing_saves_what_padding_wastes() -> None:
    keys = {"samples": 1000, "mean_tokens_per_sample": 512, "seq_len": 2048, "global_batch": 10}
    assert training(**keys, packing=True).steps == 25
    assert training(**keys, packing=False).steps == 100


def test_samples_without_a_length_are_taken_as_full_and_said_so() -> None:
    run = training(samples=1000, seq_len=2048, global_batch=10)
    assert run.steps == 100
    assert "mean_tokens_per_sample" in {one.field for one in run.assumed}


def test_samples_longer_than_a_sequence_are_cut_and_said_so() -> None:
    run = training(samples=1000, mean_tokens_per_sample=4096, seq_len=2048, global_batch=10, packing=False)
    assert run.tokens == pytest.approx(1000 * 2048)
    assert any("cut" in warning for warning in run.warnings)


def test_an_own_cluster_without_a_stated_network_has_ethernet_and_says_so() -> None:
    own = [{"name": "lab", "gpu": "A100-SXM4-80GB:8", "nodes": 2}]
    assert any("network_gbps" in one.field for one in training(own=own, tokens="5M").assumed)
    (machine,) = Workload(model="llama3-8b", own=own).own
    assert machine.stated()["network_gbps"] == 10
    alone = [own[0] | {"nodes": 1}, own[0] | {"name": "fast", "network_gbps": 100}]
    assert not any("network_gbps" in one.field for one in training(own=alone, tokens="5M").assumed)


def test_images_are_samples() -> None:
    run = training("resnet50", images=1281167, epochs=90, image_size=224, global_batch=256)
    assert run.unit == "samples"
    assert run.steps == math.ceil(1281167 * 90 / 256)
    assert run.tokens is None


def test_without_data_there_is_a_shape_but_no_steps() -> None:
    run = training(seq_len=2048)
    assert (run.steps, run.samples) == (None, None)
    with pytest.raises(WorkloadError) as caught:
        need_data(run)
    assert caught.value.field == "tokens"


@pytest.mark.parametrize(
    ("model", "keys", "field"),
    [
        ("llama3-8b", {"images": 5}, "images"),
        ("llama3-8b", {"image_size": 224}, "image_size"),
        ("llama3-8b", {"seq_len": 8192 * 65}, "seq_len"),
        ("bert-large", {"seq_len": 1024}, "seq_len"),
        ("resnet50", {"tokens": 5}, "tokens"),
        ("resnet50", {"seq_len": 128}, "seq_len"),
        ("resnet50", {"packing": True}, "packing"),
        ("resnet50", {"mean_tokens_per_sample": 5}, "mean_tokens_per_sample"),
        ("resnet50", {"method": "lora"}, "method"),
        ("resnet50", {"tensor_parallel": 2}, "tensor_parallel"),
        ("llama3-8b", {"tensor_parallel": 3}, "tensor_parallel"),
        ("llama3-8b", {"tensor_parallel": 64}, "tensor_parallel"),
        ("llama3-8b", {"pipeline_parallel": 33}, "pipeline_parallel"),
        ("llama3-8b", {"expert_parallel": 2}, "expert_parallel"),
        ("llama3-8b", {"context_parallel": 3, "seq_len": 2048}, "context_parallel"),
        ("mixtral-8x7b", {"expert_parallel": 3}, "expert_parallel"),
        ("llama3-8b", {"tokens": 5, "packing": False}, "mean_tokens_per_sample"),
    ],
)
def test_what_contradicts_the_model_is_named(model: str, keys: dict[str, Any], field: str) -> None:
    assert refusal(model, **keys).field == field


def test_a_degree_that_does_not_divide_is_told_the_nearest_that_do() -> None:
    assert refusal(tensor_parallel=3).nearest == ("2", "4")
    assert refusal(pipeline_parallel=40).nearest == ("32",)


def test_what_divides_the_model_is_accepted() -> None:
    run = training(tensor_parallel=8, pipeline_parallel=4, context_parallel=2, seq_len=2048)
    assert run.seq_len == 2048
    assert training("mixtral-8x7b", expert_parallel=8).warnings == ()


def test_a_length_beyond_the_context_of_a_rotary_model_is_a_warning() -> None:
    run = training("llama2-7b", seq_len=8192)
    assert any("context" in warning for warning in run.warnings)


def test_every_value_that_was_left_open_is_listed() -> None:
    fields = {one.field for one in training(tokens="5M").assumed}
    assert {"seq_len", "global_batch", "method", "epochs", "precision", "optimizer", "packing"} <= fields
    given = training(
        tokens="5M",
        seq_len=2048,
        global_batch=8,
        method="full",
        epochs=1,
        precision="bf16",
        optimizer="sgd",
        packing=True,
    )
    assert given.assumed == ()


@pytest.mark.parametrize(
    ("model", "keys", "batch"),
    [
        ("llama3-8b", {"method": "pretrain", "seq_len": 2048}, 2**21 // 2048),
        ("gpt2-124m", {"method": "pretrain", "seq_len": 1024}, 2**19 // 1024),
        ("llama3-8b", {"method": "lora"}, 64),
        ("bert-large", {"method": "pretrain", "seq_len": 512}, 256),
        ("resnet50", {}, 256),
        ("llama3-8b", {"micro_batch": 16, "grad_accum": 8}, 128),
    ],
)
def test_the_global_batch_that_people_expect_is_assumed(model: str, keys: dict[str, Any], batch: int) -> None:
    assert training(model, **keys).global_batch == batch


def test_a_run_smaller_than_one_batch_is_one_step_with_a_warning() -> None:
    run = training(samples=10, global_batch=64)
    assert run.steps == 1
    assert any("single step" in warning for warning in run.warnings)


def test_a_custom_model_counts_its_own_samples() -> None:
    request = Workload(custom={"params_m": 25.6, "flops_per_sample": "24.6G"}, samples=1000, global_batch=10)
    shape = ModelFacts(name="custom", kind="custom", params_m=25.6)
    assert training_of(request, shape).steps == 100
    work = work_of_custom(Custom(params_m=25.6, flops_per_sample="24.6G", activation_bytes_per_sample="100M"))
    assert (work.params, work.matmul_flops, work.stored_values) == (25.6e6, 8.2e9, 50e6)


@given(
    tokens=st.floats(1, 1e15),
    seq_len=st.sampled_from([128, 512, 2048, 8192]),
    batch=st.integers(1, 4096),
    epochs=st.floats(0.01, 100),
    mean=st.one_of(st.none(), st.floats(1, 10_000)),
)
def test_more_data_never_takes_fewer_steps(
    tokens: float, seq_len: int, batch: int, epochs: float, mean: float | None
) -> None:
    def steps(amount: float) -> int:
        run = training(
            tokens=amount,
            seq_len=seq_len,
            global_batch=batch,
            epochs=epochs,
            mean_tokens_per_sample=mean,
            packing=mean is None,
        )
        assert run.samples is not None
        assert run.tokens is not None
        assert 0 <= run.padding_share < 1
        assert math.isfinite(run.samples)
        return need_data(run)

    assert 1 <= steps(tokens) <= steps(tokens * 2)
