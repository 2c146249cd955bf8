"""What would make it fit: the smallest changes, and only such as really help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.layouts import Limits, enumerate_layouts
from estimator.planning.memory_repair import Repair, Request, repairs
from estimator.terms import ActivationCheckpointing, Method, Optimizer, ShardingKind
from estimator.work import Work
from tests.estimator.test_layouts import machines
from tests.estimator.test_memory import llama


def seven_b(method: Method, scale: float) -> Work:
    return llama(tokens=2048.0 * scale, adapters=4e7 if method in (Method.LORA, Method.QLORA) else 0.0)


NONE, ZERO3 = ActivationCheckpointing.NONE, ShardingKind.ZERO3
FULL = Request(global_batch=8.0, limits=Limits(), method=Method.FULL, seq_len=2048.0)


def fields(found: list[Repair]) -> list[str]:
    return [one.field for one in found]


def test_full_fine_tuning_on_one_small_card_needs_another_method() -> None:
    found = repairs(seven_b, machines((1, 1, 22)), replace(FULL, limits=Limits(offload=True)), most=9)
    assert ("method", "lora") in [(one.field, one.value) for one in found]
    assert fields(found).count("method") == 1


def test_adapters_on_a_smaller_card_need_a_four_bit_base() -> None:
    found = repairs(seven_b, machines((1, 1, 12)), replace(FULL, method=Method.LORA), most=9)
    assert ("method", "qlora") in [(one.field, one.value) for one in found]


def test_more_nodes_are_proposed_where_the_states_can_be_shared() -> None:
    found = repairs(seven_b, machines((1, 1, 79)), FULL)
    nodes = next(one for one in found if one.field == "max_nodes")
    assert nodes.gpus in (2, 4, 8)
    assert fields(found).count("max_nodes") == 1


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (Limits(micro_batch=8, recompute=NONE, sharding=ZERO3, tensor=1, pipeline=1), "micro_batch"),
        (Limits(micro_batch=8, recompute=NONE, sharding=ZERO3, tensor=1, pipeline=1), "activation_checkpointing"),
        (Limits(sharding=ShardingKind.DDP, tensor=1, pipeline=1), "sharding"),
    ],
)
def test_what_the_user_fixed_is_the_first_thing_to_free(limits: Limits, field: str) -> None:
    asked = replace(FULL, limits=limits, global_batch=64.0)
    hardware = machines((8, 1, 40))
    assert not len(enumerate_layouts(seven_b(Method.FULL, 1.0), hardware, global_batch=64, limits=limits).row)
    assert field in fields(repairs(seven_b, hardware, asked))


def test_eight_bit_states_are_proposed_where_they_suffice() -> None:
    asked = replace(FULL, limits=Limits(), global_batch=8.0)
    found = repairs(seven_b, machines((1, 1, 100)), asked)
    assert found[0].field == "optimizer"
    assert found[0].value == Optimizer.ADAMW_8BIT.value


def test_every_proposal_fits_when_it_is_made() -> None:
    for one in repairs(seven_b, machines((1, 1, 79), (2, 1, 40)), FULL, most=9):
        assert one.used_gib <= one.capacity_gib
        assert one.gpus >= 1
        assert one.value in str(one)


def test_nothing_is_proposed_where_no_single_change_helps() -> None:
    huge = replace(FULL, method=Method.PRETRAIN, seq_len=None)
    assert repairs(lambda _method, _scale: llama(layers=800.0, hidden=16_384.0), machines((1, 1, 8)), huge) == []


def seventy_b(method: Method, scale: float) -> Work:
    adapters = 2e8 if method in (Method.LORA, Method.QLORA) else 0.0
    small = llama(tokens=1024.0 * scale, adapters=adapters)
    wide = {name: 10.0 * getattr(small, name) for name in ("params", "embedding_params", "output_params")}
    return replace(small, **wide, layers=80.0)


def test_two_changes_are_named_where_one_is_not_enough() -> None:
    asked = replace(FULL, limits=Limits(offload=True), seq_len=1024.0)
    found = repairs(seventy_b, machines((1, 1, 18)), asked)
    assert [one.field for one in found] == ["method"]
    assert "lora and " in found[0].value
    assert found[0].used_gib <= found[0].capacity_gib
