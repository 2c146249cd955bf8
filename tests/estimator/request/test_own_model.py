import sys
from types import ModuleType

import pytest
import yaml

from benchmarks_db.errors import WorkloadError
from estimator.architectures.inventories import find
from estimator.architectures.vision import of_inventory
from estimator.request.custom import work_of_custom
from estimator.request.own_model import build, count_target, parse_input, request_of, request_yaml
from estimator.request.workload import Custom, Workload


@pytest.mark.parametrize("text", ["", "3x", "x3", "0x4", "-1", "3x224x224:text", "big", "99999999999"])
def test_a_shape_that_is_none_is_refused_with_examples(text):
    with pytest.raises(WorkloadError) as refused:
        parse_input(text)
    assert refused.value.nearest


@pytest.mark.parametrize("target", ["", "json", "json:", ":dumps", "no.such.module:build", "json:no_such_function"])
def test_a_target_that_cannot_be_built_is_named(target):
    with pytest.raises(WorkloadError) as refused:
        build(target)
    assert refused.value.field == "MODEL"


def test_without_torch_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(WorkloadError, match="pip install torch"):
        count_target("json:dumps", ["3x8x8"])


def test_a_model_is_built_from_the_name_of_a_function(monkeypatch):
    module = ModuleType("somebodys_models")
    module.tiny = lambda: "a model"
    monkeypatch.setitem(sys.modules, "somebodys_models", module)
    assert build("somebodys_models:tiny") == "a model"


@pytest.mark.parametrize("fault", [TypeError("missing 1 argument: 'width'"), OSError("no weights"), KeyError()])
def test_a_model_whose_own_code_fails_is_no_fault_of_ours(monkeypatch, fault):
    def broken():
        raise fault

    module = ModuleType("somebodys_models")
    module.broken = broken
    monkeypatch.setitem(sys.modules, "somebodys_models", module)
    with pytest.raises(WorkloadError, match=f"cannot be built: {type(fault).__name__}"):
        build("somebodys_models:broken")


def test_a_class_is_built_and_a_ready_model_is_taken_as_it_is(monkeypatch):
    class Net:
        def parameters(self):
            return ()

    module = ModuleType("somebodys_models")
    module.Net, module.ready = Net, Net()
    monkeypatch.setitem(sys.modules, "somebodys_models", module)
    assert isinstance(build("somebodys_models:Net"), Net)
    assert build("somebodys_models:ready") is module.ready


def test_the_request_part_is_a_valid_custom_model_with_the_counted_work():
    counted = find("resnet50")
    custom = Custom(**request_of(counted))
    work = work_of_custom(custom)
    assert work.params == pytest.approx(counted.params, rel=1e-6)
    assert 3 * work.matmul_flops == pytest.approx(counted.forward_flops + counted.backward_flops, rel=1e-5)
    assert work.stored_values == pytest.approx(counted.stored_values, rel=1e-5)
    assert request_yaml(counted).count("\n") == 8


@pytest.mark.parametrize("name", ["resnet50", "mobilenetv2_100", "vit_base_patch16_224"])
def test_a_counted_custom_model_is_planned_like_the_same_model_by_name(name):
    counted = find(name, 224)
    custom, named = work_of_custom(Custom(**request_of(counted))), of_inventory(counted)
    for part in ("matmul_flops", "grouped_flops"):
        ours, theirs = (getattr(work, part) * (1 + work.backward_ratio) for work in (custom, named))
        assert ours == pytest.approx(theirs, rel=1e-4)
    moved = named.elementwise_values + named.score_values_moved
    assert custom.elementwise_values == pytest.approx(moved, rel=1e-4)
    assert custom.kernels == named.kernels


def test_the_batch_stands_in_the_request():
    body = yaml.safe_load(request_yaml(find("resnet50"), batch=32))
    assert body["global_batch"] == 32
    assert Workload.model_validate({**body, "images": "1M"}).custom is not None


def test_a_small_network_is_counted_with_torch_as_by_hand(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not a dependency")
    module = ModuleType("somebodys_models")
    module.build = lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Flatten())
    module.attention = lambda: torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    monkeypatch.setitem(sys.modules, "somebodys_models", module)
    counted = count_target("somebodys_models:build", ["3x16x16"])
    assert counted.forward_flops == 2 * 16 * 16 * 8 * 3 * 9
    assert counted.params == 8 * 3 * 9 + 8
    attention = count_target("somebodys_models:attention", ["32x64"])
    assert attention.attention_flops == 2 * (2 * 32 * 32 * 64)  # scores and values, though torch fuses them
