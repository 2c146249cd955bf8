from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.request.workload import InvalidWorkload, Sort, Workload, nested
from estimator.terms import ActivationCheckpointing, Method, Optimizer, Precision, ShardingKind

EXAMPLE = """
model: llama3-8b
method: lora
lora: {rank: 16, targets: all-linear}
tokens: 50M
epochs: 1
seq_len: 2048
packing: true
precision: bf16
global_batch: 64
optimizer: adamw
activation_checkpointing: auto
sharding: auto
software: ordinary
own: [{name: lab, gpu: RTX-3090, gpus_per_node: 8, nodes: 1, usd_per_hour: 0.40}]
constraints: {deadline: 24h, budget: 500, clouds: [aws, gcp], regions: ['us-*'], gpus: ['H100:8'],
              markets: [on-demand, spot], max_nodes: 64}
options: {top: 10, sort: cost}
"""


def refusal(**keys: Any) -> WorkloadError:
    with pytest.raises(WorkloadError) as caught:
        Workload(**{"model": "llama3-8b", **keys})
    return caught.value


def test_the_request_of_the_interface_page_is_read_whole() -> None:
    request = Workload.from_yaml(EXAMPLE)
    assert request.tokens == 50e6
    assert request.method is Method.LORA
    assert request.constraints.deadline == 24
    assert request.constraints.budget == 500
    assert request.constraints.gpus == ("H100:8",)
    assert request.own[0].usd_per_hour == 0.4
    assert request.options.sort is Sort.COST


def test_yaml_json_flags_and_python_make_the_same_request() -> None:
    python = Workload(model="gpt2-124m", tokens=1e9, constraints={"deadline": 24, "gpus": ["H100:8"]})
    assert Workload.from_yaml("model: gpt2-124m\ntokens: 1B\nconstraints: {deadline: 1 day, gpus: 'H100:8'}") == python
    assert (
        Workload.from_yaml(
            '{"model": "gpt2-124m", "tokens": 1e9, "constraints": {"deadline": "24h", "gpus": ["H100:8"]}}'
        )
        == python
    )
    assert Workload.from_flat({"model": "gpt2-124m", "tokens": "1000M", "deadline": "24:00", "gpu": "H100:8"}) == python


def test_a_request_survives_its_own_json() -> None:
    request = Workload.from_yaml(EXAMPLE)
    assert Workload.model_validate(json.loads(request.model_dump_json())) == request
    assert Workload.model_validate(request.model_dump(exclude_unset=True)) == request


def test_a_request_cannot_be_changed() -> None:
    request = Workload(model="llama3-8b")
    with pytest.raises(Exception, match="frozen"):
        request.tokens = 5.0  # type: ignore[misc]


