"""What happens when `estimator` is run: find the command, run it, turn any failure into a message and an exit code."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Sequence

from benchmarks_db.errors import EstimatorError
from estimator.cli.errors import BAD_INPUT, INTERRUPTED, complain, report, report_fault


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(100_000, 20, 20)  # a start makes many lasting objects and little garbage: a tenth of its time
    try:
        _open_streams()
        code = run(words)
    except KeyboardInterrupt:  # before the command itself began
        complain("interrupted")
        code = INTERRUPTED
    sys.exit(code)


def run(words: list[str]) -> int:
    """The exit code of one command; prints results on standard output and messages on standard error."""
    if words == ["--version"]:  # answered before anything heavier than the interpreter is loaded
        print(version())
        return 0
    _utf8()
    from typer import Abort, BadParameter
    from typer.main import get_command

    from estimator.cli.app import COMMANDS, app_of

    usage_error: type[Exception] = BadParameter.__mro__[1]
    shown_error: type[Exception] = usage_error.__mro__[1]
    try:
        named = [words[0]] if words and words[0] in COMMANDS else COMMANDS
        code = get_command(app_of(named))(args=words, prog_name="estimator", standalone_mode=False)
        sys.stdout.flush()
    except EstimatorError as error:
        return report(error)
    except usage_error as error:
        return _usage(error)
    except shown_error as error:
        complain(str(getattr(error, "message", error)))
        return BAD_INPUT
    except (Abort, KeyboardInterrupt):
        complain("interrupted")
        return INTERRUPTED
    except SystemExit as leave:  # shell completion leaves by itself
        return leave.code if isinstance(leave.code, int) else 0 if leave.code is None else BAD_INPUT
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _fault(error)
        complain(f"the result cannot be written: {error.strerror}")
        _forget_output()
        return BAD_INPUT
    except Exception as fault:
        return _fault(fault)
    return code if isinstance(code, int) else 0


def _fault(fault: Exception) -> int:
    if _debugging():
        raise fault
    return report_fault(fault)


def version() -> str:
    """The installed version; the source tree's own when nothing is installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return f"estimator {installed('gpu-cost-estimator')}"
    except PackageNotFoundError:
        return f"estimator {_source_version()}"


def _source_version() -> str:
    import tomllib
    from pathlib import Path

    try:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
        return str(project["project"]["version"])
    except (OSError, KeyError, ValueError):
        return "unknown"


def _usage(error: Exception) -> int:
    message = getattr(error, "format_message", lambda: str(error))()
    if not message:  # a command without arguments has shown its help
        return BAD_INPUT
    complain(message[:1].lower() + message[1:])
    context = getattr(error, "ctx", None)
    if context is not None:
        print(f"usage: {context.get_usage().removeprefix('Usage: ')}", file=sys.stderr)
        print(f"help:  {context.command_path} --help", file=sys.stderr)
    return BAD_INPUT


def _open_streams() -> None:
    """A stream that the caller has closed (`>&-`) is None to Python: what is written there is thrown away."""
    import os
    from pathlib import Path

    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (lives as long as the process)
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _utf8() -> None:
    """Results are UTF-8 whatever the locale says; what a terminal cannot show is replaced, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")


def _forget_output() -> None:
    """The reader has gone (`| head`): let the interpreter's own flush at exit find nothing to complain of."""
    import os

    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())


def _debugging() -> bool:
    from estimator.cli.settings import settings

    try:
        return settings().debug
    except EstimatorError:
        return False
