"""What share of its datasheet matrix rate does a card hold at its power limit?

Datasheet peaks are boost clocks; a matrix unit kept busy draws more than many boards may. The power that the full
rate would need is watts per TFLOP/s (by chip generation and number format: `data/power.csv`, from microbenchmarks)
times the peak. With x = needed / limit, measured cards follow

    sustained / peak = (1 + x^4)^(-1/4)

H100 SXM bf16: x = 0.8 x 989 / 700 = 1.13 -> 0.78 (measured 0.80); A100 SXM: 0.90 -> 0.88 (0.87); L4 fp32: 3.45 -> 0.29
(0.29); T4 fp32: 2.07 -> 0.48 (0.48); V100 PCIe fp32: 0.56 -> 0.98 (0.97). It is also the fall-back for a card
that nobody measured: only its peak and power limit are needed.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Figure = float | NDArray[np.float64]

_TABLE = Path(__file__).parent / "data" / "power.csv"
_LIKE = {"pure-bf16": "fp16", "bf16": "fp16", "mxfp8": "fp8", "int8": "fp8", "nvfp4": "fp4", "fp64": "fp32"}


@cache
def _table() -> dict[tuple[str, str], float]:
    with _TABLE.open(newline="") as file:
        return {(row["arch"], row["format"]): float(row["watts_per_tflop"]) for row in csv.DictReader(file)}


def watts_per_tflop(arch: str, name: str) -> float:
    """Power of matrix work at full rate, W per TFLOP/s, for a chip generation and format; 0 where unknown.

    A format that the generation has no matrix units for runs on its fp32 units.
    """
    key = _LIKE.get(name, name)
    table = _table()
    return table.get((arch, key)) or (table.get((arch, "fp32"), 0.0) if key in ("fp16", "tf32") else 0.0)


def sustained_fraction(peak_tflops: Figure, watts: Figure, tdp_w: Figure) -> Figure:
    """Share of `peak_tflops` held at `tdp_w`, in (0, 1]; 1 where the power figures are unknown (0 or NaN).

    >>> round(float(sustained_fraction(989.0, 0.8, 700.0)), 2)
    0.78
    """
    need = np.asarray(peak_tflops, float) * watts / np.asarray(tdp_w, float)
    need = np.where(np.isfinite(need), need, 0.0)
    squared = need * need
    return 1.0 / np.sqrt(np.sqrt(1.0 + squared * squared))  # type: ignore[no-any-return]
