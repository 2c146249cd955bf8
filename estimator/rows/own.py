"""What a user's measured rows say against the physical model, as the correction takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from estimator.performance.constants import per_row
from estimator.performance.evidence import Features, features_of
from estimator.performance.step import step_time
from estimator.rows.arrays import labels_of, prepare

Floats = NDArray[np.float64]


def own_measurements(rows: Sequence[Mapping[str, str]]) -> dict[str, tuple[Features, Floats]]:
    """The user's measured rows (columns of `predict` plus `throughput`) by family, as `correction` takes them.

    Rows that cannot be read or carry no positive throughput are left out (`benchmarks add` says why when they come in).
    """
    prepared = prepare(rows)
    if not len(prepared.index):
        return {}
    figures = np.array([_positive(rows[i].get("throughput")) for i in prepared.index])
    undated = np.array([not row.date for row in prepared.rows])  # one's own measurement is of today's software
    early = np.where(undated, 0.0, prepared.execution.early_dequantise)
    run = replace(prepared.execution, early_dequantise=early)
    constants = per_row(prepared.families)
    step = step_time(prepared.work, prepared.hardware, prepared.layout, execution=run, constants=constants)
    residual = np.log(prepared.seconds(figures) / step.total)
    labels = replace(labels_of(prepared), lab="own")
    features = features_of(labels, prepared.work, prepared.hardware, prepared.layout, run, step)
    families = np.array(prepared.families)
    found = {}
    for family in sorted(set(prepared.families)):
        mine = np.flatnonzero((families == family) & np.isfinite(residual))
        if len(mine):
            found[family] = (features.pick(mine), residual[mine])
    return found


def _positive(cell: object) -> float:
    try:
        value = float(str(cell))
    except ValueError:
        return float("nan")
    return value if value > 0.0 else float("nan")
