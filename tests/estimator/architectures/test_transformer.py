from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts, resolve_model
from estimator.architectures import work_of
from estimator.architectures.transformer import adapter_params, shape_of, size_of, work
from estimator.terms import Method

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def facts(name):
    return resolve_model(name).model


@pytest.mark.parametrize(
    "name", ["gpt2-124m", "llama2-7b", "llama3-70b", "mixtral-8x7b", "qwen3-235b-a22b", "bert-large"]
)
def test_parameters_counted_from_the_shape_agree_with_the_published_ones(name):
    model = facts(name)
    bare = replace(model, params_m=None, active_params_m=None)
    counted = size_of(shape_of(model), bare)
    assert counted.total / 1e6 == pytest.approx(model.params_m, rel=0.03)
    if model.active_params_m:
        assert counted.active / 1e6 == pytest.approx(model.active_params_m, rel=0.03)


def test_a_dense_forward_pass_is_two_flops_a_weight_and_token_beside_attention():
    model = facts("llama2-7b")
    made = work(model, seq_len=2048)
    assert made.matmul_flops == pytest.approx(2 * 6.607e9 * 2048, rel=0.01)  # all but the input embedding
    assert made.attention_flops == pytest.approx(2 * 32 * 2048**2 * 4096)  # causal: half of the square


def test_activations_follow_korthikanti():
    made = work(facts("gpt2-124m"), seq_len=1024)
    assert made.stored_values / (12 * 1024 * 768) == pytest.approx(16)  # 34 bytes / 2, less the dropout masks
    assert made.stored_values_full == 12 * 1024 * 768


def test_lora_trains_only_adapters_and_needs_no_weight_gradients():
    full, lora = (work(facts("llama3-8b"), method=m) for m in (Method.FULL, Method.LORA))
    assert lora.params == full.params
    assert 30e6 < lora.trainable_params < 50e6  # rank 16 on all linear layers: 42M
    assert 1.0 < lora.backward_ratio < 1.05
    assert full.backward_ratio == 2.0


def test_adapters_grow_with_rank_and_targets():
    shape = shape_of(facts("llama3-8b"))
    assert adapter_params(shape, rank=16, targets="qv") == 2 * adapter_params(shape, rank=8, targets="qv")
    assert adapter_params(shape, rank=8, targets="qv") < adapter_params(shape, rank=8, targets="all-linear")


def test_a_mixture_computes_its_active_experts_and_holds_them_all():
    made = work(facts("mixtral-8x7b"))
    assert made.expert_params > 0.9 * made.params
    met = (made.matmul_flops + made.expert_flops) / 2 / made.tokens
    assert met == pytest.approx(12.75e9, rel=0.03)


def test_a_hybrid_attends_in_a_few_layers_and_scans_in_the_others():
    model = facts("nemotron3-nano-30b-a3b")
    near, far = work(model, seq_len=4096), work(model, seq_len=8192)
    attending = replace(model, attention_layers=None, recurrent_layers=None, recurrent_width=None)
    assert 2.0 < far.attention_flops / near.attention_flops < 3.5  # a scan grows with the length, not its square
    assert work(attending, seq_len=16_384).attention_flops > 1.5 * work(model, seq_len=16_384).attention_flops


def test_experts_in_a_latent_space_are_sent_and_held_in_its_width():
    model = facts("nemotron3-super-120b-a12b")
    made, plain = work(model, seq_len=4096), work(replace(model, expert_hidden=None), seq_len=4096)
    assert (made.expert_hidden, plain.expert_hidden) == (1024.0, 4096.0)
    assert made.elementwise_values < plain.elementwise_values
    assert size_of(shape_of(model), model).experts == pytest.approx(40 * 512 * 2 * 1024 * 2688, rel=0.03)


def test_eager_attention_moves_its_scores_through_memory():
    eager, flash = (work(facts("gpt2-124m"), attention=a) for a in ("eager", "flash"))
    assert eager.elementwise_values > flash.elementwise_values
    assert eager.matmul_flops == flash.matmul_flops


def test_nothing_known_is_an_error_not_a_guess():
    with pytest.raises(WorkloadError, match="neither shape nor size"):
        work(ModelFacts(name="mystery", kind="size-only"))


@given(st.floats(5.0, 2e6), st.floats(16, 65536))
def test_a_model_of_any_size_gets_a_shape_of_about_that_size(params_m, seq_len):
    made = work_of(ModelFacts(name="any", kind="size-only", params_m=params_m), seq_len=seq_len)
    assert made.params / 1e6 == pytest.approx(params_m, rel=0.05)
    assert made.matmul_flops > 0
    assert made.kernels > 0


@given(st.integers(128, 32768))
def test_work_grows_with_the_sequence(seq_len):
    model = facts("llama3-8b")
    short, long = work(model, seq_len=seq_len), work(model, seq_len=2 * seq_len)
    assert long.matmul_flops == pytest.approx(2 * short.matmul_flops)
    assert long.attention_flops == pytest.approx(4 * short.attention_flops)
    assert long.stored_values == pytest.approx(2 * short.stored_values)
