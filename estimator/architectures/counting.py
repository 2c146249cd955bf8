"""How much work is one sample of this PyTorch model? Counted operator by operator, on the meta device, without a GPU.

Needs torch (not a dependency of the package; imported only here, when called). The model is run forward and backward
once on tensors that hold no data while a dispatch hook reads the shape of every operator. Running with two batch
sizes separates what grows with the batch from what does not (weight standardisation, for example).

Counts are of the model as written: eager, every operator a kernel, values (numbers), never bytes, so that precision
can be applied later. FLOPs: a multiply-add is 2.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.architectures.inventories import Inventory

# Narrow matrix work (few channels in or out) does not fill the matrix units; see `_bucket`.
NARROW = 64
WIDE = 256


@dataclass(slots=True)
class _Tally:
    """Sums over one forward + backward at one batch size."""

    sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    stored: dict[int, int] = field(default_factory=dict)
    scores: set[int] = field(default_factory=set)  # of the stored ones, those that a softmax made
    works_on_weights: bool = False


def _numel(tensors: Sequence[Any]) -> int:
    return sum(t.numel() for t in tensors)


def _bucket(channels_in: int, channels_out: int) -> str:
    """`narrow_flops`, `wide_flops` or nothing: how well a product of these channel counts fills the matrix units."""
    if min(channels_in, channels_out) < NARROW:
        return "narrow_flops"
    return "wide_flops" if min(channels_in, channels_out) >= WIDE else ""


def slow_channels_last(width: int) -> float:
    """Weight of a grouped convolution of `width` channels a group in `slow_grouped_flops`.

    Measured (timm on an RTX 3090, both memory formats): groups of up to 8 channels gain from channels-last like dense
    convolutions, 16 and 32 sometimes lose, others always do; the time lost a FLOP falls with the width.
    """
    if width <= 8:
        return 0.0
    return (0.5 if width in (16, 32) else 1.0) * math.sqrt(48.0 / width)


_NORMS = ("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm")
SOFTMAX = ("aten::_softmax", "aten::_safe_softmax")
_FREE = {
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "detach",
    "lift_fresh",
    "_unsafe_view",
}


def _is_view(operator: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in operator._schema.returns)


class OperatorTally:
    """Classifies one dispatched operator and adds it to `sums`; forward and backward are told apart by `backward`."""

    def __init__(self, params: set[int]) -> None:
        self.params = params
        self.sums: defaultdict[str, float] = defaultdict(float)
        self.views: list[Any] = []  # of weights, kept alive so that no other tensor takes their id
        self.backward = False
        self.works_on_weights = False  # something other than matrix work reads nothing but weights

    def _weights(self, tensors: Sequence[Any]) -> int:
        return sum(t.numel() for t in tensors if id(t) in self.params)

    def add(self, operator: Any, args: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any]) -> None:
        """Count `operator`, whose tensors are `ins` and `outs`."""
        name = operator._schema.name.split("::")[-1].rstrip("_")
        if not outs or name in _FREE:
            return
        of_weights = bool(ins) and not self.backward and all(id(t) in self.params for t in ins)
        if _is_view(operator):
            if of_weights:
                self.params.update(id(t) for t in outs)
                self.views.extend(outs)
            return
        self.works_on_weights = self.works_on_weights or of_weights
        side = "backward_" if self.backward else ""
        self.sums[side + "kernels"] += 1
        flops, kind, channels = self._matrix_flops(name, args, ins, outs)
        values = _numel(ins) - self._weights(ins) + _numel(outs)
        if kind:
            if self.backward:
                self.sums["backward_flops"] += flops
                return
            self.sums[kind] += flops
            if channels and kind in ("linear_flops", "conv_flops", "conv1x1_flops") and (b := _bucket(*channels)):
                self.sums[b] += flops
            if kind == "grouped_flops":
                self.sums["slow_grouped_flops"] += flops * slow_channels_last(args[1].shape[1])
            self.sums["grouped_values" if kind in ("grouped_flops", "depthwise_flops") else "matrix_values"] += values
            return
        if self.backward:
            self.sums["backward_values"] += values
        elif any(n in name for n in _NORMS):
            self.sums["norm_values"] += values
        else:
            self.sums["elementwise_values"] += values
            if name in ("_softmax", "_safe_softmax"):
                self.sums["softmax_values"] += _numel(outs)

    def _matrix_flops(
        self, name: str, args: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any]
    ) -> tuple[float, str, tuple[int, int] | None]:
        """FLOPs, the count they belong to ("" when this is no matrix work) and (channels in, channels out)."""
        if name in ("mm", "addmm"):
            a, b = args[-2:] if name == "mm" else args[1:3]
            return 2.0 * a.shape[0] * a.shape[1] * b.shape[1], "linear_flops", (a.shape[1], b.shape[1])
        if name in ("bmm", "baddbmm"):
            a, b = args[:2] if name == "bmm" else args[1:3]
            return 2.0 * math.prod(a.shape) * b.shape[2], "attention_flops", None
        if name in ("convolution", "_convolution"):
            out, weight, groups = outs[0], args[1], args[8]
            return (*self._convolution(out, weight, groups, bool(args[6])), (weight.shape[1], weight.shape[0]))
        if name == "convolution_backward":
            grad, weight, groups, masks = args[0], args[2], args[9], args[10]
            flops, kind = self._convolution(grad, weight, groups, bool(args[7]))
            return flops * (bool(masks[0]) + bool(masks[1])), kind, None
        return 0.0, "", None

    @staticmethod
    def _convolution(out: Any, weight: Any, groups: int, transposed: bool) -> tuple[float, str]:
        window = math.prod(weight.shape[2:])
        # A transposed convolution spends its window on every input position; out / stride^d is close enough only
        # for stride = window, which is what up-sampling layers use.
        positions = out.numel() if not transposed else out.numel() / max(window, 1)
        per_output = weight.shape[1] * window if not transposed else weight.shape[0] // groups * window
        flops = 2.0 * positions * per_output
        if groups == 1:
            return flops, "conv1x1_flops" if window == 1 else "conv_flops"
        return flops, "depthwise_flops" if weight.shape[1] == 1 else "grouped_flops"


def _loss(output: Any) -> Any:
    """A scalar that depends on every floating output, cheap beside the model."""
    torch = import_module("torch")
    flat, _ = import_module("torch.utils._pytree").tree_flatten(output)
    parts = [
        t.float().mean() for t in flat if isinstance(t, torch.Tensor) and t.is_floating_point() and t.requires_grad
    ]
    if not parts:
        raise ValueError("the model has no output that depends on its parameters")
    return torch.stack(parts).sum()


def _tally(model: Any, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> _Tally:
    torch = import_module("torch")
    tree_flatten = import_module("torch.utils._pytree").tree_flatten
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

    for parameter in model.parameters():
        parameter.grad = None  # adding to gradients that a tally before has left is no work of this pass
    params = {id(p) for p in model.parameters()}
    storages = {p.untyped_storage()._cdata for p in model.parameters()}
    tally = OperatorTally(params)

    class Mode(base):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            ins = [t for t in tree_flatten((args, kwargs or {}))[0] if isinstance(t, torch.Tensor)]
            outs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
            tally.add(func, args, ins, outs)
            if func._schema.name in SOFTMAX and not tally.backward:
                scores.update(t.untyped_storage()._cdata for t in outs)
                alive.extend(outs)
            return out

    result = _Tally()
    scores: set[int] = set()

    def keep(tensor: Any) -> Any:
        key = tensor.untyped_storage()._cdata
        if key not in storages:
            result.stored[key] = max(
                result.stored.get(key, 0), tensor.untyped_storage().size() // tensor.element_size()
            )
            alive.append(tensor)
            if key in scores:
                result.scores.add(key)
        return tensor

    alive: list[Any] = []  # a freed storage's address may be used again
    with Mode():
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            loss = _loss(model(*inputs, **keywords))
        tally.backward = True
        loss.backward()
    result.sums, result.works_on_weights = tally.sums, tally.works_on_weights
    return result


def count(
    model: Any,
    make_inputs: Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]],
    *,
    name: str,
    described: str,
    source: str = "",
    separate: bool = False,
) -> Inventory:
    """Counts of one sample of `model`, a `torch.nn.Module` in training mode (best built on the meta device).

    `make_inputs(batch)` returns positional and keyword arguments for a batch of that many samples. A batch of 2 is
    counted; where something works on the weights alone, or with `separate` (tables whose gradient is written whole,
    weights read again every time step), a batch of 4 too: the slope is then the count of a sample and the intercept the
    fixed count.
    """
    model.train()
    low = _tally(model, *make_inputs(2))
    high = _tally(model, *make_inputs(4)) if separate or low.works_on_weights else None

    def slope(key: str) -> float:
        return (high.sums[key] - low.sums[key] if high else low.sums[key]) / 2.0

    def fixed(key: str) -> float:
        return max(0.0, 2.0 * low.sums[key] - high.sums[key]) if high else 0.0

    varying = [f.name for f in fields(Inventory) if f.name.endswith(("_flops", "_values"))]
    counts = {key: slope(key) for key in varying}
    counts["fixed_values"] = sum(fixed(k) for k in ("norm_values", "elementwise_values", "backward_values"))

    def kept(tally: _Tally) -> NDArray[np.float64]:
        return np.array([sum(tally.stored.values()), sum(tally.stored[key] for key in tally.scores)], float)

    counts["stored_values"], counts["kept_scores"] = (kept(high) - kept(low) if high else kept(low)) / 2.0
    counts["largest_values"] = max(low.stored.values(), default=0) / 2.0
    return Inventory(
        model=name,
        input=described,
        source=source,
        params=float(sum(p.numel() for p in model.parameters())),
        trained_params=float(sum(p.numel() for p in model.parameters() if p.requires_grad)),
        param_tensors=float(sum(1 for _ in model.parameters())),
        kernels=float(low.sums["kernels"]),
        backward_kernels=float(low.sums["backward_kernels"]),
        **counts,
    )
