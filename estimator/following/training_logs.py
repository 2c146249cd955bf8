"""How fast did a training run go, by its own log? Trainer logs read as the cells of a measurement.

Read: `trainer_state.json`, `all_results.json` and console output of the Hugging Face Trainer; a `metrics.csv` of
Lightning's CSVLogger with its ThroughputMonitor (or `iter_time`); console lines of Composer (llm-foundry); and any
other log that shows steps with their times (tqdm, Megatron, nanoGPT). What no log says (the model, the card) is the
user's to add.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks_db.errors import WorkloadError

WARM_UP = 0.1  # of the readings: the first are compilation, caches and clocks


@dataclass(frozen=True, slots=True)
class LogReading:
    """What a log says: `cells` of a measurement (throughput and unit at least), whose log it is, and what to mind."""

    trainer: str
    cells: dict[str, str]
    notes: tuple[str, ...] = ()


def read_training_log(text: str) -> LogReading:
    """The throughput in a log; WorkloadError when it shows none.

    >>> read_training_log("{'train_samples_per_second': 8.0, 'train_steps_per_second': 0.5}").cells
    {'throughput': '8', 'unit': 'samples/s', 'scope': 'total', 'global_batch': '16'}
    """
    for reader in (_hugging_face_json, _lightning, _composer, _hugging_face_console, _any_steps):
        if (found := reader(text)) is not None:
            return found
    raise WorkloadError(
        "the log shows no throughput and no steps with their time",
        field="--from-log",
        nearest=("trainer_state.json of a finished run", "a metrics.csv with ThroughputMonitor", "a tqdm bar"),
    )


# --- Hugging Face --------------------------------------------------------------------------------------------------

_WHOLE_RUN = "the Trainer's rate is over the whole run: warm-up, saving and (if any) evaluation count in it"


def _hugging_face_json(text: str) -> LogReading | None:
    """`trainer_state.json` (its last entry sums up the run) or `all_results.json`."""
    try:
        state = json.loads(text) if text.lstrip().startswith("{") else None
    except (json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(state, dict):
        return None
    history = state.get("log_history")
    if not isinstance(history, list):
        return _trainer_summary(state) if "train_samples_per_second" in state else None
    entries = [entry for entry in history if isinstance(entry, dict) and "train_samples_per_second" in entry]
    if not entries:
        raise WorkloadError(
            "this trainer_state.json is of a run that had not finished: it holds no times",
            field="--from-log",
            nearest=("trainer_state.json in the output folder of a finished run", "the console log"),
        )
    found = _trainer_summary(entries[-1])
    size = _positive(state.get("train_batch_size"))
    if found is not None and size:
        found.cells["micro_batch"] = f"{size:g}"
    return found


def _trainer_summary(entry: Mapping[str, Any]) -> LogReading | None:
    samples, steps = (_positive(entry.get(f"train_{what}_per_second")) for what in ("samples", "steps"))
    if not samples:
        return None
    cells = {"throughput": f"{samples:.6g}", "unit": "samples/s", "scope": "total"}
    if steps and steps >= 0.02:  # three decimals are written: below, the ratio says nothing
        cells["global_batch"] = f"{max(1, round(samples / steps))}"
    return LogReading("Hugging Face Trainer", cells, (_WHOLE_RUN,))


_SAID = re.compile(r"['\"]?\b(train_(?:samples|steps)_per_second)\b['\"]?\s*[:=]\s*['\"]?(\d+\.?\d*(?:e[+-]?\d+)?)")
_BATCHES = (
    ("micro_batch", re.compile(r"Instantaneous batch size per device\s*=\s*([\d,]+)")),
    ("global_batch", re.compile(r"Total train batch size[^=\n]*=\s*([\d,]+)")),
)


def _hugging_face_console(text: str) -> LogReading | None:
    """The summary that the Trainer prints last, and the batches that it prints first."""
    found = _trainer_summary(dict(_SAID.findall(text)))
    if found is None:
        return None
    for name, pattern in _BATCHES:
        if match := pattern.search(text):
            found.cells[name] = match[1].replace(",", "")
    return found


# --- Lightning -----------------------------------------------------------------------------------------------------


def _lightning(text: str) -> LogReading | None:
    """A CSV with a `step` column and the columns of ThroughputMonitor, each with any prefix, or `iter_time`."""
    header = text.lstrip("\ufeff").partition("\n")[0]
    columns = [name.strip() for name in header.split(",")]
    if len(columns) < 2 or not {"step", "iter", "epoch"} & set(columns):
        return None
    rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True))

    def steady(*names: str) -> float | None:
        for name in names:
            for column in columns:
                if re.split(r"train[/|]|^throughput[/|]|^", column, maxsplit=1)[-1].replace("|", "/") == name:
                    return _steady(_positive(row.get(column)) for row in rows)
        return None

    whole = {what: steady(f"global/{what}_per_sec") for what in ("samples", "batches", "items")}
    scope, rates = (
        ("total", whole) if whole["samples"] else ("per_gpu", {k: steady(f"device/{k}_per_sec") for k in whole})
    )
    seconds = steady("iter_time")
    if not rates["samples"] and not rates["items"] and not seconds:
        raise WorkloadError(
            f"the columns {', '.join(columns[:8])} hold no times",
            field="--from-log",
            nearest=("a CSVLogger beside ThroughputMonitor(batch_size_fn=...)",),
        )
    if rates["items"] or rates["samples"]:
        unit, figure = ("samples/s", rates["samples"]) if rates["samples"] else ("tokens/s", rates["items"])
        cells = {"throughput": f"{figure:.6g}", "unit": unit, "scope": scope}
        if rates["samples"] and rates["items"]:
            cells["seq_len"] = f"{round(rates['items'] / rates['samples'])}"
        if rates["samples"] and rates["batches"]:
            name = "micro_batch" if scope == "per_gpu" else "global_batch"
            cells[name] = f"{max(1, round(rates['samples'] / rates['batches']))}"
        return LogReading("Lightning", cells)
    return LogReading("Lightning", {"throughput": f"{seconds:.6g}", "unit": "s/step"}, ("iter_time is of one step",))


# --- Composer, llm-foundry -----------------------------------------------------------------------------------------

_COMPOSER = re.compile(r"throughput/(device/)?(tokens|samples|batches)_per_sec\W{1,4}(\d+\.?\d*(?:e[+-]?\d+)?)")
_MICRO = re.compile(r"device_train_microbatch_size\W{1,4}(\d+)")


def _composer(text: str) -> LogReading | None:
    """`Train throughput/tokens_per_sec: 27443.3` and its like, as SpeedMonitor logs them."""
    seen: dict[str, list[float | None]] = {}
    for device, what, figure in _COMPOSER.findall(text):
        seen.setdefault(device + what, []).append(float(figure))
    steady = {name: _steady(values) for name, values in seen.items()}
    whole = any(steady.get(name) for name in ("tokens", "samples"))
    rates = {what: steady.get(what if whole else f"device/{what}") for what in ("tokens", "samples", "batches")}
    unit = "tokens" if rates["tokens"] else "samples"
    figure = rates[unit]
    if not figure:
        return None
    cells = {"throughput": f"{figure:.6g}", "unit": f"{unit}/s", "scope": "total" if whole else "per_gpu"}
    tokens, samples, batches = rates["tokens"], rates["samples"], rates["batches"]
    if tokens and samples:
        cells["seq_len"] = f"{round(tokens / samples)}"
    if samples and batches and whole:
        cells["global_batch"] = f"{max(1, round(samples / batches))}"
    for what in ("tokens", "samples"):
        device = steady.get(f"device/{what}")
        if whole and device and rates[what]:
            cells["gpus"] = f"{max(1, round((rates[what] or 0.0) / device))}"
    if match := _MICRO.findall(text):
        cells["micro_batch"] = str(match[-1])
    return LogReading("Composer (llm-foundry)", cells | {"framework": "composer"})


# --- any log with steps --------------------------------------------------------------------------------------------


def _any_steps(text: str) -> LogReading | None:
    from estimator.following.track import pace_of, read_log

    try:
        progress = read_log(text.splitlines())
    except WorkloadError:
        return None
    pace, _ = pace_of(progress)
    note = f"{progress.done:g} steps: their global batch tells how much a step is (--set global_batch=...)"
    return LogReading("a log of steps", {"throughput": f"{pace:.6g}", "unit": "s/step"}, (note,))


def _positive(value: object) -> float | None:
    try:
        figure = float(str(value))
    except ValueError:
        return None
    return figure if 0.0 < figure < float("inf") else None


def _steady(values: Iterable[float | None]) -> float | None:
    """Median of the readings after the first `WARM_UP` of them; None where there are none."""
    there = [value for value in values if value]
    return median(there[int(len(there) * WARM_UP + 0.999) if len(there) > 2 else 0 :]) if there else None
