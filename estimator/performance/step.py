"""How long is one optimizer step, by what, and what bounds it? One function for a row, a plan and the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.hardware import Hardware
from estimator.layouts import Layout
from estimator.performance.communication import traffic
from estimator.performance.constants import Constants, fitted
from estimator.performance.roofline import Execution, device_time, stored_bytes
from estimator.terms import BoundBy
from estimator.work import Work

Seconds = NDArray[np.float64]

BOUNDS = tuple(BoundBy)
"""Meaning of the codes in `StepTime.bound_by`."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one optimizer step by term, arrays of shape (n,); the terms add up to `total`."""

    compute: Seconds  # matrix work
    memory: Seconds  # elementwise traffic, weights, optimizer
    launch: Seconds  # host time that the device's work does not hide
    communication: Seconds  # exposed
    pipeline: Seconds  # bubble
    input: Seconds  # loading that nothing hides
    total: Seconds

    @property
    def bound_by(self) -> NDArray[np.int64]:
        """Index into `BOUNDS` of the largest term, shape (n,)."""
        terms = (self.compute, self.memory, self.launch, self.communication, self.pipeline, self.input)
        return np.asarray(np.argmax(np.stack(np.broadcast_arrays(*terms)), axis=0), np.int64)


def step_time(
    work: Work,
    hardware: Hardware,
    layout: Layout,
    *,
    execution: Execution | None = None,
    constants: Constants | None = None,
) -> StepTime:
    """Time of one optimizer step; every input broadcasts to shape (n,).

    Device and host work at the same time: busy = (device^4 + host^4)^(1/4). Traffic that compute waits for is added;
    gradient and weight traffic runs beside it: (busy^p + wire^p)^(1/p), p = `overlap`. The pipeline bubble
    lengthens the busy part by bubble x (stages - 1) / (micro-batches x virtual stages).
    Loading runs beside everything; only the excess shows.
    """
    run = execution if execution is not None else Execution()
    c = constants if constants is not None else fitted()
    device = device_time(work, hardware, layout, run, c)
    wire = traffic(work, hardware, layout, stored_bytes(work, run), c, tuned=run.tuned)
    micro = device.matmul + device.memory  # of all micro-batches
    gpu = micro + device.optimizer
    straggle = 1.0 + c.sync * np.log2(np.maximum(hardware.gpus, 1.0))
    busy = _join(gpu, device.host + device.fixed) * straggle
    stretch = c.bubble * (layout.pipeline - 1.0) / (layout.grad_accum * layout.virtual_stages)
    bubble = (_join(micro, device.host) + wire.blocking) * stretch
    core = busy + wire.blocking + bubble
    moved = _norm(core, wire.hidden, c.overlap)
    loaded = _input(work, hardware, layout, c)
    total = np.maximum(moved, loaded)
    return StepTime(
        compute=device.matmul,
        memory=device.memory + device.optimizer,
        launch=np.maximum(busy - gpu, 0.0),  # no rounding below zero
        communication=wire.blocking + np.maximum(moved - core, 0.0),
        pipeline=bubble,
        input=total - moved,
        total=total,
    )


def _join(device: Seconds, host: Seconds) -> Seconds:
    """Device and host side by side: (device^4 + host^4)^(1/4)."""
    a, b = device * device, host * host
    return np.asarray(np.sqrt(np.sqrt(a * a + b * b)))


def _norm(a: Seconds, b: Seconds, p: float | Seconds) -> Seconds:
    """(a^p + b^p)^(1/p), shape (n,); p = 3 takes the short way."""
    if isinstance(p, float) and p == 3.0:
        return np.asarray(np.cbrt(a * a * a + b * b * b))
    return np.asarray((a**p + b**p) ** (1.0 / p))


def _input(work: Work, hardware: Hardware, layout: Layout, c: Constants) -> Seconds:
    """Seconds a step that the host's cores need to decode the samples of one GPU; 0 where cores are unknown."""
    cores = np.asarray(hardware.vcpus_per_gpu, float)
    samples = layout.micro_batch * layout.grad_accum / (layout.tensor * layout.pipeline * layout.context)
    needed = samples * np.asarray(work.decode_ms, float) * 1e-3 * c.decode / np.maximum(cores, 0.1)
    return np.where(np.isfinite(needed), needed, 0.0)
