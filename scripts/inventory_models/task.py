"""What is counted: one model, how it is built and what it eats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Inputs = Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One model to count: how to build it, what it eats, and what the facts say of its size."""

    name: str
    described: str
    build: Callable[[], Any]
    inputs: Inputs
    packages: tuple[str, ...]
    params_m: float | None = None  # millions of parameters that the facts state; another network is left out
    samples: float = 1.0  # samples of the measurements in one counted input (a sentence pair of 64 tokens is 64)
    separate: bool = False  # count two batch sizes, so that what does not grow with the batch stays out of a sample
    steps: float = 0.0  # kernels of a forward pass that are launched one time step after another by fused LSTM layers
    exchanged: float = 0.0  # values a sample looked up in tables that the GPUs of a job share out
    definition: str = ""  # where the shape is published, for networks written down here


def floats(*shapes: tuple[int, ...]) -> Inputs:
    """Inputs of these shapes (without the batch), no values."""

    def make(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch = import_module("torch")
        return tuple(torch.empty(batch, *shape, device="meta") for shape in shapes), {}

    return make


def numbers(*shapes: tuple[int, ...]) -> Inputs:
    """The same with whole numbers (token numbers, row numbers of tables)."""

    def make(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch = import_module("torch")
        return tuple(torch.empty(batch, *shape, dtype=torch.long, device="meta") for shape in shapes), {}

    return make