def test_the_schema_can_be_published() -> None:
    schema = Workload.model_json_schema()
    assert set(schema["properties"]) == set(Workload.model_fields)
    assert json.dumps(schema)


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"tokens": -1}, "tokens"),
        ({"tokens": 0}, "tokens"),
        ({"tokens": 1e30}, "tokens"),
        ({"tokens": "1e30"}, "tokens"),
        ({"tokens": float("nan")}, "tokens"),
        ({"tokens": "lots"}, "tokens"),
        ({"tokens": True}, "tokens"),
        ({"tokens": []}, "tokens"),
        ({"samples": "-5k"}, "samples"),
        ({"images": 1e20}, "images"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1e9}, "epochs"),
        ({"seq_len": 0}, "seq_len"),
        ({"seq_len": 10**9}, "seq_len"),
        ({"seq_len": 20.5}, "seq_len"),
        ({"image_size": 100_000}, "image_size"),
        ({"mean_tokens_per_sample": 0}, "mean_tokens_per_sample"),
        ({"packing": "perhaps"}, "packing"),
        ({"precision": "bf17"}, "precision"),
        ({"method": "magic"}, "method"),
        ({"optimizer": "adamz"}, "optimizer"),
        ({"activation_checkpointing": "some"}, "activation_checkpointing"),
        ({"sharding": "zero4"}, "sharding"),
        ({"software": "best"}, "software"),
        ({"attention": "linear"}, "attention"),
        ({"memory_format": "rows"}, "memory_format"),
        ({"data_kind": "fake"}, "data_kind"),
        ({"global_batch": 0}, "global_batch"),
        ({"global_batch": 1e12}, "global_batch"),
        ({"micro_batch": -2}, "micro_batch"),
        ({"micro_batch": "most"}, "micro_batch"),
        ({"micro_batch": 8, "global_batch": 4}, "micro_batch"),
        ({"tokens": 1e-9}, "tokens"),
        ({"samples": 0.5}, "samples"),
        ({"mean_tokens_per_sample": 1e-9}, "mean_tokens_per_sample"),
        ({"micro_batch": 7, "global_batch": 64}, "micro_batch"),
        ({"micro_batch": 4, "grad_accum": 3, "global_batch": 64}, "grad_accum"),
        ({"own": [{"name": "lab", "gpu": "T4", "gpus_per_node": 2.5}]}, "own.0.gpus_per_node"),
        ({"own": ["name=lab,gpu=T4", "name=lab,gpu=L4"]}, "own.1.name"),
        ({"constraints": {"gpus": ["H100:8:8"]}}, "constraints.gpus"),
        ({"grad_accum": 0}, "grad_accum"),
        ({"grad_accum": 8, "micro_batch": 2, "global_batch": 8}, "grad_accum"),
        ({"tensor_parallel": 0}, "tensor_parallel"),
        ({"tensor_parallel": 1e6}, "tensor_parallel"),
        ({"pipeline_parallel": "x"}, "pipeline_parallel"),
        ({"context_parallel": 1.5}, "context_parallel"),
        ({"expert_parallel": -1}, "expert_parallel"),
        ({"cpu_offload": "maybe"}, "cpu_offload"),
        ({"lora": {"rank": 0}, "method": "lora"}, "lora.rank"),
        ({"lora": {"rank": 8, "targets": []}, "method": "lora"}, "lora.targets"),
        ({"lora": {"rank": 8}}, "method"),
        ({"lora": 16, "method": "lora"}, "lora"),
        ({"model": ""}, "model"),
        ({"model": 8}, "model"),
        ({"model": None}, "model"),
        ({"custom": {"params_m": 25}}, "custom.flops_per_sample"),
        ({"custom": {"params_m": -25, "flops_per_sample": 1}}, "custom.params_m"),
        ({"architecture": {"layers": 0, "hidden": 8}}, "architecture.layers"),
        ({"architecture": {"hidden": 8}}, "architecture.layers"),
        ({"architecture": {"kind": "resnet", "layers": 1, "hidden": 8}}, "architecture.kind"),
        ({"hf_config": 5}, "hf_config"),
        ({"own": [{"gpu": "RTX-3090"}]}, "own.0.name"),
        ({"own": [{"name": "lab", "gpu": "RTX-3090", "usd_per_hour": -1}]}, "own.0.usd_per_hour"),
        ({"own": [{"name": "lab", "gpu": "RTX-3090", "gpus_per_node": 0}]}, "own.0.gpus_per_node"),
        ({"own": "lab"}, "own"),
        ({"own": "name=lab,gpu=A100,gpu=H100"}, "own"),
        ({"own": 7}, "own"),
        ({"constraints": {"deadline": "-1h"}}, "constraints.deadline"),
        ({"constraints": {"deadline": "soon"}}, "constraints.deadline"),
        ({"constraints": {"deadline": 0}}, "constraints.deadline"),
        ({"constraints": {"budget": "€500"}}, "constraints.budget"),
        ({"constraints": {"budget": 0}}, "constraints.budget"),
        ({"constraints": {"markets": ["futures"]}}, "constraints.markets.0"),
        ({"constraints": {"gpus": ["H100:0"]}}, "constraints.gpus"),
        ({"constraints": {"gpus": ["H100:many"]}}, "constraints.gpus"),
        ({"constraints": {"gpus": [":8"]}}, "constraints.gpus"),
        ({"constraints": {"gpus": 8}}, "constraints.gpus"),
        ({"constraints": {"max_nodes": 0}}, "constraints.max_nodes"),
        ({"constraints": {"min_nodes": 4, "max_nodes": 2}}, "constraints.min_nodes"),
        ({"constraints": {"accelerators": "gaudi"}}, "constraints.accelerators"),
        ({"constraints": {"quotas": "max_gpus=-1"}}, "constraints.quotas.0.max_gpus"),
        ({"constraints": {"quotas": ["aws"]}}, "constraints.quotas"),
        ({"constraints": []}, "constraints"),
        ({"options": {"top": 0}}, "options.top"),
        ({"options": {"sort": "beauty"}}, "options.sort"),
        ({"tokens": 5, "samples": 5}, "samples"),
        ({"architecture": {"layers": 2, "hidden": 8}}, "architecture"),
    ],
)
def test_a_wrong_field_is_named(keys: dict[str, Any], field: str) -> None:
    if field.startswith(("custom", "architecture.")):
        keys = {"model": None, **keys}
    error = refusal(**keys)
    assert error.field == field
    assert str(error).startswith(f"{field}: ")
    assert "validation error" not in str(error)


