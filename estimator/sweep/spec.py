"""Which requests does a sweep ask? The file: a request, and under `grid` the keys that vary with their values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from benchmarks_db.errors import EstimatorError, WorkloadError
from estimator.request.files import read_file, read_text, with_hf_config
from estimator.request.workload import Workload, nested

GRID = "grid"
AS_OF = "as_of"
LIMITS = ("deadline", "budget", "confidence", "max_usd_per_hour")
"""Keys of `constraints` that only choose among the ways to run a job: cells that differ in them share the physics."""
ANSWER = ("options", "name")
"""Keys that change what is shown, not what is worked out."""
MOST_CELLS = 10**9
NOT_VARIED = {
    "measured": "measurements belong beside the grid: they weigh in every cell",
    "constraints.accelerators": "one kind of accelerators a sweep: it belongs beside the grid",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the grid: a name, and for each of its values the request keys that it sets."""

    name: str
    choices: tuple[Mapping[str, Any], ...]  # what goes into the request
    shown: tuple[Mapping[str, Any], ...]  # what the table says: paths instead of the files' content

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that a value of this axis may set, in order of first sight."""
        return tuple(dict.fromkeys(key for choice in self.choices for key in choice))

    @property
    def only_limits(self) -> bool:
        """Whether the axis leaves the physics alone, see `LIMITS`."""
        return all(_leaves_physics_alone(path_of(key)) for key in self.keys)


@dataclass(frozen=True)
class Spec:
    """A request, and the axes along which it varies; the last axis varies fastest."""

    base: Mapping[str, Any]
    axes: tuple[Axis, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(len(axis.choices) for axis in self.axes)

    def __len__(self) -> int:
        return math.prod(self.sizes)

    @property
    def alike(self) -> int:
        """How many neighbouring cells differ in limits alone, and share their physics."""
        return math.prod(len(axis.choices) for axis in self.axes if axis.only_limits)

    def places(self, cell: int) -> tuple[int, ...]:
        """The place of a cell on each axis.

        >>> Spec({}, (_axis("epochs", [1, 2], Path()), _axis("seq_len", [512, 1024, 2048], Path()))).places(4)
        (1, 1)
        """
        found = []
        for size in reversed(self.sizes):
            cell, place = divmod(cell, size)
            found.append(place)
        return tuple(reversed(found))

    def varied(self, cell: int) -> dict[str, Any]:
        """The keys that the grid sets in a cell, with their values; `as_of` among them."""
        found: dict[str, Any] = {}
        for axis, place in zip(self.axes, self.places(cell), strict=True):
            found |= axis.choices[place]
        return found

    def shown(self, cell: int) -> dict[str, Any]:
        """The same as the table shows it."""
        found: dict[str, Any] = {}
        for axis, place in zip(self.axes, self.places(cell), strict=True):
            found |= axis.shown[place]
        return found

    def dates(self) -> tuple[str, ...]:
        """Every date of prices that a cell may have; "" for the prices of the moment."""
        named = [choice.get(AS_OF, "") for axis in self.axes if AS_OF in axis.keys for choice in axis.choices]
        return tuple(dict.fromkeys(str(date) for date in named)) or ("",)

    def workload(self, varied: Mapping[str, Any]) -> Workload:
        """The request of a cell: the cheapest plan unless the file asks for more. Raises WorkloadError."""
        body = nested({key: value for key, value in varied.items() if key != AS_OF}, self.base)
        options = body.get("options")
        if options is None or isinstance(options, Mapping):
            body["options"] = {"top": 1, **(options or {})}
        return Workload.model_validate(body)


def read_spec(path: Path) -> Spec:
    """The sweep that a YAML or JSON file describes; WorkloadError names the axis and the value that cannot be used.

    Axes that only change limits are moved behind the others, so that cells which share their physics are neighbours.
    """
    return spec_of(read_text(read_file(path, field="sweep"), name=str(path)), path.parent)


def spec_of(body: Mapping[str, Any], folder: Path) -> Spec:
    """The sweep of a mapping; the paths in it (`hf_config`, `measured`) are relative to `folder`."""
    base = {key: value for key, value in body.items() if key != GRID}
    grid = body.get(GRID)
    if not isinstance(grid, Mapping) or not grid:
        raise WorkloadError("say what varies, for example `seq_len: [2048, 4096]`", field=GRID, nearest=("grid:",))
    _beside_files(base, folder)
    axes = [_axis(name, values, folder) for name, values in grid.items()]
    keys: dict[str, str] = {}
    for axis in axes:
        for key in axis.keys:
            place = path_of(key)
            if place in keys:
                raise WorkloadError(f"{key!r} is set by {keys[place]!r} too", field=f"{GRID}.{axis.name}", value=key)
            keys[place] = axis.name
    axes.sort(key=lambda axis: axis.only_limits)
    spec = Spec(with_hf_config(base, folder), tuple(axes))
    if len(spec) > MOST_CELLS:
        raise WorkloadError(f"{len(spec):,} cells are more than {MOST_CELLS:,}", field=GRID, value=len(spec))
    return spec


def _beside_files(base: dict[str, Any], folder: Path) -> None:
    """Files of measurements are named relative to the sweep's file."""
    from estimator.request.measured_text import is_text, listed_measurements

    named = base.get("measured")
    names = [named] if isinstance(named, str) else named
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        read = [name for part in names for name in listed_measurements(part)]
        base["measured"] = [name if is_text(name) else str(folder / Path(name).expanduser()) for name in read]


