"""Fit everything that is fitted, from the shipped measurements, and commit it as a few small files.

`parameters.json` (constants with units, priors and bounds; interval widths; fingerprint of the data), `evidence.npz`
(residuals for the correction) and `architectures/profiles.csv` (work of profiled models). Run by
`estimator benchmarks fit`; reproducible bit for bit from the same data.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np

from benchmarks_db import measurements
from estimator.architectures import profiled
from estimator.fitting.calibration import FREE, PRIORS
from estimator.fitting.study import Bench, Trained, bench, evidence, judged, model_bases, predict, taught
from estimator.performance import evidence as packed
from estimator.performance.constants import PARAMETERS, UNITS, Constants, fitted
from estimator.performance.intervals import conformal, model_class, series_labs, widths_of
from estimator.performance.kriging import described, kinship_of, with_pull

FAMILIES = ("language", "classic")
EVERY = 10**9


def run(*, families: tuple[str, ...] = FAMILIES, intervals: bool = True, path: Path = PARAMETERS) -> dict[str, object]:
    """Fit the families and write the files; the document written is returned.

    Without `intervals` the committed widths stay: they need every split of the study, minutes instead of seconds.
    """
    document: dict[str, object] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    constants = dict(document.get("families", {}))  # type: ignore[call-overload]
    kinship = dict(document.get("kinship", {}))  # type: ignore[call-overload]
    widths = dict(document.get("intervals", {}))  # type: ignore[call-overload]
    pack = dict(packed.load())
    for family in families:
        if intervals:
            data, trained, left = judged(family)
        else:
            data, left = bench(family), {}
            trained = taught(data)
        constants[family] = _described(family, trained.constants)
        full = bench(family, cap=EVERY)
        assert trained.kinship is not None
        kinship[family] = described(trained.kinship)
        known = evidence(full, np.arange(len(full)), _spread(trained, data, full))
        pack[family] = with_pull(known, trained.kinship)
        if family == "classic":
            _write_profiles(data, trained)
        if not intervals:
            continue
        _step, features = predict(data, np.arange(len(data)), trained)
        finals = {kind: final for kind, (_physics, final) in left.items()}
        classes = model_class(features, family, series_labs(pack[family]))
        found = conformal(finals, classes, data.even, data.groups)
        widths[family] = {"half_width": found.table, "median_residual": found.centre}
    document = {
        "about": "Fitted by `estimator benchmarks fit`; constants of the step-time model by family. Do not edit.",
        "fingerprint": measurements.fingerprint(),
        "families": constants,
        "kinship_unit": "sd and noise: natural log of seconds; distance: of a different name, or a unit of a figure",
        "kinship": kinship,
        "interval_unit": "half-width of the 80% interval, natural log of throughput",
        "intervals": widths,
    }
    path.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n", encoding="utf-8")
    packed.save(pack)
    fitted.cache_clear()
    widths_of.cache_clear()
    kinship_of.cache_clear()
    packed.load_family.cache_clear()
    return document


def _described(family: str, constants: Constants) -> dict[str, dict[str, object]]:
    free = {one.name: one for one in FREE[family]}
    entry: dict[str, dict[str, object]] = {}
    for field in fields(Constants):
        value = float(getattr(constants, field.name))
        described: dict[str, object] = {"value": _short(value), "unit": UNITS.get(field.name, "ratio")}
        if one := free.get(field.name):
            prior = float(getattr(PRIORS[family], field.name))
            described |= {"prior": prior, "prior_sigma_log": one.sigma, "bounds": [one.low, one.high]}
        entry[field.name] = described
    return entry


def _short(value: float) -> float:
    """Six significant digits: enough to reproduce, short enough to read."""
    return value if value == 0.0 else round(value, 5 - math.floor(math.log10(abs(value))))


def _spread(trained: Trained, data: Bench, full: Bench) -> Trained:
    """Factors by the model order of another bench."""
    if trained.factors is None:
        return trained
    known = {name: i for i, name in enumerate(data.model_names)}
    ones = np.ones(trained.factors.shape[1])
    factors = np.array([trained.factors[known[name]] if name in known else ones for name in full.model_names])
    return Trained(trained.constants, factors)


def _write_profiles(data: Bench, trained: Trained) -> None:
    assert trained.factors is not None
    found: dict[str, profiled.Evidence] = {}
    gpus, labs = data.names("gpu"), data.names("lab")
    bases = model_bases(data)
    for code, name in enumerate(data.model_names):
        mine = data.model_codes == code
        found[name] = profiled.Evidence(
            factors=tuple(float(f) for f in trained.factors[code]),
            basis=str(bases[code]),
            rows=int(mine.sum()),
            gpus=len(set(gpus[mine])),
            labs=len(set(labs[mine])),
        )
    profiled.write(found)
    profiled.shipped.cache_clear()
