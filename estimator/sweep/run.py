"""From a spec to a Parquet file: check it, take up what a killed run has left, work out the rest, join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from benchmarks_db.errors import WorkloadError
from estimator.sweep.cells import Question, check
from estimator.sweep.engines import Engine
from estimator.sweep.identity import fingerprint, program
from estimator.sweep.parts import Manifest, Parts
from estimator.sweep.table import schema_of
from estimator.sweep.worker import Work

FEW_PARTS, PARTS = 256, 4096  # enough for the cores of one machine, and for those of a hundred
USUAL_CELLS_IN_PART, MOST_CELLS_IN_PART = 16, 4096  # about half a second of work, and two minutes

Progress = Callable[[int, int], None]
"""Called with the cells done and how many there are."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a sweep went."""

    cells: int
    taken_up: int  # cells that an earlier run had finished
    by_status: Mapping[str, int]  # rows


def cells_in_part(cells: int, alike: int = 1) -> int:
    """How many cells are one part: little is lost by a kill, and there are not too many files.

    It depends on the grid alone, so that the whole file does too. The `alike` neighbours that share their physics
    stay together, as far as a part may be that long.

    >>> cells_in_part(24), cells_in_part(10_000), cells_in_part(10_000, 16), cells_in_part(10**9)
    (1, 16, 16, 4096)
    """
    if alike > MOST_CELLS_IN_PART:
        alike = 1
    groups = -(-cells // alike)
    usual = min(max(1, USUAL_CELLS_IN_PART // alike), -(-groups // FEW_PARTS))
    return alike * min(MOST_CELLS_IN_PART // alike, max(usual, -(-groups // PARTS)))


def manifest_of(question: Question, now: str) -> Manifest:
    """What the parts of this sweep belong to."""
    spec, cells = question.spec, len(question.spec)
    axes = [[axis.name, [dict(choice) for choice in axis.choices]] for axis in spec.axes]
    return Manifest(
        spec=fingerprint([dict(spec.base), axes]),
        program=program(),
        prices=fingerprint([{date: market.state for date, market in question.markets.items()}, _moves(question)]),
        measured=fingerprint([dict(row) for row in question.measured]),
        now=now,
        cells=cells,
        cells_in_part=cells_in_part(cells, spec.alike),
    )


def _moves(question: Question) -> list[str]:
    """The histories of spot prices as text."""
    return [
        repr((date, place, steps.since.tolist(), steps.usd_per_hour.tolist(), steps.until))
        for date, history in question.histories.items()
        for place, steps in history.items()
    ]


def work_of(question: Question, manifest: Manifest) -> Work:
    """The question with what every worker must know of the sweep."""
    about = {f"estimator.{key}": str(value) for key, value in asdict(manifest).items()}
    return Work(question, manifest.cells, manifest.cells_in_part, about, manifest.program)


def sweep(
    question: Question,
    manifest: Manifest,
    parts: Parts,
    engine: Engine,
    *,
    restart: bool = False,
    progress: Progress = lambda done, whole: None,
) -> Report:
    """Work out every cell that is not there yet and write the whole table. The folder of `parts` must be claimed.

    Raises WorkloadError when the spec cannot be used, or when the parts that are there belong to something else.
    """
    check(question)
    work = work_of(question, manifest)
    old = parts.manifest()
    if old is None or restart:
        parts.begin(manifest)
    elif old != manifest:
        raise WorkloadError(
            f"a sweep was begun here, and {' and '.join(old.differences(manifest)) or 'its moment'} changed since; "
            "--restart throws its parts away",
            field="--output",
            value=str(parts.output),
            nearest=("--restart", "another file"),
        )
    there = parts.finished(work.parts)
    done = taken_up = sum(len(work.cells_of(part)) for part in there)
    progress(done, work.cells)
    for part, content in engine(work, (part for part in range(work.parts) if part not in there)):
        parts.keep(part, content)
        done += len(work.cells_of(part))
        progress(done, work.cells)
    tally = parts.join(work.parts, schema_of(question.spec, work.about))
    parts.clear()
    return Report(work.cells, taken_up, tally)
