"""How accurate is the model on what it was not shown, next to a constant utilisation per GPU type? One table.

Group-weighted (each laboratory, model, GPU and method counts once, suspect rows like sound ones), fixed seeds, grouped
splits only: other layouts of a known group, unseen groups of a known laboratory, unseen models, GPU types and
laboratories. No row is dropped because it fits badly; rows that their own source shows to be unusable are not part of
the facts' usable rows to begin with.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from estimator.architectures import profiled
from estimator.fitting.study import FAMILY, SPLITS, Bench, Trained, evidence, folds, judged, left_out, predict
from estimator.performance.correction import carries
from estimator.performance.evidence import Features
from estimator.performance.intervals import (
    KINDS,
    conformal,
    half_widths,
    model_class,
    series_labs,
    weighted_quantile,
)
from estimator.terms import EvidenceKind, Method

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MEANING = {
    "group": "known group, other layout",
    "lab": "known lab, unseen group",
    "unseen-model": "unseen model",
    "unseen-gpu": "unseen GPU type",
    "unseen-lab": "unseen lab",
}


JUDGES = 5
"""Parts of the left-out things: the interval of each is taken from the others."""


@dataclass(frozen=True, slots=True)
class Score:
    """One line of the table; errors in % of the measured throughput."""

    case: str
    split: str
    groups: int
    rows: int
    median: float
    p90: float
    bias: float  # median signed error; positive: predicted too fast
    physics_median: float  # without the correction by neighbours
    constant_mfu_median: float
    constant_mfu_p90: float
    coverage: float  # share of rows inside the 80% interval, group-weighted, judged on rows it was not taken from
    width: float  # median factor either way of that interval


@dataclass(frozen=True)
class Report:
    """The table and what stands beside it."""

    scores: list[Score]
    extras: dict[str, float]  # single figures: noise floor, llm-foundry MAPE, one own measurement


def evaluate(families: Iterable[str] = ("language", "classic")) -> Report:
    """Run every split of every family; minutes on two cores, the same figures every time."""
    scores: list[Score] = []
    extras: dict[str, float] = {}
    for family in families:
        data, whole, left = judged(family)
        _step, features = predict(data, np.arange(len(data)), whole)
        classes = model_class(features, family, series_labs(evidence(data, np.arange(len(data)), whole)))
        finals = {split: final for split, (_physics, final) in left.items()}
        for split, (physics, final) in left.items():
            constant = constant_mfu(data, split, whole)
            covered, width = coverage(data, finals, classes, split)
            for case, mask in cases(data).items():
                if (line := score(data, case, split, mask, physics, final, constant, covered, width)) is not None:
                    scores.append(line)
        extras |= {f"{family}: {name}": value for name, value in beside(data, features, left).items()}
        if family == "classic":
            extras |= unseen_family(data, whole)
    return Report(scores, extras)


def cases(data: Bench) -> dict[str, Mask]:
    """Kinds of rows that the table lists apart, by family."""
    rows = data.rows
    every = np.ones(len(data), bool)
    sound = data.quality == "ok"
    gpus = np.asarray(data.sample.hardware.gpus)
    ids = np.array([i.split("-")[0] for i in data.ids])
    if data.family != "language":
        timm = np.array(["pytorch-image-models" in row.lab for row in rows])
        return {
            "classic: all": every,
            "classic: sound rows": sound,
            "classic: vendor-tuned (MLPerf)": ids == "mlperf",
            "classic: without timm": ~timm,
            "timm models": timm,
            "classic: 8 GPUs and more": gpus >= 8,
        }
    peft = np.array([row.method in (Method.LORA, Method.QLORA) for row in rows])
    moe = np.asarray(data.sample.work.experts) > 0
    large = np.asarray(data.sample.work.params) >= 0.95e9
    half = np.array([row.format in ("bf16", "fp16", "pure-bf16") for row in rows])
    tables = ids == "llm"
    assumed = np.asarray(data.sample.execution.length_assumed) > 0
    return {
        "language: all": every,
        "language: sound rows": sound,
        "language: pretraining and full fine-tuning": ~peft & tables,
        "language: the same, sound rows": ~peft & tables & sound,
        "language: dense, 1B and more, 16 bit": ~peft & ~moe & large & half & tables,
        "language: dense, 1B and more, 8 and 4 bit": ~peft & ~moe & large & ~half & tables,
        "language: dense, below 1B": ~peft & ~moe & ~large & tables,
        "language: mixture of experts": ~peft & moe & tables,
        "language: LoRA and QLoRA": peft & tables,
        "language: LoRA and QLoRA, sound rows": peft & tables & sound,
        "language: LoRA and QLoRA, length stated": peft & ~assumed,
        "language: LoRA and QLoRA, length not stated": peft & assumed,
        "language: 8 GPUs and more": (gpus >= 8) & tables,
        "language: small jobs (notebooks, blogs)": ids == "small",
        "language: vendor-tuned (MLPerf)": ids == "mlperf",
    }


def constant_mfu(data: Bench, split: str, whole: Trained) -> Floats:
    """Residual of a constant utilisation per GPU type (of the training rows; of all GPUs where the type is unseen).

    The FLOPs of profiled models are those inferred from all rows: the rule of thumb gets them for free.
    """
    work, layout, hardware = data.sample.work, data.sample.layout, data.sample.hardware
    if whole.factors is not None:
        work = profiled.apply(work, whole.factors[data.model_codes])
    flops = work.matmul_flops + work.expert_flops + work.attention_flops + work.grouped_flops
    samples = layout.micro_batch * layout.grad_accum * layout.data
    ideal = (1.0 + work.backward_ratio) * flops * samples / (hardware.matmul_tflops * 1e12 * hardware.gpus)
    raw = np.log(data.sample.seconds / np.asarray(ideal, float))
    gpu, fold, weights = data.names("gpu"), folds(data, split), data.even
    out = np.full(len(data), np.nan)
    for one in np.unique(fold):
        test, rest = fold == one, fold != one
        if not rest.any():
            continue
        anywhere = weighted_quantile(raw[rest], weights[rest], 0.5)
        for name in np.unique(gpu[test]):
            same = rest & (gpu == name)
            level = weighted_quantile(raw[same], weights[same], 0.5) if same.any() else anywhere
            out[test & (gpu == name)] = raw[test & (gpu == name)] - level
    return out


def coverage(data: Bench, finals: dict[str, Floats], classes: NDArray[np.str_], split: str) -> tuple[Floats, Floats]:
    """(1 inside or 0 outside the interval, half-width) of each row: widths from four fifths of the left-out things,
    judged on the fifth that they do not come from."""
    inside, width = np.full(len(data), np.nan), np.full(len(data), np.nan)
    things = data.groups if split in ("group", "lab") else data.names(split.removeprefix("unseen-"))
    names, inverse = np.unique(things, return_inverse=True)
    part = np.random.default_rng(1).permutation(len(names))[inverse] % JUDGES
    kind = np.full(len(data), KINDS.index(EvidenceKind(split)))
    for one in range(JUDGES):
        judged_rows = part == one
        known = {name: np.where(judged_rows, np.nan, values) for name, values in finals.items()}
        widths = conformal(known, classes, data.even, data.groups)
        there = judged_rows & np.isfinite(finals[split])
        found = half_widths(classes, kind, widths)
        inside[there] = np.abs(finals[split][there]) <= found[there]
        width[there] = found[there]
    return inside, width


def score(
    data: Bench,
    case: str,
    split: str,
    mask: Mask,
    physics: Floats,
    final: Floats,
    constant: Floats,
    covered: Floats,
    width: Floats,
) -> Score | None:
    """One line, or None where the case has no rows in this split."""
    there = mask & np.isfinite(final)
    if not there.any():
        return None
    weights = data.even[there]

    def error(r: Floats, q: float) -> float:
        return round(100.0 * weighted_quantile(np.abs(np.exp(r[there]) - 1.0), weights, q), 1)

    return Score(
        case=case,
        split=split,
        groups=len(np.unique(data.groups[there])),
        rows=int(there.sum()),
        median=error(final, 0.5),
        p90=error(final, 0.9),
        bias=round(100.0 * (np.exp(weighted_quantile(final[there], weights, 0.5)) - 1.0), 1),
        physics_median=error(physics, 0.5),
        constant_mfu_median=error(constant, 0.5),
        constant_mfu_p90=error(constant, 0.9),
        coverage=round(100.0 * float(np.average(covered[there], weights=weights)), 1),
        width=round(float(np.exp(weighted_quantile(width[there], weights, 0.5))), 2),
    )


def beside(data: Bench, features: Features, left: dict[str, tuple[Floats, Floats]]) -> dict[str, float]:
    """Single figures: the noise between replicates, between laboratories, and what one own measurement is worth."""
    physics, final = left["unseen-lab"]
    lab, weights = data.names("lab"), data.even
    medians = []
    for name in np.unique(lab):
        mine = (lab == name) & np.isfinite(physics)
        if weights[mine].sum() >= 2.0:
            medians.append(abs(weighted_quantile(physics[mine], weights[mine], 0.5)))
    found = {
        "replicates of one configuration, median deviation %": round(100.0 * replicates(data), 2),
        "laboratories, median |median residual| %": round(100.0 * float(np.median(medians)), 1) if medians else 0.0,
    }
    anchored, bare = own_measurement(data, features, final)
    found["unseen lab, other rows of a group, before one own measurement %"] = bare
    found["unseen lab, other rows of a group, after one own measurement %"] = anchored
    foundry = np.array([row.lab == "mosaicml" for row in data.rows]) & np.isfinite(left["unseen-model"][1])
    if foundry.any():
        errors = np.abs(np.exp(left["unseen-model"][1][foundry]) - 1.0)
        found["llm-foundry rows, other sizes of the stack, MAPE %"] = round(100.0 * float(errors.mean()), 1)
    return found


def unseen_family(data: Bench, whole: Trained) -> dict[str, float]:
    """Errors in % of timm models whose whole family of models was left out, by median and 90th percentile."""
    _physics, final = left_out(data, FAMILY, whole=whole)
    there = cases(data)["timm models"] & np.isfinite(final)
    errors, weights = np.abs(np.exp(final[there]) - 1.0), data.even[there]
    return {
        f"timm models of a family nobody measured, {name} %": round(100.0 * weighted_quantile(errors, weights, q), 1)
        for name, q in (("median", 0.5), ("90th percentile", 0.9))
    }


def replicates(data: Bench) -> float:
    """Median |log deviation| of rows with the same inputs in one laboratory from their median: the floor."""
    work, layout, hardware = data.sample.work, data.sample.layout, data.sample.hardware
    parts = [data.names(field.name) for field in fields(data.labels)] + [
        np.asarray(column).astype(np.str_)
        for column in (work.tokens, work.params, layout.micro_batch, layout.grad_accum, hardware.gpus, layout.tensor)
    ]
    keys = np.array(["|".join(cells) for cells in zip(*parts, strict=True)], np.str_)
    _names, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    logs = np.log(data.sample.seconds)
    deviations = [
        np.abs(logs[inverse == code] - np.median(logs[inverse == code])) for code in np.flatnonzero(counts > 1)
    ]
    return float(np.median(np.concatenate(deviations))) if deviations else 0.0


def own_measurement(data: Bench, features: Features, final: Floats) -> tuple[float, float]:
    """(after, before): median error in % of the other rows of each group in an unseen laboratory when one of them,
    the middle one, was measured by the user; before: without it."""
    after: list[float] = []
    before: list[float] = []
    weights: list[float] = []
    groups = data.groups
    for name in np.unique(groups):
        members = np.flatnonzero((groups == name) & np.isfinite(final))
        if len(members) < 2:
            continue
        anchor = members[len(members) // 2]
        others = members[members != anchor]
        before.extend(np.abs(np.exp(final[others]) - 1.0))
        share = carries(data.family, features.pick(others), features.pick(np.array([anchor])))[:, 0]
        after.extend(np.abs(np.exp(final[others] - share * final[anchor]) - 1.0))
        weights.extend([1.0 / len(others)] * len(others))
    if not weights:
        return float("nan"), float("nan")
    w = np.array(weights)
    return (
        round(100.0 * weighted_quantile(np.array(after), w, 0.5), 1),
        round(100.0 * weighted_quantile(np.array(before), w, 0.5), 1),
    )


def as_json(report: Report) -> str:
    """The report as JSON."""
    return json.dumps({"scores": [asdict(line) for line in report.scores], "extras": report.extras}, indent=1)


def as_csv(report: Report) -> str:
    """The table as CSV, the single figures after it as case and value."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [field.name for field in fields(Score)]
    writer.writerow(names)
    for line in report.scores:
        writer.writerow([getattr(line, name) for name in names])
    for name, value in report.extras.items():
        writer.writerow([name, "", "", "", value])
    return buffer.getvalue()


def as_markdown(report: Report) -> str:
    """The table as the README shows it."""
    lines = [
        "| case | left out | groups | median / p90 error | bias | constant MFU | 80% interval: holds, x/÷ |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines.extend(
        f"| {s.case} | {MEANING[s.split]} | {s.groups} | {s.median} / {s.p90:.0f} | {s.bias:+.0f} "
        f"| {s.constant_mfu_median} / {s.constant_mfu_p90:.0f} | {s.coverage:.0f}%, {s.width:.2f} |"
        for s in report.scores
    )
    lines.append("")
    lines.extend(f"- {name}: {value}" for name, value in report.extras.items())
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Report], str]] = {"json": as_json, "csv": as_csv, "markdown": as_markdown}
"""Renderings by the name of `--format`."""

__all__ = ["FORMATS", "MEANING", "SPLITS", "Report", "Score", "evaluate"]
