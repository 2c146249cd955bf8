from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks_db import models as model_facts
from benchmarks_db.errors import WorkloadError
from benchmarks_db.models import ModelFacts, resolve_model
from estimator.architectures import transformer, vision
from estimator.architectures.inventories import find, fold, inventories, left_out
from estimator.work import Work

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

COSTS = ("matmul_flops", "attention_flops", "grouped_flops", "elementwise_values", "stored_values", "score_values")

counted = st.sampled_from(["resnet50", "vit_base_patch16_224", "regnety_032", "convnext_tiny", "efficientnet_b0"])
tabled = st.builds(
    lambda gmacs, activations: ModelFacts(
        name="nobody-counted-it",
        kind="vision",
        params_m=25.0,
        image_size=224,
        forward_gmacs=gmacs,
        forward_activations_m=activations,
    ),
    st.floats(0.01, 500.0),
    st.one_of(st.none(), st.floats(0.1, 1000.0)),
)
models = st.one_of(counted.map(lambda name: resolve_model(name).model), tabled)
sizes = st.integers(32, 1024)


@given(models, sizes, sizes)
def test_a_bigger_image_is_never_cheaper(facts, one, other):
    small, big = (vision.work(facts, image_size=size) for size in sorted((one, other)))
    for name in COSTS:
        assert getattr(small, name) <= getattr(big, name) * (1 + 1e-12)
    assert small.params == big.params


@given(models, sizes)
def test_work_is_finite_positive_and_the_same_every_time(facts, size):
    work = vision.work(facts, image_size=size)
    assert work == vision.work(facts, image_size=size)
    assert work.matmul_flops > 0
    assert work.kernels > 0
    assert work.elementwise_values > 0
    assert all(0 <= getattr(work, f.name) < 1e18 for f in fields(Work))


def test_convolutions_grow_with_the_pixels_and_global_attention_with_their_square():
    one, two = (vision.of_inventory(find("resnet50"), image_size=size) for size in (224, 448))
    assert two.matmul_flops == pytest.approx(4 * one.matmul_flops)
    vit = find("vit_base_patch16_224")
    small, big = (vision.of_inventory(vit, image_size=size) for size in (224, 448))
    linear = vit.linear_flops + vit.conv_flops + vit.conv1x1_flops
    assert small.matmul_flops == pytest.approx(linear + vit.attention_flops)
    assert big.matmul_flops == pytest.approx(4 * linear + 16 * vit.attention_flops)


def test_resnet50_costs_what_its_authors_say():
    # He et al., arXiv:1512.03385, table 1: 3.8e9 multiply-adds; the 1.5 form with the stride in the 3x3: 4.1e9
    work = vision.work(resolve_model("resnet50").model, image_size=224)
    assert work.matmul_flops / 2e9 == pytest.approx(4.1, rel=0.03)
    assert work.params / 1e6 == pytest.approx(25.56, rel=0.01)


def test_channels_last_moves_less_but_slow_groups_cost_more():
    plain = resolve_model("resnet50").model
    assert vision.work(plain, memory_format="channels-last").elementwise_values < vision.work(plain).elementwise_values
    grouped = resolve_model("regnety_032").model
    assert vision.work(grouped, memory_format="channels-last").grouped_flops > vision.work(grouped).grouped_flops


def test_a_model_of_which_only_the_size_is_known_is_refused_not_guessed():
    with pytest.raises(WorkloadError, match="neither counts nor GMACs"):
        vision.work(ModelFacts(name="size-only-net", kind="vision", params_m=10.0))


def test_every_inventory_has_consistent_counts_and_a_source():
    for name, found in inventories().items():
        for one in found:
            assert one.source, name
            assert one.params > 0
            assert one.forward_flops > 0
            assert 1.0 <= one.backward_flops / one.forward_flops <= 2.3, name
            assert one.narrow_flops + one.wide_flops <= one.forward_flops * (1 + 1e-5)
            assert one.slow_grouped_flops <= 2.5 * one.grouped_flops + 1
            assert one.kernels > 3
            assert one.stored_values >= one.largest_values


def test_every_vision_model_that_is_known_by_name_is_counted_or_it_is_said_why_not():
    uncounted = {
        facts.name for facts in model_facts.models().values() if facts.kind == "vision" and find(facts.name) is None
    }
    assert uncounted
    assert {fold(name) for name in uncounted} <= set(left_out())


def test_the_closed_form_of_bert_agrees_with_the_counted_one():
    for name in ("bert-base", "bert-large"):
        inventory = find(name)
        closed = transformer.work(resolve_model(name).model, seq_len=128)
        # the closed form adds the vocabulary projection of masked-language training, which BertModel lacks
        vocabulary = 2.0 * 128 * closed.vocab * closed.hidden
        assert closed.matmul_flops - vocabulary == pytest.approx(inventory.linear_flops, rel=0.02)
        assert closed.attention_flops == pytest.approx(inventory.attention_flops, rel=0.02)
        assert inventory.params == pytest.approx(closed.params, rel=0.03)
