"""The brain: workload -> work -> layouts -> memory -> step time -> run time -> dollars -> ranked plans.

>>> from estimator import Workload, plan
>>> plan(Workload(model="llama3-8b", method="lora", tokens="50M")).plans[0].rank
1
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator.client import Client
    from estimator.following.step_timer import StepTimer
    from estimator.planning.estimates import estimate
    from estimator.planning.planner import plan
    from estimator.request.workload import Workload

__all__ = ["Client", "StepTimer", "Workload", "estimate", "plan"]

_HOMES = {
    "Client": "estimator.client",
    "StepTimer": "estimator.following.step_timer",
    "Workload": "estimator.request.workload",
    "estimate": "estimator.planning.estimates",
    "plan": "estimator.planning.planner",
}


def __getattr__(name: str) -> object:
    """The public names, imported when first used: the command line starts through this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
