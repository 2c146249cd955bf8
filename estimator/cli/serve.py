"""`serve`: the HTTP API, started by name so that nothing here imports it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from estimator.cli.flags import OfflineOption

READY_SECONDS = 60  # a worker that has not come up by then is given up, and the one that it replaces stays


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on; 127.0.0.1 unless set.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port; 8000 unless set, 0: a free one.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, max=256, help="Processes; SIGHUP renews them one by one.", show_default=False),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings", metavar="FILE", help="TOML file of settings (docs/operations.md).", show_default=False
        ),
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when the code changes.")] = False,
    offline: OfflineOption = False,
) -> int:
    """Serve the HTTP API, its documentation (/docs) and the web page; SIGTERM lets requests under way end."""
    from benchmarks_db.errors import WorkloadError

    try:
        import uvicorn

        found = import_module("api.settings")
        logs = import_module("api.logs")
    except ImportError:
        raise WorkloadError(
            "serving needs its extra: pip install 'gpu-cost-estimator[server]'", field="serve"
        ) from None
    said: dict[str, Any] = {"host": host, "port": port, "workers": workers, "offline": offline or None}
    flags = {name: value for name, value in said.items() if value is not None}
    if settings is not None:
        os.environ[found.FILE] = str(settings.expanduser().absolute())
    os.environ[found.FLAGS] = json.dumps(flags)  # every worker reads its settings anew, and the flags still win
    here = found.from_environment()
    _can_listen(here.host, here.port)
    shared = _shared_metrics() if here.workers > 1 else None
    signal.signal(signal.SIGTERM, _leave)  # uvicorn raises the signal again when all requests have ended
    try:
        uvicorn.run(
            "api.app:app",
            host=here.host,
            port=here.port,
            workers=here.workers,
            reload=reload,
            http="api.connections:Unhurried",
            log_config=logs.config(here.log_format, here.log_level),
            access_log=False,  # it writes queries, which may be confidential
            server_header=False,
            timeout_graceful_shutdown=max(1, round(here.shutdown_seconds)),
            timeout_worker_healthcheck=READY_SECONDS,
        )
    except SystemExit as stop:  # uvicorn has logged why it could not start
        return stop.code if isinstance(stop.code, int) else 1
    finally:
        if shared is not None:
            shutil.rmtree(shared, ignore_errors=True)
    return 0


def _can_listen(host: str, port: int) -> None:
    """WorkloadError for an address that is none of this machine's, or a port that is taken or not ours to take."""
    from benchmarks_db.errors import WorkloadError

    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM) if host.strip() else []
    except (OSError, UnicodeError):
        places = []
    near = ("127.0.0.1", "0.0.0.0")
    if not places:
        raise WorkloadError(f"{host!r} is no address to listen on", field="--host", value=host, nearest=near)
    problems = [problem for family, _, _, _, place in places if (problem := _bound(family, place)) is not None]
    if len(problems) < len(places):
        return
    reason = (problems[0].strerror or str(problems[0])).lower()
    if problems[0].errno == errno.EADDRNOTAVAIL:
        raise WorkloadError(f"{host!r} is no address of this machine", field="--host", value=host, nearest=near)
    raise WorkloadError(f"cannot listen on {port}: {reason}", field="--port", value=port, nearest=("0: a free one",))


def _bound(family: int, place: Any) -> OSError | None:
    """Why an address cannot be listened on, if it cannot."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except OSError as error:
        return error
    return None


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _shared_metrics() -> Path | None:
    """A folder in which workers count together; None where the surroundings name one."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="estimator-metrics-"))
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    return folder
