"""How many bytes does one parameter take: weight, master copy, gradient and optimizer state, by method and precision?

The table (bytes a trained parameter; P = parameters):

| precision | weight | master | gradient | AdamW | total |
| --- | --- | --- | --- | --- | --- |
| fp32, tf32 | 4 | - | 4 | 8 | 16 |
| fp16, bf16, fp8 (mixed) | 2 | 4 | 4 | 8 | 18 |
| pure-bf16 | 2 | - | 2 | 4 | 8 |
| fp64 | 8 | - | 8 | 16 | 32 |

Sources: Rajbhandari et al. 2020 (ZeRO, section 3.1: 2 + 2 + 12; accumulation in fp32 makes the gradient 4), PyTorch
autocast (fp32 parameter plus a cached 16-bit copy, fp32 gradient: the same 18), Dettmers et al. 2022 (8-bit Adam: two
1-byte moments and block scales), Shazeer & Stern 2018 (Adafactor: a row and a column per matrix), Dettmers et al. 2023
(QLoRA: nf4 with an fp32 scale per 64 weights is 4.5 bits, with double quantisation 4.127 bits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from estimator.terms import Method, Optimizer, Precision

Bytes = float | NDArray[np.float64]
E = TypeVar("E", Method, Optimizer, Precision)

NF4_BYTES = 0.5 + 4 / 64  # a 4-bit code and an fp32 scale for every 64 weights
NF4_DOUBLE_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)  # the scales themselves in 8 bits, 256 to an fp32 scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Bytes by what they belong to; every field a scalar or an array of shape (n,)."""

    weight: Bytes  # one weight of the linear layers as the forward pass reads it (compute copy or frozen base)
    embedding: Bytes  # one weight of embeddings and norms, which quantisation leaves alone
    master: Bytes  # fp32 master copy of one trained parameter
    gradient: Bytes  # gradient of one trained parameter
    optimizer: Bytes  # optimizer state of one trained parameter
    adapter: Bytes  # weight of one adapter parameter; 0 when the trained parameters are the model's own
    activation: Bytes  # one stored activation value
    dequantised: Bytes  # 16-bit copy of one weight of the layer at work, where the base is 4-bit


_WIDTH: Mapping[Precision, float] = {
    Precision.FP64: 8.0,
    Precision.FP32: 4.0,
    Precision.TF32: 4.0,
    Precision.FP16: 2.0,
    Precision.BF16: 2.0,
    Precision.PURE_BF16: 2.0,
    Precision.FP8: 2.0,
    Precision.AUTO: 2.0,
}
_MASTER: Mapping[Precision, float] = {
    p: 4.0 if p in (Precision.FP16, Precision.BF16, Precision.FP8, Precision.AUTO) else 0.0 for p in Precision
}
_GRADIENT: Mapping[Precision, float] = {p: 4.0 if _MASTER[p] else _WIDTH[p] for p in Precision}
_STATES: Mapping[Optimizer, float] = {  # states a parameter, in values of the parameter the optimizer sees
    Optimizer.ADAMW: 2.0,
    Optimizer.ADAMW_8BIT: 0.0,
    Optimizer.SGD: 1.0,
    Optimizer.ADAFACTOR: 0.01,
    Optimizer.LION: 1.0,
}
_STATE_BYTES: Mapping[Optimizer, float] = {o: 2.0625 if o is Optimizer.ADAMW_8BIT else 0.0 for o in Optimizer}


def _lookup(table: Mapping[E, float], key: E | Sequence[E]) -> Bytes:
    """The figure of one key, or the figures of a sequence of keys as an array."""
    if isinstance(key, str):
        return table[key]
    return np.array([table[k] for k in key], float)


def recipe(
    *,
    method: Method | Sequence[Method] = Method.FULL,
    precision: Precision | Sequence[Precision] = Precision.BF16,
    optimizer: Optimizer | Sequence[Optimizer] = Optimizer.ADAMW,
    double_quant: bool | NDArray[np.bool_] = True,
) -> Recipe:
    """Bytes a parameter for a method, precision and optimizer; each one value or a sequence of n values.

    Adapters (LoRA, QLoRA) are trained in fp32 whatever the base is stored in, as PEFT does; a frozen base needs no
    master copy. `double_quant` matters for QLoRA only.

    >>> r = recipe(method=Method.FULL, precision=Precision.BF16, optimizer=Optimizer.ADAMW)
    >>> r.weight + r.master + r.gradient + r.optimizer
    18.0
    """
    width = _lookup(_WIDTH, precision)
    adapters = _lookup({m: float(m in (Method.LORA, Method.QLORA)) for m in Method}, method)
    quantised = _lookup({m: float(m is Method.QLORA) for m in Method}, method)
    master = _lookup(_MASTER, precision) * (1 - np.asarray(adapters))
    seen = np.where(np.asarray(adapters) > 0, 4.0, np.where(np.asarray(master) > 0, 4.0, width))
    state = seen * _lookup(_STATES, optimizer) + _lookup(_STATE_BYTES, optimizer)
    gradient = np.where(np.asarray(adapters) > 0, 4.0, _lookup(_GRADIENT, precision))
    nf4 = np.where(double_quant, NF4_DOUBLE_BYTES, NF4_BYTES)
    weight = np.where(np.asarray(quantised) > 0, nf4, width)
    figures = Recipe(
        weight=weight,
        embedding=np.asarray(width, float),
        master=np.asarray(master, float),
        gradient=gradient,
        optimizer=np.asarray(state, float),
        adapter=4.0 * np.asarray(adapters),
        activation=np.asarray(width, float),
        dequantised=np.asarray(quantised) * width,
    )
    return Recipe(**{f.name: _plain(getattr(figures, f.name)) for f in fields(Recipe)})


def _plain(figure: Bytes) -> Bytes:
    """A 0-d array as a float, so that scalar requests print and compare as numbers."""
    return float(figure) if np.ndim(figure) == 0 else figure
