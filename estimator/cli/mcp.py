"""`mcp`: the planner as tools of an assistant, on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimator.cli.flags import MaxAgeOption, OfflineOption, surroundings

if TYPE_CHECKING:
    from estimator.planning.evidence import Measured
    from estimator.request.workload import Workload
    from pricing.spot_history import SpotHistory


def mcp(offline: OfflineOption = False, max_age: MaxAgeOption = None) -> None:
    """Serve plan, estimate, explain and offers to an assistant (Model Context Protocol, stdio)."""
    import os
    from datetime import UTC, datetime

    from benchmarks_db.errors import WorkloadError
    from estimator.cli.measured import measured_rows
    from estimator.cli.offers import offers_of
    from estimator.cli.prices_in_use import spot_history_in_use

    here = surroundings(offline=offline)
    still = bool(os.environ.get("ESTIMATOR_NOW", "").strip())

    def beside(request: Workload) -> tuple[Measured, SpotHistory | None]:
        present = surroundings(offline=offline)
        return measured_rows(request, present), spot_history_in_use(request, present)

    try:
        from estimator.tools import server_of

        server = server_of(
            lambda kinds: offers_of(surroundings(offline=offline), accelerators=kinds, max_age=max_age),
            lambda: here.now if still else datetime.now(UTC),
            beside,
        )
    except ImportError:
        raise WorkloadError("the tools need their extra: pip install 'gpu-cost-estimator[mcp]'", field="mcp") from None
    server.run("stdio")
