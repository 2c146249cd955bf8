from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts, resolve_model
from estimator.request.hf_config import facts_of_architecture, facts_of_config
from estimator.request.workload import Architecture
from tests.estimator.request.hf_configs import CHECKPOINTS

LLAMA = CHECKPOINTS["meta-llama/Meta-Llama-3-8B"][0]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_parameters_counted_from_a_config_are_those_of_the_checkpoint(name: str) -> None:
    config, published = CHECKPOINTS[name]
    facts, notes = facts_of_config(config)
    assert facts.params_m is not None
    assert facts.params_m * 1e6 == pytest.approx(published, rel=1e-3)
    assert notes == ()


@pytest.mark.parametrize(
    ("checkpoint", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama3-8b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3-671b"),
        ("google-bert/bert-base-uncased", "bert-base"),
        ("google-t5/t5-large", "t5-large"),
        ("google/gemma-2-9b", "gemma2-9b"),
        ("openai-community/gpt2", "gpt2-124m"),
    ],
)
def test_a_config_says_the_same_as_the_table_of_known_models(checkpoint: str, name: str) -> None:
    counted, _ = facts_of_config(CHECKPOINTS[checkpoint][0])
    known = resolve_model(name).model
    for field in fields(ModelFacts):
        ours, theirs = getattr(counted, field.name), getattr(known, field.name)
        if field.name in ("params_m", "active_params_m"):
            assert ours == (theirs and pytest.approx(theirs, rel=2e-3)), field.name
        elif field.name not in ("name", "task", "source"):
            assert ours == theirs, field.name


def test_a_mixture_of_experts_trains_fewer_parameters_a_token_than_it_has() -> None:
    facts, _ = facts_of_config(CHECKPOINTS["mistralai/Mixtral-8x7B-v0.1"][0])
    assert facts.kind == "moe"
    assert facts.active_params_m == pytest.approx(12_880, rel=1e-3)  # as mistral.ai states: 12.9B


def test_deepseek_has_dense_first_layers_and_a_shared_expert() -> None:
    facts, _ = facts_of_config(CHECKPOINTS["deepseek-ai/DeepSeek-V3"][0])
    assert (facts.dense_layers, facts.dense_ffn, facts.shared_experts) == (3, 18432, 1)
    assert facts.active_params_m == pytest.approx(37_000, rel=0.02)  # the report says 37B, output head included


def test_a_vision_transformer_costs_what_timm_counts() -> None:
    facts, _ = facts_of_config(CHECKPOINTS["google/vit-base-patch16-224"][0])
    assert facts.forward_gmacs == pytest.approx(17.58, rel=0.01)
    assert facts.forward_activations_m == pytest.approx(16.5, rel=0.02)


def test_only_the_language_part_of_a_multimodal_config_is_counted_and_said_so() -> None:
    facts, notes = facts_of_config({"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 1}})
    assert facts.params_m == pytest.approx(8_030, rel=1e-3)
    assert "language part" in notes[0]


def test_a_width_that_is_listed_for_every_layer_is_that_width() -> None:
    facts, _ = facts_of_config({**LLAMA, "intermediate_size": [14336] * 32})
    assert facts == facts_of_config(LLAMA)[0]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"peft_type": "LORA", "base_model_name_or_path": "x/y"}, "adapter_config.json; name the model below it"),
        ({"_class_name": "FluxTransformer2DModel", "num_layers": 19}, "diffusers"),
        ({"tokenizer_class": "LlamaTokenizer"}, "tokenizer's config"),
        ({"weight_map": {}}, "index of weights"),
        ({"zero_optimization": {"stage": 3}}, "DeepSpeed config"),
    ],
)
def test_a_file_from_beside_the_config_is_told_apart(config: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=said) as caught:
        facts_of_config(config)
    assert caught.value.field == "hf_config"


def test_an_unknown_masked_language_model_is_read_as_an_encoder() -> None:
    bert = CHECKPOINTS["google-bert/bert-base-uncased"][0]
    facts, notes = facts_of_config({**bert, "model_type": "new", "architectures": ["NewForMaskedLM"]})
    assert facts.kind == "encoder"
    assert "BERT-like encoder" in notes[0]


