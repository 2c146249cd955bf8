"""What does a worker do? It unpacks the question once and answers runs of cells, each as the bytes of a Parquet file.

This module is all that a process of a pool or of a cluster needs to import.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks_db.errors import EstimatorError
from estimator.sweep.cells import Physics, Question, rows_of
from estimator.sweep.identity import program
from estimator.sweep.table import parquet_of, schema_of, table_of


@dataclass(frozen=True)
class Work:
    """What every part of a sweep is worked out from."""

    question: Question
    cells: int
    cells_in_part: int
    about: Mapping[str, str]  # metadata of the table
    program: str  # fingerprint of who asks

    @property
    def parts(self) -> int:
        """How many parts the cells make."""
        return -(-self.cells // self.cells_in_part)

    def cells_of(self, part: int) -> range:
        """The cells of a part."""
        start = part * self.cells_in_part
        return range(start, min(self.cells, start + self.cells_in_part))


class OtherProgram(EstimatorError):  # noqa: N818  (reads as what happened)
    """A worker with other code or other facts: its figures would not be those of the rest."""


def packed(work: Work) -> bytes:
    """The work as bytes for `unpacked`."""
    return pickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)


def unpacked(content: bytes) -> Work:
    """The work that bytes of `packed` hold."""
    work: Work = pickle.loads(content)
    return work


def compared(content: bytes) -> Work:
    """The same on another machine, if it has the same program. Raises OtherProgram."""
    work = unpacked(content)
    if work.program != program():
        raise OtherProgram(
            "a worker has another version of the estimator, of its facts or of NumPy than the one that asks",
            field="--scheduler",
            nearest=("the same wheel on every machine",),
        )
    return work


def answered(work: Work, part: int, physics: Physics) -> bytes:
    """One part as a Parquet file: the same bytes wherever it is worked out."""
    rows = [row for cell in work.cells_of(part) for row in rows_of(work.question, cell, physics)]
    return parquet_of(table_of(rows, schema_of(work.question.spec, work.about)))


# --- in a process of the local pool ---------------------------------------------------------------------------------

_work: Work | None = None
_physics = Physics()


def start(content: bytes) -> None:
    """Called once in each process of the pool."""
    global _work
    _work = unpacked(content)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def one(part: int) -> bytes:
    """Called for each part, after `start`."""
    if _work is None:
        raise RuntimeError("the worker was not started")
    return answered(_work, part, _physics)


def _leave_with_parent() -> None:
    """A sweep that is killed leaves no processes behind."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# --- in a worker of a cluster ---------------------------------------------------------------------------------------


def one_of(work: Work, part: int) -> bytes:
    """Called for each part by a cluster; `work` is the result of `compared` there."""
    return answered(work, part, _of_thread())


_local = threading.local()


def _of_thread() -> Physics:
    """A memory for each thread: a worker may have several."""
    if not hasattr(_local, "physics"):
        _local.physics = Physics()
    found: Physics = _local.physics
    return found
