"""How long and how much is still to go for a running job, from its log? The plan's interval tightens as steps come in.

Read: tqdm bars, Megatron and nanoGPT lines, `step 120/1000`, JSON lines with `step` (Hugging Face, W&B). Steps that the
log repeats after a restart count once; the time they took counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from benchmarks_db.errors import WorkloadError

Floats = NDArray[np.float64]

Z90 = 1.2815515655446004  # standard normal quantile of 0.9
BLOCKS = 20  # means of so many stretches stand for the log: neighbouring steps are not independent
DRIFT = 0.03  # relative: a job of hours changes pace (input, neighbours, evaluation) beyond what a stretch shows
WARM_UP = 0.02  # of the steps seen: compilation and caches

_DURATION = r"(?:\d+:)?\d{1,2}:\d{2}"
_TQDM = re.compile(rf"(?P<step>\d+)/(?P<total>\d+)\s*\[(?P<elapsed>{_DURATION})<")
_OF = re.compile(
    r"\b(?:global[ _]?step|step|iteration|iter|update)s?\b[\s:=\[]*(?P<step>\d+)\s*(?:/|of)\s*(?P<total>\d+)", re.I
)
_STEP = re.compile(r"\b(?:global[ _]?step|step|iteration|iter|update)\b[\s:=\[]*(?P<step>\d+)", re.I)
_EACH = (
    (re.compile(r"(?:time per iteration|iter(?:ation)? time|step time)\s*\(ms\)\s*:?\s*(?P<x>\d+\.?\d*)", re.I), 1e-3),
    (re.compile(r"\b(?:time|dt|step_time|iter_time)\b[\s:=]*(?P<x>\d+\.?\d*)\s*ms", re.I), 1e-3),
    (re.compile(r"\b(?:time|dt|step_time|iter_time)\b[\s:=]*(?P<x>\d+\.?\d*)\s*s\b", re.I), 1.0),
    (re.compile(r"(?P<x>\d+\.?\d*)\s*s(?:ec)?/(?:it|step)", re.I), 1.0),
)
_STAMP = re.compile(r"(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)")


@dataclass(frozen=True, slots=True)
class Point:
    """One line of a log: a step, and what it says of time."""

    step: float
    total: float | None = None
    elapsed: float | None = None  # seconds since the log's start or a fixed moment
    each: float | None = None  # seconds a step


@dataclass(frozen=True, slots=True)
class Progress:
    """What a log shows: `steps` done at `seconds` (arrays of the same length, both rising)."""

    steps: Floats
    seconds: Floats
    total: float | None

    @property
    def done(self) -> float:
        """Steps done."""
        return float(self.steps[-1])


class Spread(BaseModel):
    """An 80% interval."""

    model_config = ConfigDict(frozen=True)
    p10: float
    p50: float
    p90: float


class TrackDocument(BaseModel):
    """Where a running job stands and what is to come."""

    model_config = ConfigDict(frozen=True)
    version: Literal["1"] = "1"
    currency: Literal["USD"] = "USD"
    steps_done: float
    steps_total: float
    share_done: float
    hours_so_far: float = Field(description="of the steps that the log shows")
    seconds_per_step: Spread
    remaining_hours: Spread
    total_hours: Spread
    remaining_usd: Spread | None
    total_usd: Spread | None
    planned_hours: Spread | None = Field(description="of the plan's training steps and all else")
    pace: float | None = Field(description="hours now expected over hours planned (medians)")
    weight_of_log: float = Field(description="0: the plan alone speaks, 1: the log alone")


def read_log(lines: Iterable[str]) -> Progress:
    """The progress that a log shows; WorkloadError when it shows none."""
    points = list(_points(lines))
    totals = [point.total for point in points if point.total]
    steps: list[float] = []
    seconds: list[float] = []
    clock, last_elapsed, last_step = 0.0, None, None
    for point in points:
        if point.elapsed is not None:
            if last_elapsed is not None:
                clock += max(0.0, point.elapsed - last_elapsed)
            last_elapsed = point.elapsed
        elif point.each is not None and last_step is not None and point.step > last_step:
            clock += point.each * (point.step - last_step)
        last_step = point.step
        if steps and point.step <= steps[-1]:
            continue  # the same line again, or a restart: the time counts, the step does not
        steps.append(point.step)
        seconds.append(clock)
    if len(steps) < 2 or seconds[-1] <= seconds[0]:
        raise WorkloadError(
            "the log shows no steps with their time",
            field="LOG",
            nearest=("step 120/1000 ... time 850ms", "a tqdm bar"),
        )
    return Progress(np.array(steps), np.array(seconds), max(totals) if totals else None)


def track(
    progress: Progress,
    *,
    total_steps: float | None = None,
    planned_hours: tuple[float, float, float] | None = None,
    usd_per_hour: float | None = None,
) -> TrackDocument:
    """What remains, with an 80% interval.

    The pace of the log has a relative error of the spread of its stretches over the root of their number, and the
    drift that any job shows; the plan's interval counts beside it by its own width (both log-normal, weighted by
    inverse variance). What is behind is certain, so the interval of the total narrows with every step.
    """
    total = total_steps or progress.total
    if total is None or not math.isfinite(total) or total <= 0:
        raise WorkloadError("the log does not say how many steps there are", field="--steps", nearest=("--steps 1000",))
    if total < progress.done:
        raise WorkloadError(
            f"{progress.done:g} steps are done already", field="--steps", value=total, nearest=(f"{progress.done:g}",)
        )
    pace, error = pace_of(progress)
    log_pace, variance = math.log(pace), error**2
    weight = 1.0
    if planned_hours is not None:
        low, middle, high = planned_hours
        prior = math.log(middle * 3600.0 / total)
        spread = max(math.log(high / low) / (2 * Z90), 1e-6)
        weight = spread**2 / (spread**2 + variance)
        log_pace = weight * log_pace + (1.0 - weight) * prior
        variance = 1.0 / (1.0 / variance + 1.0 / spread**2)
    sigma = math.sqrt(variance)
    each = _spread(math.exp(log_pace), sigma)
    left = max(0.0, total - progress.done)
    behind = float(progress.seconds[-1] - progress.seconds[0]) / 3600.0
    behind += pace * float(progress.steps[0]) / 3600.0  # steps before the first line at the log's pace
    ahead = _spread(math.exp(log_pace) * left / 3600.0, sigma)
    whole = Spread(p10=behind + ahead.p10, p50=behind + ahead.p50, p90=behind + ahead.p90)
    return TrackDocument(
        steps_done=progress.done,
        steps_total=total,
        share_done=progress.done / total,
        hours_so_far=behind,
        seconds_per_step=each,
        remaining_hours=ahead,
        total_hours=whole,
        remaining_usd=_times(ahead, usd_per_hour),
        total_usd=_times(whole, usd_per_hour),
        planned_hours=None if planned_hours is None else Spread(p10=low, p50=middle, p90=high),
        pace=None if planned_hours is None else whole.p50 / middle,
        weight_of_log=weight,
    )


def pace_of(progress: Progress) -> tuple[float, float]:
    """(seconds a step, its relative standard error) over the log, warm-up left out where there is enough of it."""
    steps, seconds = progress.steps, progress.seconds
    start = int(np.searchsorted(steps, steps[0] + WARM_UP * (steps[-1] - steps[0]))) if len(steps) > 20 else 0
    steps, seconds = steps[start:], seconds[start:]
    if len(steps) < 2 or seconds[-1] <= seconds[0]:
        steps, seconds = progress.steps, progress.seconds
    pace = float((seconds[-1] - seconds[0]) / (steps[-1] - steps[0]))
    cuts = np.unique(np.linspace(0, len(steps) - 1, min(BLOCKS, len(steps) - 1) + 1).astype(int))
    stretches = np.diff(seconds[cuts]) / np.diff(steps[cuts])
    weights = np.diff(steps[cuts])
    if len(stretches) < 2:
        return pace, math.hypot(0.5, DRIFT)
    spread = math.sqrt(float(np.average((stretches / pace - 1.0) ** 2, weights=weights)))
    return pace, math.hypot(spread / math.sqrt(len(stretches) - 1), DRIFT)


def _points(lines: Iterable[str]) -> Iterator[Point]:
    for line in lines:
        for part in line.replace("\r", "\n").split("\n"):
            point = _json_point(part) if part.lstrip().startswith("{") else _text_point(part)
            if point is not None:
                yield point


def _text_point(line: str) -> Point | None:
    if bar := _TQDM.search(line):
        return Point(float(bar["step"]), float(bar["total"]), _clock(bar["elapsed"]), None)
    found = _OF.search(line) or _STEP.search(line)
    if found is None:
        return None
    total = float(found["total"]) if found.re is _OF else None
    each = next((float(hit["x"]) * unit for pattern, unit in _EACH if (hit := pattern.search(line))), None)
    return Point(float(found["step"]), total, _stamped(line) if each is None else None, each)


def _json_point(line: str) -> Point | None:
    try:
        entry = json.loads(line.strip().replace("'", '"'))
    except (json.JSONDecodeError, RecursionError):
        return _text_point(line)
    if not isinstance(entry, dict):
        return None
    step = _first(entry, "step", "global_step", "_step", "iter", "iteration", "current_steps")
    if step is None:
        return None
    elapsed = _first(
        entry, "_runtime", "elapsed", "elapsed_seconds", "time_elapsed", "wall_time", "_timestamp", "timestamp"
    )
    each = _first(entry, "step_time", "time_per_step", "iter_time", "seconds_per_step")
    stamped = entry.get("timestamp") or entry.get("time") or entry.get("elapsed_time")
    if elapsed is None and isinstance(stamped, str):
        elapsed = _stamped(stamped) or (_clock(stamped) if re.fullmatch(_DURATION, stamped.strip()) else None)
    return Point(step, _first(entry, "total_steps", "max_steps", "total"), elapsed, each)


def _first(entry: dict[str, object], *names: str) -> float | None:
    for name in names:
        value = entry.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def _clock(text: str) -> float:
    """`1:02:03` in seconds."""
    seconds = 0.0
    for part in text.strip().split(":"):
        seconds = seconds * 60.0 + float(part)
    return seconds


def _stamped(text: str) -> float | None:
    found = _STAMP.search(text)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(found["stamp"].replace(",", "."))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _spread(middle: float, sigma: float) -> Spread:
    factor = math.exp(Z90 * sigma)
    return Spread(p10=middle / factor, p50=middle, p90=middle * factor)


def _times(spread: Spread, factor: float | None) -> Spread | None:
    if factor is None:
        return None
    return Spread(p10=spread.p10 * factor, p50=spread.p50 * factor, p90=spread.p90 * factor)