def test_an_unknown_model_type_with_the_usual_keys_works_with_a_warning() -> None:
    facts, notes = facts_of_config({**LLAMA, "model_type": "brand_new"})
    assert facts.params_m == pytest.approx(8_030, rel=1e-3)
    assert "brand_new" in notes[0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hidden_size": None}, "hf_config.hidden_size"),
        ({"num_hidden_layers": 0}, "hf_config.num_hidden_layers"),
        ({"num_hidden_layers": "many"}, "hf_config.num_hidden_layers"),
        ({"num_attention_heads": -4}, "hf_config.num_attention_heads"),
        ({"num_attention_heads": 33}, "hf_config.num_attention_heads"),
        ({"num_key_value_heads": 7}, "hf_config.num_key_value_heads"),
        ({"vocab_size": float("nan")}, "hf_config.vocab_size"),
        ({"vocab_size": True}, "hf_config.vocab_size"),
        ({"hidden_size": 4096.5}, "hf_config.hidden_size"),
        ({"num_local_experts": 4, "num_experts_per_tok": 8}, "hf_config.num_experts_per_tok"),
        ({"model_type": "mamba"}, "hf_config.model_type"),
        ({"model_type": "albert"}, "hf_config.model_type"),
        ({"intermediate_size": [14336, 7168]}, "hf_config.intermediate_size"),
    ],
)
def test_a_config_key_that_does_not_hold_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        facts_of_config({**LLAMA, **change})
    assert caught.value.field == field


def test_an_architecture_needs_only_layers_and_width() -> None:
    facts = facts_of_architecture(Architecture(layers=32, hidden=4096))
    assert facts.kind == "decoder"
    assert facts.heads == 32
    assert facts.params_m is not None
    assert facts.params_m > 6_000


def test_an_architecture_with_experts_is_a_mixture_of_experts() -> None:
    facts = facts_of_architecture(Architecture(layers=8, hidden=1024, experts=8, experts_per_token=2, ffn_hidden=4096))
    assert facts.kind == "moe"
    assert facts.active_params_m is not None
    assert facts.params_m is not None
    assert facts.active_params_m < facts.params_m


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"heads": 16, "kv_heads": 3}, "architecture.kv_heads"),
        ({"heads": 15}, "architecture.heads"),
        ({"kind": "moe"}, "architecture.experts"),
        ({"experts": 2, "experts_per_token": 4}, "architecture.experts_per_token"),
    ],
)
def test_an_architecture_that_contradicts_itself_is_refused(keys: dict[str, Any], field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        facts_of_architecture(Architecture(layers=8, hidden=1024, **keys))
    assert caught.value.field == field


@given(
    layers=st.integers(1, 200),
    heads=st.integers(1, 128),
    head_dim=st.sampled_from([32, 64, 128]),
    experts=st.one_of(st.none(), st.integers(2, 64)),
)
def test_parameters_are_positive_and_grow_with_depth(
    layers: int, heads: int, head_dim: int, experts: int | None
) -> None:
    def count(depth: int) -> float:
        shape = Architecture(layers=depth, hidden=heads * head_dim, heads=heads, experts=experts)
        return facts_of_architecture(shape).params_m or 0.0

    assert 0 < count(layers) < count(layers + 1)


ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**6),
    st.floats(),
    st.sampled_from(["", "auto", "12", "4096"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["a", "hidden_size"]), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from([*LLAMA, "head_dim", "num_experts", "text_config", "kv_lora_rank"]), ODD_VALUES))
def test_whatever_a_config_holds_it_is_read_or_refused_by_name(change: dict[str, Any]) -> None:
    refused: WorkloadError | None = None
    try:
        facts, _ = facts_of_config({**LLAMA, **change})
    except WorkloadError as error:
        refused = error
    assert (refused.field if refused else facts.params_m) is not None
    assert refused or (facts.params_m or 0) > 0
