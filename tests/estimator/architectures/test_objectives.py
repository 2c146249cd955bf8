from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import UnknownName, WorkloadError
from benchmarks_db.models import resolve_model
from benchmarks_db.objectives import objectives, resolve_objective, split
from estimator import Workload
from estimator.architectures import work_of
from estimator.architectures.objectives import under
from estimator.job import job_of
from estimator.work import Work

EVERY = sorted(objectives())
RESNET = work_of(resolve_model("resnet50").model)


def trained_and_forward(work: Work) -> float:
    """FLOPs of a sample, forward and backward."""
    return float(work.matmul_flops * (1.0 + work.backward_ratio))


@pytest.mark.parametrize("name", EVERY)
def test_every_recipe_has_a_source_and_costs_something_sane(name: str) -> None:
    objective = objectives()[name]
    assert objective.source
    assert 0.2 < trained_and_forward(under(RESNET, objective)) / trained_and_forward(RESNET) < 10.0


def test_the_work_is_that_of_the_views_and_of_the_averaged_copys_forward_passes() -> None:
    one = trained_and_forward(RESNET)
    ratio = float(RESNET.backward_ratio)
    assert trained_and_forward(under(RESNET, objectives()["simclr"])) == pytest.approx(2 * one)
    byol = 2 * one + 2 * one / (1 + ratio)
    assert trained_and_forward(under(RESNET, objectives()["byol"])) == pytest.approx(byol)
    dino = (2 + 8 * 0.429**2) * one + 2 * one / (1 + ratio)
    assert trained_and_forward(under(RESNET, objectives()["dino"])) == pytest.approx(dino)


def test_a_masked_encoder_sees_a_quarter_and_its_decoder_everything() -> None:
    large = work_of(resolve_model("vit-l16").model)
    masked = under(large, objectives()["mae"])
    assert float(masked.matmul_flops) == pytest.approx(0.25 * float(large.matmul_flops) + 2e9 * 4.9)
    assert float(masked.stored_values) < 0.5 * float(large.stored_values)


def test_an_averaged_copy_has_weights_and_no_gradients() -> None:
    found = under(RESNET, objectives()["byol"])
    assert found.params == 2 * RESNET.params
    assert found.trainable_params == RESNET.trainable_params


@given(st.sampled_from(EVERY), st.floats(0.1, 4.0))
def test_nothing_negative_comes_of_any_objective(name: str, pixels: float) -> None:
    found = under(RESNET, objectives()[name], pixels=pixels)
    assert all(float(getattr(found, field.name)) >= 0.0 for field in fields(Work))


@pytest.mark.parametrize(
    ("text", "objective", "backbone"),
    [
        ("swav-resnet50", "swav", "resnet50"),
        ("MoCo v2 resnet50", "moco", "resnet50"),
        ("dinov2-vit-g14", "dinov2", "vit-g14"),
        ("barlowtwins_resnet50", "barlowtwins", "resnet50"),
        ("dinov2-small", "", "dinov2-small"),
        ("vit_small_patch14_dinov2", "", "vit_small_patch14_dinov2"),
        ("mae", "", "mae"),
        ("", "", ""),
    ],
)
def test_an_objective_in_front_of_a_known_backbone_is_told_apart(text: str, objective: str, backbone: str) -> None:
    assert split(text) == (objective, backbone)


def test_an_unknown_objective_is_refused_with_near_names() -> None:
    with pytest.raises(UnknownName) as refused:
        resolve_objective("dina")
    assert "dino" in refused.value.nearest


def test_a_request_takes_an_objective_by_field_or_by_the_models_name() -> None:
    apart = job_of(Workload(model="vit-s16", objective="DINO", images=1e6))
    together = job_of(Workload(model="dino-vit-s16", images=1e6))
    plain = job_of(Workload(model="vit-s16", images=1e6))
    assert apart.work == together.work != plain.work
    assert apart.steps == plain.steps
    assert any("dino" in str(assumption) for assumption in apart.training.assumed)
    assert job_of(Workload(model="vit-s16", objective="none", images=1e6)).work == plain.work


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"model": "llama3-8b", "tokens": 1e9, "objective": "dino"}, "objective"),
        ({"model": "dino-vit-s16", "images": 1e6, "objective": "mae"}, "objective"),
        ({"model": "vit-s16", "images": 1e6, "objective": "dina"}, "objective"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(request_: dict[str, object], field: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        job_of(Workload.model_validate(request_))
    assert refused.value.field == field
