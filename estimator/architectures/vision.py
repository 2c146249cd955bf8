"""How much work is one image of a vision model: counted where its definition was, else from GMACs and activations?

A counted model (`inventories`) gives FLOPs by class, values moved and kernels. For others the tables of timm give
multiply-adds and the outputs of convolutions and linear layers; the ratios below turn these into what a training step
moves. Only a size leaves the compute unknown, which is an error, not a guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks_db.errors import WorkloadError
from estimator.architectures.inventories import Inventory, find, fold
from estimator.work import Work

if TYPE_CHECKING:
    from benchmarks_db.models import ModelFacts

DEFAULT_IMAGE = 224.0

REREAD = 3.4
"""Times that convolutions and linear layers read and write their operands, over once.

Tiles are read again, inputs are unfolded or transposed to the layout that the matrix units want (timm, RTX 3090)."""

REREAD_CHANNELS_LAST = 2.3
"""The same in channels-last, which the matrix units take as it is."""

LARGEST_PHOTOGRAPH = 1344.0 / 1088.0
"""Pixels of a detector's largest batch over the mean one: the long side is cut at 1,333, and memory peaks there."""

SLOW_GROUPS = 0.8
"""Share of `slow_grouped_flops` that channels-last spends again at the rate of depthwise convolutions."""

VALUES_AN_ACTIVATION = 26.0
"""Values read or written forward, re-reading included, per output of a convolution or linear layer.

Median over the counted timm models: each output passes a normalisation and an activation, some a residual sum."""

STORED_AN_ACTIVATION = 2.0
"""Values kept for the backward pass per output of a convolution or linear layer: the output and its activation."""

KERNELS_A_ROOT_PARAMETER = 0.05
"""Kernels of a forward pass / sqrt(parameters), for a model that nobody counted (deeper models are larger)."""

GLOBAL_ATTENTION = (
    "vit",
    "deit",
    "beit",
    "eva",
    "cait",
    "dinov2",
    "aimv2",
    "flexivit",
    "samvit",
    "clip",
    "stable-diffusion",
)
"""Families whose every patch attends to every other: their attention grows with the square of the patches."""

JPEG_BYTES = 110_000.0
"""Stored size of an ImageNet photograph, about 400 x 350 pixels (144 GB / 1.28 M images)."""

DECODE_MS = 7.0
"""Milliseconds of one core to decode, crop, resize and flip an ImageNet photograph with Pillow-SIMD-like speed.

Assumption, 4 (libjpeg-turbo, cropped decode) to 12 (plain Pillow)."""


def work(
    facts: ModelFacts, *, image_size: float | None = None, memory_format: str = "", compiled: bool = False
) -> Work:
    """Work of one image of `image_size` pixels on a side (default: the size the facts were taken at).

    Convolutions, linear layers over patches and traffic grow with the pixels; attention over all patches with their
    square; parameters and kernels do not grow. `memory_format`: `channels-last`, else the frameworks' default.
    Compilation leaves the counts alone; the step model knows what fusion saves. WorkloadError when neither counts nor
    GMACs are known.
    """
    del compiled
    size = image_size or facts.image_size or DEFAULT_IMAGE
    if counted := find(facts.name, size):
        return of_inventory(counted, image_size=size, channels_last=memory_format == "channels-last")
    if not facts.forward_gmacs:
        raise WorkloadError("neither counts nor GMACs of the model are known", field="model", value=facts.name)
    scale = (size / (facts.image_size or DEFAULT_IMAGE)) ** 2
    outputs = (facts.forward_activations_m or 2.5 * facts.forward_gmacs) * 1e6 * scale
    params = (facts.params_m or 25.0) * 1e6
    return Work(
        params=params,
        active_params=params,
        trainable_params=params,
        tokens=1.0,
        matmul_flops=2e9 * facts.forward_gmacs * scale,
        elementwise_values=VALUES_AN_ACTIVATION * outputs,
        kernels=min(1200.0, max(60.0, KERNELS_A_ROOT_PARAMETER * params**0.5)),
        input_bytes=JPEG_BYTES,
        decode_ms=DECODE_MS,
        stored_values=STORED_AN_ACTIVATION * outputs,
        stored_values_selective=STORED_AN_ACTIVATION * outputs,
        stored_values_full=0.15 * STORED_AN_ACTIVATION * outputs,
        layer_values=0.1 * STORED_AN_ACTIVATION * outputs,
    )


def of_inventory(
    counted: Inventory,
    *,
    image_size: float | None = None,
    length: float | None = None,
    channels_last: bool = False,
    times: float = 1.0,
) -> Work:
    """Work of one sample of a counted model, brought to another image size or, in proportion, to another length.

    `times`: samples of the counted kind in what counts as one (tokens in a sentence).
    Traffic is everything outside the matrices plus what matrix work reads and writes, `REREAD` times.
    `elementwise_values` is a third of forward plus backward, because the step model charges backward twice the
    forward. Grouped convolutions of some widths have no fast channels-last kernels (`slow_grouped_flops`).
    """
    scale = (image_size / counted.image_size) ** 2 if image_size and counted.image_size else 1.0
    scale = length / counted.length if length and counted.length else scale
    scale *= times
    attends = scale**2 if fold(counted.model).startswith(GLOBAL_ATTENTION) else scale
    forward = counted.forward_flops
    ratio = counted.backward_flops / forward if forward > 0 else 2.0
    around = counted.norm_values + counted.elementwise_values + counted.backward_values
    scores = min(8.0 * counted.softmax_values, around)  # passes over the score matrices, forward and backward
    operands = 3.0 * (counted.matrix_values + counted.grouped_values)  # forward, and both backward products
    operands *= REREAD_CHANNELS_LAST if channels_last else REREAD
    kept = counted.stored_values * (LARGEST_PHOTOGRAPH if counted.input == "3x800x1088" else 1.0)
    score_kept = min(counted.kept_scores, 0.9 * kept)
    dense = counted.linear_flops + counted.conv1x1_flops + counted.conv_flops + counted.grouped_flops
    slow = SLOW_GROUPS * counted.slow_grouped_flops if channels_last else 0.0
    photograph = counted.input.startswith("3x")
    # Frozen norms hold fp32 constants, which raise what they meet to fp32 (maskrcnn-benchmark in mixed fp16 takes as
    # much memory as in fp32)
    frozen_norms = counted.norm_values == 0.0 and counted.conv_flops > 0.0 and counted.trained_params < counted.params
    return Work(
        params=counted.params,
        active_params=counted.params,
        trainable_params=counted.trained_params,
        tokens=1.0,
        matmul_flops=dense * scale + counted.attention_flops * attends,
        grouped_flops=(slow + counted.depthwise_flops) * scale,
        backward_ratio=ratio,
        elementwise_values=(around - scores + operands) * scale / 3.0,
        score_values_moved=scores * attends / 3.0,
        exchanged_values=counted.exchanged_values * scale,
        kernels=counted.kernels,
        input_bytes=JPEG_BYTES if photograph else 0.0,
        decode_ms=DECODE_MS if photograph else 0.0,
        stored_values=(kept - score_kept) * scale,
        stored_values_selective=(kept - score_kept) * scale,
        stored_values_full=0.15 * (kept - score_kept) * scale,
        score_values=score_kept * attends,
        single_share=float(frozen_norms),
        layer_values=3.0 * counted.largest_values * scale,
    )