@pytest.mark.parametrize(
    ("keys", "nearest"),
    [
        ({"precision": "bf17"}, "bf16"),
        ({"method": "loar"}, "lora"),
        ({"optimizer": "adamx"}, "adamw"),
        ({"sharding": "zero4"}, "zero3"),
        ({"seq_len": 10**9}, str(16 * 2**20)),
        ({"seq_len": 0}, "1"),
        ({"micro_batch": 8, "global_batch": 4}, "4"),
        ({"epochs": 2.0, "global_batch": 2.5}, "2"),
        ({"micro_batch": 7, "global_batch": 64}, "8"),
        ({"constraints": {"markets": ["spto"]}}, "spot"),
        ({"options": {"sort": "cots"}}, "cost"),
        ({"tokns": 5}, "tokens"),
        ({"batch_size": 5}, "global_batch"),
        ({"model[": 5}, "model"),
        ({"seq-len": 5}, "seq_len"),
        ({"deadline": "24h"}, "constraints.deadline"),
        ({"gpu": "H100"}, "constraints.gpus"),
        ({"lora_r": 8}, "lora.rank"),
        ({"constraints": {"budgte": 5}}, "budget"),
        ({"options": {"limit": 5, "topp": 3}}, "top"),
        ({"constraints": {"quotas": [{"max_gpu": 3}]}}, "max_gpus"),
        ({"own": [{"name": "a", "gpu": "T4", "price": 1}]}, "usd_per_hour"),
    ],
)
def test_the_nearest_valid_value_is_offered(keys: dict[str, Any], nearest: str) -> None:
    error = refusal(**keys)
    errors = error.errors if isinstance(error, InvalidWorkload) else (error,)
    assert any(nearest in one.nearest for one in errors)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"constraints": 5}, "5: must hold keys and values"),
        ({"model": ["x"]}, "['x']: must be text"),
        ({"model": ""}, "'': must not be empty"),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_in_the_words_of_a_request(keys: dict[str, Any], message: str) -> None:
    assert refusal(**keys).message == message


def test_all_wrong_fields_are_named_at_once() -> None:
    error = refusal(tokens=-1, precision="bf17", sed_len=3)
    assert isinstance(error, InvalidWorkload)
    assert [one.field for one in error.errors] == ["tokens", "precision", "sed_len"]
    assert all(one.field and one.field in str(error) for one in error.errors)


@pytest.mark.parametrize("body", [None, [], "llama3-8b", 5, {}, {"name": "nothing else"}])
def test_what_is_no_request_is_refused(body: Any) -> None:
    with pytest.raises(WorkloadError):
        Workload.model_validate(body)


def test_names_that_other_tools_use_are_understood() -> None:
    request = Workload(
        model="x",
        precision="bfloat16",
        optimizer="adamw_bnb_8bit",
        sharding="FSDP",
        activation_checkpointing=True,
        method="fine-tune",
        constraints={"markets": "ondemand, preemptible"},
    )
    assert request.precision is Precision.BF16
    assert request.optimizer is Optimizer.ADAMW_8BIT
    assert request.sharding is ShardingKind.ZERO3
    assert request.activation_checkpointing is ActivationCheckpointing.FULL
    assert request.method is Method.FULL
    assert [market.value for market in request.constraints.markets or ()] == ["on-demand", "spot"]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("precision", "amp-bf16", "bf16"),  # as tables of measurements have it
        ("precision", "torch.bfloat16", "bf16"),
        ("precision", "amp_fp16", "fp16"),
        ("sharding", "ZeRO stage 3", "zero3"),
        ("sharding", "stage2", "zero2"),
        ("attention", "FA2", "flash"),
        ("seq_len", "8k", 8192),
        ("seq_len", "128K", 131_072),
        ("seq_len", "2,000", 2000),
        ("global_batch", "1k", 1000),
    ],
)
def test_words_and_lengths_of_the_field_are_read_as_it_means_them(key: str, text: str, value: object) -> None:
    assert getattr(Workload.model_validate({"model": "x", key: text}), key) == value


def test_an_own_machine_can_be_written_in_one_line() -> None:
    request = Workload(model="x", own="name=lab,gpu=RTX-3090,gpus_per_node=8,usd_per_hour=0")
    assert (request.own[0].name, request.own[0].gpus_per_node, request.own[0].usd_per_hour) == ("lab", 8.0, 0.0)


