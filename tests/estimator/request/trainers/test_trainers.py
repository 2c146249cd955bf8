from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.job import facts_of
from estimator.request.trainers import TRAINERS, trainer_of, translated
from estimator.request.workload import Workload

AXOLOTL: dict[str, Any] = {
    "base_model": "NousResearch/Meta-Llama-3-8B",
    "load_in_4bit": True,
    "adapter": "qlora",
    "lora_r": 32,
    "lora_alpha": 16,
    "lora_target_linear": True,
    "datasets": [{"path": "aaditya/alpaca_subset_1", "type": "alpaca"}],
    "sequence_len": 4096,
    "sample_packing": True,
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "num_epochs": 4,
    "optimizer": "paged_adamw_32bit",
    "learning_rate": 0.0002,
    "bf16": "auto",
    "tf32": False,
    "gradient_checkpointing": True,
    "flash_attention": True,
    "deepspeed": "deepspeed_configs/zero2.json",
    "weight_decay": 0.0,
}
LLAMA_FACTORY: dict[str, Any] = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct",
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "lora",
    "lora_rank": 8,
    "lora_target": "all",
    "dataset": "identity,alpaca_en_demo",
    "template": "llama3",
    "cutoff_len": 2048,
    "max_samples": 1000,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 8,
    "learning_rate": 1.0e-4,
    "num_train_epochs": 3.0,
    "bf16": True,
    "use_unsloth": True,
}
TORCHTUNE: dict[str, Any] = {
    "model": {
        "_component_": "torchtune.models.llama3.lora_llama3_8b",
        "lora_attn_modules": ["q_proj", "v_proj", "output_proj"],
        "apply_lora_to_mlp": True,
        "lora_rank": 8,
        "lora_alpha": 16,
    },
    "tokenizer": {"_component_": "torchtune.models.llama3.llama3_tokenizer", "path": "/x", "max_seq_len": 8192},
    "dataset": {"_component_": "torchtune.datasets.alpaca_dataset", "packed": True},
    "optimizer": {"_component_": "torch.optim.AdamW", "fused": True, "lr": 3e-4},
    "epochs": 1,
    "max_steps_per_epoch": None,
    "batch_size": 2,
    "gradient_accumulation_steps": 8,
    "dtype": "bf16",
    "enable_activation_checkpointing": True,
    "compile": False,
}
ARGUMENTS: dict[str, Any] = {
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_train_epochs": 3,
    "fp16": True,
    "optim": "adamw_torch",
    "gradient_checkpointing": False,
    "fsdp": "full_shard auto_wrap offload",
    "group_by_length": True,
}
DEEPSPEED: dict[str, Any] = {
    "train_batch_size": 256,
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "nvme"}},
    "bf16": {"enabled": True},
    "fp16": {"enabled": False},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "steps_per_print": 10,
}


def workload(config: dict[str, Any], **more: Any) -> Workload:
    return Workload.model_validate(translated(config).request | more)


def test_each_trainer_is_known_by_its_own_keys() -> None:
    configs = {
        "axolotl": AXOLOTL,
        "LLaMA-Factory": LLAMA_FACTORY,
        "torchtune": TORCHTUNE,
        "Hugging Face TrainingArguments": ARGUMENTS,
        "DeepSpeed": DEEPSPEED,
    }
    assert {name: trainer_of(config) for name, config in configs.items()} == {name: name for name in TRAINERS}
    assert trainer_of({"model": "llama3-8b", "tokens": "5M", "batch_size": 3}) is None
    assert trainer_of({}) is None


def test_axolotl_says_what_is_trained_and_how() -> None:
    request = workload(AXOLOTL, tokens="5M")
    assert (request.method, request.seq_len, request.packing, request.epochs) == ("qlora", 4096, True, 4)
    assert request.lora is not None
    assert (request.lora.rank, request.lora.alpha, request.lora.targets) == (32, 16, "all-linear")
    assert (request.micro_batch, request.global_batch) == (2, 8)
    assert (request.precision, request.optimizer, request.sharding) == ("auto", "adamw", "zero2")
    assert (request.activation_checkpointing, request.attention) == ("full", "flash")
    assert facts_of(request)[0].name == "llama3-8b"
    assert translated(AXOLOTL).unsupported == ()


def test_llama_factory_lists_what_it_cannot_carry_over() -> None:
    found = translated(LLAMA_FACTORY)
    request = workload(LLAMA_FACTORY)
    assert (request.method, request.samples, request.global_batch, request.precision) == ("lora", 1000, 8, "bf16")
    assert request.activation_checkpointing == "full"  # on unless disabled
    assert [text.partition(" ")[0] for text in found.unsupported] == ["use_unsloth"]


def test_torchtune_names_model_and_adapters_by_component() -> None:
    request = workload(TORCHTUNE, samples=1000)
    assert facts_of(request)[0].name == "llama3-8b"
    assert (request.method, request.seq_len, request.packing, request.precision) == ("lora", 8192, True, "pure-bf16")
    assert request.global_batch == 16
    assert translated(TORCHTUNE).unsupported == ()


def test_training_arguments_need_a_model_beside_them() -> None:
    with pytest.raises(WorkloadError) as caught:
        workload(ARGUMENTS)
    assert caught.value.field == "model"
    request = workload(ARGUMENTS, model="gpt2-124m", tokens="5M")
    assert (request.sharding, request.cpu_offload, request.precision) == ("zero3", True, "fp16")
    assert request.activation_checkpointing == "none"
    assert "group_by_length" in translated(ARGUMENTS).unsupported[0]


