"""Which numbers of the step-time model are fitted, with their units, priors and bounds, and where are they kept?

One `Constants` a family of software habits: `language` and `classic` (vision, speech, recommendation). Fields may be
scalars (a plan of one model) or arrays of shape (n,) (rows of different families).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Value = float | NDArray[np.float64]

PARAMETERS = Path(__file__).parent / "parameters.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Constants of one family; defaults are the priors.

    They come from a study on the public measurements. Those that the fit does not move (`calibration.FREE`) were fitted
    once on all of them and then held: moving them changes nothing on left-out laboratories.
    """

    matmul: Value = 0.80  # matrix rate over sustained rate
    narrow: Value = 1.00  # the same for fp8, over `matmul`
    single: Value = 1.0  # the same for fp32, over `matmul` (Winograd convolutions pass the datasheet rate)
    tf32: Value = 1.0  # the same for TF32, over `matmul`
    tiny: Value = 0.62  # the same for 4-bit matrix work, over `matmul`
    expert: Value = 0.83  # the same for routed experts, over `matmul`
    expert_width: Value = 300.0  # width of an expert at which a 312 TFLOP/s GPU runs it at half rate
    frozen: Value = 0.93  # matrix time where weights get no gradients, over the counted time
    grouped: Value = 0.10  # the same for grouped and depthwise convolutions, over `matmul`
    attention: Value = 0.50  # fused attention of a 312 TFLOP/s GPU over its 16-bit datasheet rate
    attention_fall: Value = 0.34  # ... which falls with (312 / rate) to this power
    early_attention: Value = 0.72  # fused attention of the first generation over `attention`
    vendor_attention: Value = 1.4  # attention of vendor libraries over `attention`
    width: Value = 300.0  # slow-down of narrow models: 1 + width / hidden
    split: Value = 550.0  # ... and of matrices cut by tensor parallelism: + split (sqrt(t) - 1) / hidden sqrt(peak/312)
    fill: Value = 80.0  # tokens a micro-batch at which a 312 TFLOP/s GPU runs at half rate
    again: Value = 0.89  # forward passes that full recomputation adds
    memory: Value = 0.85  # streaming over datasheet bandwidth
    cache: Value = 0.0  # memory traffic takes longer by (its bytes a clock and multiprocessor / usual)^cache
    feed: Value = 0.0  # matrix work takes longer by (peak FLOPs a clock and multiprocessor / usual)^feed
    power: Value = 1.0  # exponent of the share of the peak that a card holds at its power limit when never idle
    traffic: Value = 1.0  # elementwise traffic over the counted values
    fused: Value = 0.67  # the same where kernels are fused, over `traffic`
    vendor: Value = 1.1  # matrix rate of vendor libraries and compilers over `matmul`
    tuned: Value = 1.23  # device's speed under software tuned by vendors (MLPerf) over that of compiled software
    dequantise: Value = 2.5  # bytes that unpacking moves a frozen 4-bit weight and pass: 0.52 read, 2 written
    branches: Value = 1.5  # ... and clocks of a multiprocessor that it takes in kernels that branch by value
    adapter: Value = 3.0  # values that adapters move a value into or out of an adapted matrix, beside the matrix itself
    graphs: Value = 1.0  # host time under software tuned by vendors (CUDA graphs) over that of other software
    launch_us: Value = 40.0  # host time a kernel
    step_ms: Value = 14.0  # host time an optimizer step
    hooks_us: Value = 1000.0  # host time a layer and pass of gathering its sharded weights, where nothing is fused
    plain: Value = 1.6  # host time of a plain Python stack over a lean one
    bubble: Value = 0.95  # of (pipeline stages - 1) / (micro-batches x virtual stages)
    link: Value = 0.95  # NVLink rate over datasheet
    pcie: Value = 0.35  # PCIe rate over datasheet
    staged: Value = 0.16  # the same where every byte passes host memory (GeForce)
    wire: Value = 1.0  # gradient bytes under software tuned by vendors over 4 a parameter
    nic: Value = 0.95  # network rate over line rate, InfiniBand
    overlap: Value = 3.0  # norm that joins busy time and gradient traffic: 1 no overlap, infinity all hidden
    contend: Value = 0.0  # share of gradient and weight traffic inside a node that adds to compute
    latency_us: Value = 34.0  # a collective's fixed time
    exchange: Value = 0.32  # exposed share of the expert exchange
    tensor: Value = 0.75  # exposed share of tensor-parallel traffic
    sync: Value = 0.0  # slow-down by stragglers a doubling of the GPUs
    uneven: Value = 0.5  # share of the busiest stage's surplus that shows: some split the layers to suit it
    send: Value = 0.3  # exposed share of the sends between pipeline stages
    decode: Value = 1.0  # host decoding time over the counted time


UNITS = {
    "fill": "tokens",
    "width": "hidden units",
    "split": "hidden units",
    "expert_width": "hidden units",
    "dequantise": "bytes a weight and pass",
    "branches": "clocks of a multiprocessor a weight and pass",
    "adapter": "values a value",
    "launch_us": "microseconds a kernel",
    "hooks_us": "microseconds a layer and pass",
    "step_ms": "milliseconds a step",
    "latency_us": "microseconds a collective",
    "overlap": "exponent",
    "attention_fall": "exponent",
    "cache": "exponent",
    "feed": "exponent",
    "power": "exponent",
    "again": "forward passes",
}
"""Units of the constants that are no plain ratios."""


@dataclass(frozen=True, slots=True)
class Free:
    """A constant that the fit may move: standard deviation of its prior in log units, and hard bounds."""

    name: str
    sigma: float
    low: float
    high: float


def from_mapping(values: dict[str, float]) -> Constants:
    """Constants from a parameter file's section; unknown names are an error, missing ones stay at their prior."""
    return Constants(**values)


@cache
def fitted(family: str = "language") -> Constants:
    """The committed constants of a family (priors where nothing is committed yet)."""
    if not PARAMETERS.exists():
        return Constants()
    document = json.loads(PARAMETERS.read_text())
    return from_mapping({name: entry["value"] for name, entry in document["families"].get(family, {}).items()})


def per_row(families: Sequence[str], table: dict[str, Constants] | None = None) -> Constants:
    """Constants of rows of different families, arrays of shape (n,); a field that agrees everywhere stays a scalar."""
    names = sorted(set(families))
    sets = [table[name] if table else fitted(name) for name in names]
    if len(sets) == 1:
        return sets[0]
    code = np.array([names.index(name) for name in families])
    picked: dict[str, Value] = {}
    for field in fields(Constants):
        column = np.array([getattr(one, field.name) for one in sets], float)
        picked[field.name] = float(column[0]) if np.all(column == column[0]) else column[code]
    return Constants(**picked)


def committed_fingerprint(path: Path = PARAMETERS) -> str:
    """Fingerprint of the data that the committed fit belongs to; "" before the first fit."""
    return str(json.loads(path.read_text(encoding="utf-8"))["fingerprint"]) if path.exists() else ""