def test_an_own_machine_without_a_price_is_unpriced_and_not_free() -> None:
    assert Workload(model="x", own=[{"name": "lab", "gpu": "T4"}]).own[0].usd_per_hour is None


def test_flat_keys_fall_into_their_sections() -> None:
    assert nested({"model": "x", "cloud": "aws", "deadline": "1h", "top": 3, "lora.rank": 8, "budget": None}) == {
        "model": "x",
        "constraints": {"clouds": "aws", "deadline": "1h"},
        "options": {"top": 3},
        "lora": {"rank": 8},
    }


def test_flat_keys_are_laid_over_a_file_key_by_key() -> None:
    base = {"model": "x", "constraints": {"deadline": "1h", "budget": 5}}
    assert nested({"budget": 9}, base)["constraints"] == {"deadline": "1h", "budget": 9}
    assert base["constraints"] == {"deadline": "1h", "budget": 5}


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("model: [x\ntokens: 5\n", "line 2, column"),
        ("model: x\n\ttokens: 5\n", "line 2, column 1"),
        ("model: x\nmodel: y\n", "line 2, column 1"),
        ("model: x\n1: y\n", "line 2, column 1"),
        ("model: 'x\n", "line 2, column"),
        ("a: b: c\n", "line 1, column"),
        ("model: !!python/object:os.system x", "line 1, column 8"),
        ("model: *nobody", "line 1, column 8"),
    ],
)
def test_unreadable_yaml_says_line_and_column(text: str, where: str) -> None:
    with pytest.raises(WorkloadError, match=where):
        Workload.from_yaml(text)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "just words", "[" * 3000, "model: x\x00", "5"])
def test_a_text_that_holds_no_request_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError):
        Workload.from_yaml(text)


def test_yaml_words_stay_words_and_clock_times_stay_times() -> None:
    request = Workload.from_yaml("model: no\nname: 2026-01-01\nconstraints: {deadline: 24:00, regions: [on, off]}\n")
    assert (request.model, request.name) == ("no", "2026-01-01")
    assert request.constraints.regions == ("on", "off")
    assert request.constraints.deadline == 24


def test_a_config_named_by_a_file_is_read_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
    (tmp_path / "request.yaml").write_text("hf_config: model\ntokens: 5M\n")
    request = Workload.from_yaml(tmp_path / "request.yaml")
    assert request.hf_config == {"model_type": "llama", "hidden_size": 64}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"model: \xe9"])
def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "request.yaml").write_bytes(content)
    with pytest.raises(WorkloadError, match="UTF-8"):
        Workload.from_yaml(tmp_path / "request.yaml")


def test_a_byte_order_mark_does_not_hurt(tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_bytes(b"\xef\xbb\xbfmodel: x\n")
    assert Workload.from_yaml(tmp_path / "request.yaml").model == "x"


@pytest.mark.parametrize("name", ["missing.yaml", ".", "with\0zero"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkloadError):
        Workload.from_yaml(tmp_path / name)


# --- any input ---------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from(["", "auto", "50M", "-1", "1e30", "lora", "bf16", "24h", "$5", "H100:8", "x" * 400, "\x1b[31m"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["rank", "gpus", "top", "layers", "name", "?"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("key", ["str", "int", "function-before[x]", "a(b", "", "model.x"])
def test_any_unknown_key_is_named_as_it_is_written(key: str) -> None:
    assert refusal(**{key: 1}).field == (key or "request")
    assert refusal(constraints={key: 1}).field == f"constraints.{key}".rstrip(".")


@given(st.dictionaries(st.sampled_from([*Workload.model_fields, "unknown", "", "str", "int["]), VALUES, max_size=6))
def test_any_request_is_read_or_refused_with_named_fields(body: dict[str, Any]) -> None:
    refused: WorkloadError | None = None
    try:
        Workload.model_validate(body)
    except WorkloadError as error:
        refused = error
    assert refused is None or refused.field


def test_an_own_machine_takes_its_count_from_the_gpu_and_its_network_in_words() -> None:
    machine = Workload(model="x", own=[{"name": "lab", "gpu": "RTX-3090:8", "rdma": True, "purchase_usd": "$20k"}]).own[
        0
    ]
    assert (machine.gpu, machine.gpus_per_node, machine.rdma, machine.purchase_usd) == (
        "RTX-3090",
        8,
        "infiniband",
        20e3,
    )
    assert refusal(own=[{"name": "lab", "gpu": "T4", "pue": 0.5}]).nearest == ("1",)
    assert refusal(own=[{"name": "lab", "gpu": "T4", "rdma": "wifi"}]).field == "own.0.rdma"
