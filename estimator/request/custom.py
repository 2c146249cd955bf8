"""What does a step of a model cost that is described by its counts alone (`custom:` in a request)?"""

from __future__ import annotations

from estimator.request.workload import Custom
from estimator.work import Work

BYTES_PER_VALUE = 2.0  # activations are kept at 16 bit; the memory room doubles them for fp32
DEFAULT_LAYERS = 50.0
KERNELS_PER_LAYER = 6.0


def work_of_custom(custom: Custom) -> Work:
    """`Work` of one sample; `flops_per_sample` is forward and backward, of which the forward pass is a third.

    Traffic outside the matrix work is `moved_bytes_per_sample`, else one write and one read of what is kept; the part
    of the FLOPs in depthwise convolutions runs outside the matrix units; launches are those of a
    `DEFAULT_LAYERS`-deep network unless `kernels` says otherwise.

    >>> from estimator.request.workload import Custom
    >>> work_of_custom(Custom(params_m=25.6, flops_per_sample=24.6e9)).matmul_flops
    8200000000.0
    """
    layers = float(custom.layers or DEFAULT_LAYERS)
    params = custom.params_m * 1e6
    active = custom.active_params_m * 1e6 if custom.active_params_m is not None else params
    trainable = custom.trainable_params_m * 1e6 if custom.trainable_params_m is not None else params
    kept = (custom.activation_bytes_per_sample or 0.0) / BYTES_PER_VALUE  # 0: the memory room answers unknown
    moved = custom.moved_bytes_per_sample
    grouped = min(custom.grouped_flops_per_sample or 0.0, custom.flops_per_sample)
    return Work(
        params=params,
        active_params=active,
        trainable_params=trainable,
        layers=layers,
        matmul_flops=(custom.flops_per_sample - grouped) / 3,
        grouped_flops=grouped / 3,
        backward_ratio=2.0,
        elementwise_values=kept if moved is None else moved / BYTES_PER_VALUE / 3.0,
        kernels=custom.kernels if custom.kernels is not None else layers * KERNELS_PER_LAYER,
        input_bytes=custom.bytes_per_sample or 0.0,
        stored_values=kept,
        stored_values_selective=kept,
        stored_values_full=kept / layers,
        layer_values=kept / layers,
    )
