"""Loaded once by the process that the pool's processes are branched off: everything that a first plan would load."""

from datetime import UTC, datetime

from estimator.planning.planner import plan
from estimator.request.workload import Workload
from estimator.sweep import worker  # noqa: F401  (what the processes will run)
from estimator.sweep.identity import program
from estimator.sweep.table import arrow

arrow()
program()
for _data in ({"model": "llama3-8b", "tokens": "1M"}, {"model": "resnet50", "samples": "1M"}):
    plan(Workload.model_validate(_data), now=datetime(2026, 1, 1, tzinfo=UTC))
