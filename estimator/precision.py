"""Which matrix rate does a number format reach on a GPU: tensor cores or not, TF32, half-rate GeForce, refused?

The facts hold dense rates with fp32 accumulation (so the half rate of GeForce cards is already in their figures);
the rules here say which of them a format uses, and which formats a GPU does not have at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from estimator.terms import Precision

if TYPE_CHECKING:
    from benchmarks_db.gpus import Gpu

FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "pure-bf16", "fp8", "mxfp8", "nvfp4", "int8")
"""Formats of the matrix work; the last three appear in measurements only."""

_SYNONYMS = {
    "": "fp16",  # `amp`, `mixed`: nothing but that it is mixed
    "half": "fp16",
    "float16": "fp16",
    "16": "fp16",
    "f16": "fp16",
    "bfloat16": "bf16",
    "b16": "bf16",
    "float32": "fp32",
    "32": "fp32",
    "f32": "fp32",
    "single": "fp32",
    "no": "fp32",  # Accelerate's `mixed_precision: no`
    "tensorfloat32": "tf32",
    "double": "fp64",
    "float64": "fp64",
    "64": "fp64",
    "o1": "fp16",  # levels of NVIDIA Apex's amp
    "o2": "fp16",
    "e4m3": "fp8",
    "float8": "fp8",
    "fp8hybrid": "fp8",
    "fp8cs": "fp8",
    "fp8sc": "fp8",
    "fp8ds": "fp8",
    "fp8mx": "mxfp8",
    "fp4": "nvfp4",
    "mxfp4": "nvfp4",
}
_UNSAID = frozenset({"amp", "mixed", "precision", "autocast", "torch", "dtype", "bit", "true", "full"})
"""Words beside a format that change nothing: `torch.bfloat16`, `mixed-precision bf16`, `16-bit`; after `bf16`, `true`
says that the weights are kept in it too."""


@dataclass(frozen=True, slots=True)
class MatrixRate:
    """Datasheet rate of the matrix work, dense, TFLOP/s.

    `peak_tflops` is None where the facts do not know it or the format is refused; `half_tflops` is the rate of what
    a narrower format leaves alone (attention and logits: 16 bit under fp8, the same rate otherwise).
    `refused` says why the format cannot be used, or None.
    """

    peak_tflops: float | None
    half_tflops: float | None
    name: str
    refused: str | None = None
    value_bytes: float = 2.0


def canonical(text: str) -> str | None:
    """The format that `text` names (`amp-bf16` -> `bf16`), or None when it names none we know.

    >>> canonical("AMP-BF16"), canonical("torch.bfloat16"), canonical("bf16-true"), canonical("quux")
    ('bf16', 'bf16', 'pure-bf16', None)
    """
    words = re.split(r"[\s_.\-]+", text.strip().lower())
    name = "".join(word for word in words if word not in _UNSAID)
    if not name and not {"amp", "mixed"} & set(words):
        return "fp32" if "full" in words else None
    name = {"purebf16": "pure-bf16", "purefp16": "fp16"}.get(name, _SYNONYMS.get(name, name))
    if name == "bf16" and "true" in words:
        name = "pure-bf16"
    return name if name in FORMATS else None


def auto(gpu: Gpu) -> str:
    """bf16 where the GPU has it, else fp16 where it has matrix units for it, else fp32."""
    if gpu.bf16_tflops:
        return "bf16"
    return "fp16" if gpu.fp16_tflops else "fp32"


def rate(name: str, gpu: Gpu) -> MatrixRate:
    """Matrix rate of the format `name` (one of `FORMATS`) on `gpu`.

    TF32 on a GPU without it is plain fp32 (the switch has no effect there); mixed fp16 on a GPU without matrix units
    saves memory but no time. bf16 needs compute capability 8.0 (V100 and T4 emulate it at fp32 speed at best), fp8
    needs 8.9 or CDNA3, fp4 needs Blackwell: asked for elsewhere they are refused, never silently replaced.
    """
    half = gpu.bf16_tflops or gpu.fp16_tflops or gpu.fp32_tflops
    if name == "fp64":
        refused = None if gpu.fp64_tflops else f"{gpu.name} has no known fp64 rate"
        return MatrixRate(gpu.fp64_tflops, gpu.fp64_tflops, name, refused, 8.0)
    if name == "fp32":
        return MatrixRate(gpu.fp32_tflops, gpu.fp32_tflops, name, None, 4.0)
    if name == "tf32":
        if gpu.tf32_tflops is None:
            return rate("fp32", gpu)
        return MatrixRate(gpu.tf32_tflops, gpu.tf32_tflops, name, None, 4.0)
    if name == "fp16":
        peak = gpu.fp16_tflops or gpu.fp32_tflops
        if gpu.fp16_tflops is None and gpu.bf16_tflops is not None and gpu.kind == "tpu":
            return MatrixRate(None, half, name, f"{gpu.name} computes in bf16, not fp16")
        return MatrixRate(peak, peak, name)
    if name in ("bf16", "pure-bf16"):
        if gpu.bf16_tflops is None:
            return MatrixRate(None, half, name, f"{gpu.name} has no bf16: use fp16 or fp32")
        return MatrixRate(gpu.bf16_tflops, gpu.bf16_tflops, name)
    if name in ("fp8", "mxfp8", "int8"):
        if gpu.fp8_tflops is None:
            return MatrixRate(None, half, name, f"{gpu.name} has no fp8: use bf16 or fp16")
        return MatrixRate(gpu.fp8_tflops, half, name)
    if name == "nvfp4":
        if gpu.fp4_tflops is None:
            return MatrixRate(None, half, name, f"{gpu.name} has no fp4: use fp8 or bf16")
        return MatrixRate(gpu.fp4_tflops, half, name)
    return MatrixRate(None, half, name, f"unknown precision {name!r}")


def resolve(precision: Precision, gpu: Gpu) -> MatrixRate:
    """Matrix rate of the requested precision on `gpu`; `auto` picks by `auto(gpu)`."""
    return rate(auto(gpu) if precision is Precision.AUTO else precision.value, gpu)
