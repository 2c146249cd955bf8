import sys
from types import ModuleType

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.architectures.inventories import find
from estimator.architectures.own_model import build, count_target, parse_input, request_of, request_yaml
from estimator.custom import work_of_custom
from estimator.workload import Custom


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


def test_the_request_part_is_a_valid_custom_model_with_the_counted_work():
    counted = find("resnet50")
    custom = Custom(**request_of(counted))
    work = work_of_custom(custom)
    assert work.params == pytest.approx(counted.params, rel=1e-6)
    assert 3 * work.matmul_flops == pytest.approx(counted.forward_flops + counted.backward_flops, rel=1e-5)
    assert work.stored_values == pytest.approx(counted.stored_values, rel=1e-5)
    assert request_yaml(counted).count("\n") == 7
