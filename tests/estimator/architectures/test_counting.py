"""The counter's arithmetic, on operators described by hand: torch is no dependency of the tests."""

from math import prod
from types import SimpleNamespace

import pytest

from estimator.architectures.counting import OperatorTally, slow_channels_last


class Tensor:
    def __init__(self, *shape):
        self.shape = shape

    def numel(self):
        return prod(self.shape)


def operator(name, *, view=False):
    alias = SimpleNamespace(is_write=False) if view else None
    return SimpleNamespace(_schema=SimpleNamespace(name=f"aten::{name}", returns=[SimpleNamespace(alias_info=alias)]))


def convolution(tally, batch, channels_in, channels_out, window, size, groups=1):
    image, weight = Tensor(batch, channels_in, size, size), Tensor(channels_out, channels_in // groups, window, window)
    out = Tensor(batch, channels_out, size, size)
    tally.params.add(id(weight))
    args = (image, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], groups)
    tally.add(operator("convolution"), args, [image, weight], [out])
    return weight


def test_a_convolution_is_two_flops_a_window_position_and_channel_pair():
    tally = OperatorTally(set())
    convolution(tally, 2, 64, 128, 3, 56)
    assert tally.sums["conv_flops"] == 2 * (2 * 128 * 56 * 56) * 64 * 9
    assert tally.sums["matrix_values"] == 2 * (64 + 128) * 56 * 56  # the weights are no traffic of a sample
    assert tally.sums["kernels"] == 1


@pytest.mark.parametrize(
    ("groups", "window", "kind"),
    [(1, 1, "conv1x1_flops"), (1, 3, "conv_flops"), (4, 3, "grouped_flops"), (64, 3, "depthwise_flops")],
)
def test_convolutions_are_told_apart_by_window_and_groups(groups, window, kind):
    tally = OperatorTally(set())
    convolution(tally, 1, 64, 64, window, 8, groups)
    assert tally.sums[kind] == 2 * 64 * 64 * (64 // groups) * window**2


def test_views_are_free_and_their_weights_stay_weights():
    weight = Tensor(64, 32)
    tally = OperatorTally({id(weight)})
    turned = Tensor(32, 64)
    tally.add(operator("t", view=True), (weight,), [weight], [turned])
    inputs, out = Tensor(8, 32), Tensor(8, 64)
    tally.add(operator("mm"), (inputs, turned), [inputs, turned], [out])
    assert tally.sums["kernels"] == 1
    assert tally.sums["linear_flops"] == 2 * 8 * 32 * 64
    assert tally.sums["matrix_values"] == 8 * 32 + 8 * 64


def test_work_on_weights_alone_is_noticed_because_it_does_not_grow_with_the_batch():
    weight = Tensor(64, 32)
    tally = OperatorTally({id(weight)})
    tally.add(operator("relu"), (Tensor(4),), [Tensor(4)], [Tensor(4)])
    assert not tally.works_on_weights
    tally.add(operator("var_mean"), (weight,), [weight], [Tensor(64)])
    assert tally.works_on_weights


def test_normalisation_and_backward_are_counted_apart():
    tally = OperatorTally(set())
    x = Tensor(2, 10)
    tally.add(operator("native_layer_norm"), (x,), [x], [x])
    assert tally.sums["norm_values"] == 40
    tally.backward = True
    tally.add(operator("native_layer_norm_backward"), (x,), [x, x], [x])
    assert tally.sums["backward_values"] == 60
    assert (tally.sums["kernels"], tally.sums["backward_kernels"]) == (1, 1)


def test_narrow_groups_are_fast_in_channels_last_and_wide_ones_lose_less():
    assert slow_channels_last(4) == slow_channels_last(8) == 0.0
    assert slow_channels_last(24) > slow_channels_last(48) > slow_channels_last(128) > 0.0