def _axis(name: str, values: object, folder: Path) -> Axis:
    field = f"{GRID}.{name}"
    if not isinstance(values, list):
        raise WorkloadError("an axis is a list of values", field=field, value=values, nearest=(f"[{values}]",))
    if not values:
        raise WorkloadError("an axis needs at least one value", field=field)
    tied = name not in Workload.model_fields and all(isinstance(value, Mapping) for value in values)
    shown: list[dict[str, Any]] = [dict(value) if tied else {name: value} for value in values]
    seen: set[str] = set()
    for number, choice in enumerate(shown):
        if repr(choice) in seen:
            raise WorkloadError(f"{_said(values[number])} stands here twice", field=field, value=values[number])
        seen.add(repr(choice))
        for key in choice:
            if path_of(key) in NOT_VARIED:
                raise WorkloadError(NOT_VARIED[path_of(key)], field=field)
            if choice[key] is None:
                raise WorkloadError(
                    "a value is missing; leave the key out of the grid instead", field=f"{field}.{number}"
                )
    return Axis(name, tuple(with_hf_config(choice, folder) for choice in shown), tuple(shown))


def _said(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)


@cache
def path_of(key: str) -> str:
    """Where a key stands in a request, dotted.

    >>> path_of("cloud"), path_of("seq_len"), path_of("lora.rank")
    ('constraints.clouds', 'seq_len', 'lora.rank')
    """
    body: object = nested({key: True})
    parts = []
    while isinstance(body, Mapping) and body:
        ((name, body),) = body.items()
        parts.append(str(name))
    return ".".join(parts)


def _leaves_physics_alone(path: str) -> bool:
    first, _, rest = path.partition(".")
    return first in ANSWER or (first == "constraints" and rest in LIMITS)


def probes(spec: Spec) -> Iterator[tuple[Axis, int, dict[str, Any]]]:
    """Each value of each axis (axis and number), in a cell with the first value of every other axis."""
    first = spec.varied(0)
    for axis in spec.axes:
        others = {key: value for key, value in first.items() if key not in axis.keys}
        for number, choice in enumerate(axis.choices):
            yield axis, number, others | dict(choice)


def blamed(error: EstimatorError, axis: Axis, number: int) -> WorkloadError | None:
    """`error` as one of that value of the axis, or None where something else is to blame."""
    choice = axis.choices[number]
    for one in getattr(error, "errors", (error,)):
        for key in choice:
            if _about(one.field or "", path_of(key)):
                field = f"{GRID}.{axis.name}.{number}" + ("" if key == axis.name else f".{key}")
                return WorkloadError(one.message, field=field, value=one.value, nearest=one.nearest)
    return None


def _about(field: str, path: str) -> bool:
    last = path.rpartition(".")[2]
    return field == path or field.startswith(f"{path}.") or field in (last, last.removesuffix("s"))
