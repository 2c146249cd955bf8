"""`serve`: the HTTP API, started by name so that nothing here imports it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from estimator.cli.flags import OfflineOption


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="Processes.")] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when the code changes.")] = False,
    offline: OfflineOption = False,
) -> int:
    """Serve the HTTP API, its documentation (/docs) and the web page."""
    from benchmarks_db.errors import WorkloadError

    try:
        import uvicorn
    except ImportError:
        raise WorkloadError(
            "serving needs its extra: pip install 'gpu-cost-estimator[server]'", field="serve"
        ) from None
    if offline:
        os.environ["ESTIMATOR_OFFLINE"] = "1"  # the server reads its own settings, in its own process
    try:
        uvicorn.run("api.app:app", host=host, port=port, workers=workers, reload=reload)
    except SystemExit as stop:  # uvicorn has logged why it could not start
        return stop.code if isinstance(stop.code, int) else 1
    return 0
