"""The brain: workload -> work -> layouts -> memory -> step time -> run time -> dollars -> ranked plans.

    >>> from estimator import Workload, plan
    >>> plan(Workload(model="llama3-8b", method="lora", tokens="50M")).plans[0].rank
    1
"""

from estimator.estimate import estimate
from estimator.plan import plan
from estimator.workload import Workload

__all__ = ["Workload", "estimate", "plan"]
