"""What throughput does each row of a table ask for, how sure is that, and does it fit? `estimator predict ROWS.csv`.

Every given row comes out, in order, with the columns of `ADDED`; a row that cannot be predicted carries an `error` and
the others go on. Only the columns of `row_cells.READS` are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from estimator.memory import VERDICTS, verdict
from estimator.performance import per_row, step_time
from estimator.performance.correction import correct
from estimator.performance.evidence import features_of
from estimator.performance.intervals import KINDS
from estimator.performance.step import BOUNDS
from estimator.rows.arrays import Prepared, labels_of, prepare
from estimator.rows.cells import READS
from estimator.rows.headers import as_asked
from estimator.rows.memory_neighbours import corrected_memory

ADDED = (
    "predicted_throughput", "predicted_low", "predicted_high", "predicted_unit", "predicted_memory_gib",
    "predicted_memory_low_gib", "predicted_memory_high_gib", "fits", "bound_by", "evidence", "error",
)  # fmt: skip
"""Columns that a prediction adds."""

Floats = NDArray[np.float64]


def predict_rows(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Predict each row: throughput in the row's unit and scope with an 80% interval, memory, what bounds it."""
    asked = as_asked(rows, READS)
    out = [{**{str(k): str(v or "") for k, v in row.items()}, **dict.fromkeys(ADDED, "")} for row in rows]
    prepared = prepare(asked)
    for row, error in zip(out, prepared.errors, strict=True):
        row["error"] = error
    if not len(prepared.index):
        return out
    value, half, kind, bound = predicted(prepared)
    memory, low, high, fits = _memory(prepared)
    for j, i in enumerate(prepared.index):
        if not np.isfinite(value[j]) or value[j] <= 0.0:
            out[i]["error"] = "the prediction is not a finite number: check batch, sequence length and GPU count"
            continue
        out[i] |= {
            "predicted_throughput": _figure(value[j]),
            "predicted_low": _figure(value[j] * np.exp(-half[j])),
            "predicted_high": _figure(value[j] * np.exp(half[j])),
            "predicted_unit": prepared.units[j],
            "predicted_memory_gib": _figure(memory[j]) if np.isfinite(memory[j]) else "",
            "predicted_memory_low_gib": _figure(low[j]) if np.isfinite(low[j]) else "",
            "predicted_memory_high_gib": _figure(high[j]) if np.isfinite(high[j]) else "",
            "fits": fits[j],
            "bound_by": BOUNDS[int(bound[j])].value,
            "evidence": KINDS[int(kind[j])].value,
        }
    return out


def predicted(prepared: Prepared) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """(throughput in each row's unit, half-width in log units, kind of evidence, bound) of the usable rows."""
    constants = per_row(prepared.families)
    step = step_time(
        prepared.work, prepared.hardware, prepared.layout, execution=prepared.execution, constants=constants
    )
    features = features_of(
        labels_of(prepared), prepared.work, prepared.hardware, prepared.layout, prepared.execution, step
    )
    loose = np.array([row.gpu_loose or row.model_loose for row in prepared.rows])
    m = len(prepared.rows)
    factor, half, kind = np.ones(m), np.zeros(m), np.zeros(m, np.int64)
    families = np.array(prepared.families)
    for family in sorted(set(prepared.families)):
        mine = np.flatnonzero(families == family)
        found = correct(family, features.pick(mine), loose=loose[mine])
        factor[mine], half[mine], kind[mine] = found.factor, np.log(found.high), found.kind
    return prepared.throughput(step.total * factor), half, kind, step.bound_by


def _memory(prepared: Prepared) -> tuple[Floats, Floats, Floats, list[str]]:
    """(GiB a GPU as the row's lab would print it, its 80% interval, verdict); NaN and `unknown` where unknown."""
    found = corrected_memory(prepared)
    codes = verdict(found.account.used, found.capacity, found.account.sigma)
    low, high = np.maximum(found.stated - found.half, 0.0), found.stated + found.half
    return np.asarray(found.stated, float), low, high, [str(VERDICTS[int(code)]) for code in codes]


def _figure(value: float) -> str:
    """Six significant digits, never in exponent form for everyday sizes."""
    if value == 0.0:
        return "0"
    return f"{value:.6g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.0f}" if abs(value) >= 1e6 else f"{value:.6e}"
