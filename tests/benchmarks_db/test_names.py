"""People write names in many ways; each way leads to one card or model, or to near names."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.gpus import gpu, gpus, resolve_gpu
from benchmarks_db.models import image_sizes, models, resolve_model
from benchmarks_db.names import fold

GPU_NAMES = tuple(gpus())
MODEL_NAMES = tuple(models())


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("a100 80gb", "A100-SXM4-80GB", None),
        ("H100:8", "H100-SXM5-80GB", 8),
        ("A100-80GB-SXM", "A100-SXM4-80GB", None),
        ("nvidia-tesla-t4", "T4", None),
        ("NVIDIA Tesla V100-SXM2-16GB", "V100-SXM2-16GB", None),
        ("3090", "RTX-3090", None),
        ("RTX 3080", "RTX-3080", None),
        ("GeForce RTX 3080 Ti", "RTX-3080Ti", None),
        ("GTX 1080 Ti", "GTX-1080Ti", None),
        ("gtx1080ti", "GTX-1080Ti", None),
        ("h100-sxm", "H100-SXM5-80GB", None),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", None),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", None),
        ("l4:4", "L4", 4),
        ("L4*0.5", "L4", 0.5),
        ("8x H100", "H100-SXM5-80GB", 8),
        ("A10G x 4", "A10G", 4),
        ("MI300X", "MI300X", None),
        ("AMD Instinct MI300X", "MI300X", None),
        ("B300-SXM-288GB", "B300", None),
        ("quadro rtx 6000", "RTX-6000", None),
        ("RTX 6000 Ada", "RTX-6000-Ada", None),
        ("nvidia-l4", "L4", None),
        ("nvidia-h100-80gb", "H100-SXM5-80GB", None),
        ("nvidia-a100-80gb", "A100-SXM4-80GB", None),
        ("TPU v5e", "TPU-v5e", None),
        ("trn1", "Trainium1", None),
    ],
)
def test_gpus_are_found_as_people_write_them(text: str, name: str, count: float | None) -> None:
    match = resolve_gpu(text)
    assert (match.gpu.name, match.count) == (name, count)


@pytest.mark.parametrize("text", ["A100", "a100-80gb", "V100", "v100 32gb", "H100", "P100", "H100:8", "rtx pro 6000"])
def test_a_gpu_name_that_fits_several_cards_is_loose_and_lists_them(text: str) -> None:
    match = resolve_gpu(text)
    assert match.loose
    assert match.alternatives
    assert all(name in gpus() for name in match.alternatives)
    assert match.gpu.name not in match.alternatives


def test_a_card_may_be_named_with_the_memory_on_its_label() -> None:
    assert resolve_gpu("rtx 3090 24gb").gpu.name == "RTX-3090"
    assert resolve_gpu("RTX 4090 24 GB:2").count == 2
    with pytest.raises(UnknownName):  # there is no such card
        resolve_gpu("rtx 3090 48gb")


@pytest.mark.parametrize("text", ["Gaudi2", "intel gaudi 3", "habana", "Ascend 910B", "inferentia2", "Graphcore IPU"])
def test_accelerators_that_are_not_planned_are_refused_by_name(text: str) -> None:
    with pytest.raises(WorkloadError, match="cannot be planned") as caught:
        resolve_gpu(text)
    assert caught.value.field == "gpu"


@pytest.mark.parametrize(("text", "near"), [("RTX-3099", "RTX-3090"), ("H10", "H100"), ("A1000", "A100")])
def test_an_unknown_gpu_names_the_near_ones(text: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        resolve_gpu(text)
    assert any(near.casefold() in hint.casefold() for hint in caught.value.nearest)


@pytest.mark.parametrize("text", ["", "  ", "H100:0", "H100:-1", ":8"])
def test_an_empty_gpu_or_a_count_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError):
        resolve_gpu(text)


def test_a_canonical_gpu_name_is_needed_where_one_is_asked_for() -> None:
    assert gpu("T4").name == "T4"
    with pytest.raises(UnknownName):
        gpu("t4")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama3-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"),
        ("Llama 3 8B", "llama3-8b"),
        ("meta_llama_3.1_8b", "llama3.1-8b"),
        ("3D U-Net", "unet-3d"),
        ("wav2vec 2.0", "wav2vec2-base"),
        ("llama3-8b", "llama3-8b"),
        ("llama-3-8b", "llama3-8b"),
        ("LLaMA_3_8B", "llama3-8b"),
        ("llama38b", "llama3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("unsloth/Meta-Llama-3.1-8B-bnb-4bit", "llama3.1-8b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3.1-70b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama2-7b"),
        ("huggyllama/llama-7b", "llama-7b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mistral-Nemo-Base-2407", "mistral-nemo-12b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("Qwen/Qwen3-14B-Base", "qwen3-14b"),
        ("google/gemma-2-9b-it", "gemma2-9b"),
        ("google/gemma-3-4b-it", "gemma3-4b"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3-671b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama3.1-8b"),
        ("openai-community/gpt2", "gpt2-124m"),
        ("gpt2-medium", "gpt2-350m"),
        ("google-bert/bert-base-uncased", "bert-base"),
        ("bert-large", "bert-large"),
        ("google/flan-t5-xl", "t5-v1.1-xl"),
        ("tiiuae/falcon-7b-instruct", "falcon-7b"),
        ("EleutherAI/gpt-neox-20b", "gpt-neox-20b"),
        ("bigscience/bloom-7b1", "bloom-7b1"),
        ("vit_base_patch16_224", "vit_base_patch16_224"),
        ("google/vit-base-patch16-224", "vit_base_patch16_224"),
        ("vit-base-patch16-224-in21k", "vit_base_patch16_224"),
        ("vit-base", "vit_base_patch16_224"),
        ("microsoft/resnet-50", "resnet50"),
        ("ResNet-50 v1.5", "resnet50"),
        ("facebook/convnext-tiny-224", "convnext_tiny"),
        ("timm/resnet50.a1_in1k", "resnet50"),
        ("vit_base_patch16_224.augreg2_in21k_ft_in1k", "vit_base_patch16_224"),
        ("mobilenet_v2", "mobilenetv2_100"),
        ("tf-efficientnet-b5-ns", "tf_efficientnet_b5"),
        ("efficientnet-v2-s", "efficientnetv2_s"),
        ("stable-diffusion", "stable-diffusion-2"),
        ("stabilityai/stable-diffusion-xl-base-1.0", "sdxl"),
        ("ssd300-resnet50", "ssd300-resnet50"),
        ("maskrcnn", "maskrcnn-resnet50-fpn"),
        ("gpt3-1.3b", "gpt3-1.3b"),
        ("gpt3-13b", "gpt3-13b"),
        ("unet-3d", "unet-3d"),
        ("unet3d", "unet3d"),
    ],
)
def test_models_are_found_as_people_write_them(text: str, name: str) -> None:
    assert resolve_model(text).model.name == name


@pytest.mark.parametrize("text", ["llama3", "bert", "vit", "resnet", "mixtral", "stable-diffusion", "maskrcnn"])
def test_a_model_name_without_its_size_is_loose(text: str) -> None:
    assert resolve_model(text).loose


@pytest.mark.parametrize(("text", "near"), [("lama3-8b", "llama3-8b"), ("resnet51", "resnet50"), ("qwen3-7b", "qwen")])
def test_an_unknown_model_names_the_near_ones(text: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        resolve_model(text)
    assert any(near in hint for hint in caught.value.nearest)
    assert caught.value.field == "model"


@pytest.mark.parametrize("text", ["foo", "moe", "ünïcode"])
def test_no_near_name_is_made_up_for_a_model_that_has_none(text: str) -> None:
    with pytest.raises(UnknownName) as unknown:
        resolve_model(text)
    assert unknown.value.nearest == ()


@pytest.mark.parametrize("text", ["", " ", "/"])
def test_an_empty_model_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError):
        resolve_model(text)


def test_every_canonical_gpu_name_means_itself_whatever_its_case_and_separators() -> None:
    for name in GPU_NAMES:
        for text in (name, name.lower(), name.replace("-", " "), name.replace("-", "_")):
            match = resolve_gpu(text)
            assert (match.gpu.name, match.loose) == (name, False), text


def test_every_canonical_model_name_means_itself_whatever_its_case_and_separators() -> None:
    for name in MODEL_NAMES:
        for text in (name, name.upper()):
            match = resolve_model(text)
            assert (match.model.name, match.loose) == (name, False), text
        if name not in ("unet-3d", "unet3d"):
            assert resolve_model(name.replace("_", "-")).model.name == name


@settings(deadline=None)
@given(st.sampled_from(GPU_NAMES), st.integers(1, 4096))
def test_a_count_is_read_after_any_gpu_name(name: str, count: int) -> None:
    match = resolve_gpu(f"{name}:{count}")
    assert (match.gpu.name, match.count) == (name, count)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_resolved_or_refused_never_a_crash(text: str) -> None:
    for resolve in (resolve_gpu, resolve_model):
        with contextlib.suppress(WorkloadError):  # anything else fails the test
            resolve(text)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_a_vision_model_has_one_row_for_each_image_size() -> None:
    sizes = [facts.image_size for facts in image_sizes("resnet50")]
    assert sizes == sorted(set(sizes), key=lambda size: size or 0)
    assert 224 in sizes
    assert models()["resnet50"].image_size == 224
    with pytest.raises(UnknownName):
        image_sizes("resnet51")


@pytest.mark.parametrize("text", ["mpt-1.3b", "pythia-1.2b", "bloom-5.60m"])
def test_a_decimal_size_never_loses_its_point(text: str) -> None:
    with pytest.raises(UnknownName):
        resolve_model(text)


def test_where_few_names_are_known_a_hint_lists_them_all() -> None:
    markets = ("on-demand", "spot", "reserved", "block", "own")
    assert UnknownName("market", "foo", markets).nearest == markets
    assert UnknownName("market", "spto", markets).nearest == ("spot",)
    assert UnknownName("card", "foo", [f"bar{i}" for i in range(7)]).nearest == ()
