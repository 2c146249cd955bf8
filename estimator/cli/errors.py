"""What does a failure look like on the command line? One line on standard error and an exit code; never a traceback."""

from __future__ import annotations

import sys

from benchmarks_db.errors import EstimatorError, NoFeasiblePlan, PricesUnavailable, UnknownName

DONE = 0
PARTLY = 1  # a comparison or a refresh went partly wrong
BAD_INPUT = 2
NO_PLAN = 3
NO_PRICE = 4
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: a fault of this program
INTERRUPTED = 130  # 128 + SIGINT, as shells count


def exit_code(error: EstimatorError) -> int:
    """The exit code that a failure of the domain means."""
    if isinstance(error, NoFeasiblePlan):
        return NO_PLAN
    if isinstance(error, PricesUnavailable):
        return NO_PRICE
    return BAD_INPUT


def report(error: EstimatorError) -> int:
    """Print a failure, one line for each wrong field, with where to look further, and return its exit code."""
    for one in getattr(error, "errors", (error,)):
        names = [part for part in str(one.field or "").split(".") if not part.isdecimal()]
        known = NEXT if isinstance(one, UnknownName) else MISSING if one.value is None else {}
        further = known.get(names[-1]) if names else None
        complain(f"{one}; {further}" if further else str(one))
    return exit_code(error)


NEXT = {
    "model": "`estimator models` lists the known ones; --hf-config config.json or --architecture describes any other",
    "gpus": "`estimator gpus` lists the known ones",
    "gpu": "`estimator gpus` lists the known ones",
    "regions": "`estimator offers` lists what is offered where",
    "instance_types": "`estimator instances` lists the known ones",
}
"""What to type next about a name that nobody knows, by the field that it stands in."""
MISSING = {"tokens": "`estimator tokens FILE` counts a file"}
"""What to type next where a field is needed and missing."""


def complain(message: str) -> None:
    """One message on standard error, without control characters that a value may have carried."""
    clean = "".join(c if c == "\t" or c.isprintable() else " " for c in message.replace("\n", " "))
    print(f"error: {clean}", file=sys.stderr)


def report_fault(fault: Exception) -> int:
    """A fault of this program: say so in one line; the traceback only for who asks for it."""
    complain(f"internal fault, please report it: {type(fault).__name__}: {fault} (ESTIMATOR_DEBUG=1 shows where)")
    return INTERNAL


def note(message: str) -> None:
    """Something the reader should know, on standard error."""
    print(message, file=sys.stderr)
