"""How fast does a step run? A physical model, fitted, corrected by measurements, honest about its error."""

from estimator.performance.constants import Constants, fitted, per_row
from estimator.performance.execution import constants_of, execution_of, optimizer_bytes
from estimator.performance.roofline import Execution
from estimator.performance.step import BOUNDS, StepTime, step_time

__all__ = [
    "BOUNDS",
    "Constants",
    "Execution",
    "StepTime",
    "constants_of",
    "execution_of",
    "fitted",
    "optimizer_bytes",
    "per_row",
    "step_time",
]