def test_deepspeed_states_the_batch_of_all_gpus() -> None:
    found = translated(DEEPSPEED)
    request = workload(DEEPSPEED, model="gpt2-124m", tokens="5M")
    assert (request.global_batch, request.micro_batch, request.sharding) == (256, 4, "zero3")
    assert (request.cpu_offload, request.precision) == (True, "bf16")
    assert found.notes == ()
    assert "nvme" in found.unsupported[0]


def test_a_deepspeed_file_that_is_there_is_read() -> None:
    found = translated(AXOLOTL, {"deepspeed_configs/zero2.json": DEEPSPEED}.get)
    assert found.request["sharding"] == "zero3"
    assert found.request["global_batch"] == 8
    assert any(text.startswith("deepspeed.") for text in found.unsupported)


def test_weights_that_nobody_knows_are_listed_and_left_out() -> None:
    found = translated(
        AXOLOTL | {"lora_target_linear": None, "lora_target_modules": ["q_proj", "v_proj", "score_of_mine"]}
    )
    assert found.request["lora"]["targets"] == ["q_proj", "v_proj"]
    assert found.unsupported == ("lora_target_modules (score_of_mine not known)",)


def test_steps_override_the_data_set() -> None:
    found = translated(AXOLOTL | {"max_steps": 100})
    assert found.request["samples"] == 800
    assert "epochs" not in found.request
    assert any("800 samples" in note for note in found.notes)


@pytest.mark.parametrize(
    ("config", "key"),
    [(AXOLOTL, "magic_speedup"), (LLAMA_FACTORY, "magic_speedup"), (TORCHTUNE, "magic_speedup"), (DEEPSPEED, "magic")],
)
def test_a_key_that_nobody_knows_is_listed(config: dict[str, Any], key: str) -> None:
    assert key in translated(config | {key: True}).unsupported


SCRIPT: dict[str, Any] = {
    "model_name_or_path": "meta-llama/Llama-3.2-1B", "dataset_name": "x/y", "use_peft": True, "lora_r": 16,
    "load_in_4bit": True, "max_length": 1024, "per_device_train_batch_size": 4, "num_train_epochs": 2, "bf16": True,
    "attn_implementation": "flash_attention_2", "max_train_samples": 500, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_a_script_s_arguments_name_model_length_and_adapters() -> None:
    request = workload(SCRIPT)
    assert facts_of(request)[0].name == "llama3.2-1b"
    assert (request.method, request.seq_len, request.samples, request.attention) == ("qlora", 1024, 500, "flash")
    assert request.lora is not None
    assert request.lora.rank == 16
    assert translated(SCRIPT).unsupported == ()


def test_dora_is_planned_as_lora_and_said() -> None:
    found = translated(AXOLOTL | {"adapter": "dora", "load_in_4bit": False})
    assert found.request["method"] == "lora"
    assert found.unsupported == ("adapter (slower than LoRA)",)


@pytest.mark.parametrize("config", [AXOLOTL, LLAMA_FACTORY, TORCHTUNE, ARGUMENTS])
def test_the_global_batch_is_that_of_as_many_gpus_as_are_told(config: dict[str, Any]) -> None:
    one, eight = translated(config), translated(config, gpus=8)
    assert eight.request["global_batch"] == 8 * one.request["global_batch"]
    assert eight.request["micro_batch"] == one.request["micro_batch"]
    assert any("x 8 GPUs" in note for note in eight.notes)


def test_the_batch_that_deepspeed_states_is_of_all_gpus_already() -> None:
    assert translated(DEEPSPEED, gpus=8).request == translated(DEEPSPEED).request


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"zero_optimization": {"stage": 7}}, "zero_optimization.stage"),
        ({"zero_optimization": {"stage": "three"}}, "zero_optimization.stage"),
        ({"zero_optimization": [3]}, "zero_optimization"),
        ({"fp16": {"enabled": "maybe"}}, "fp16.enabled"),
    ],
)
def test_a_deepspeed_value_that_is_none_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        translated(DEEPSPEED | change)
    assert caught.value.field == field
    assert translated(DEEPSPEED | {"zero_optimization": {"stage": "2"}}).request["sharding"] == "zero2"


@pytest.mark.parametrize("value", ["many", -3, [], 0])
def test_a_batch_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(WorkloadError):
        translated(AXOLOTL | {"micro_batch_size": value})


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10),
    st.sampled_from(["", "auto", "x", "4"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["stage", "enabled", "type"]), st.integers(0, 5), max_size=2),
)
KEYS = sorted({*AXOLOTL, *LLAMA_FACTORY, *ARGUMENTS, *DEEPSPEED, "max_steps", "fsdp_config"})


@given(
    base=st.sampled_from([AXOLOTL, LLAMA_FACTORY, TORCHTUNE, ARGUMENTS, DEEPSPEED]),
    change=st.dictionaries(st.sampled_from(KEYS), ODD, max_size=4),
)
def test_whatever_a_config_holds_it_is_read_or_refused(base: dict[str, Any], change: dict[str, Any]) -> None:
    config = base | change
    refused: WorkloadError | None = None
    try:
        if trainer_of(config) is not None:
            Workload.model_validate({"tokens": "5M"} | translated(config).request)
    except WorkloadError as error:
        refused = error
    assert refused is None or refused.field
