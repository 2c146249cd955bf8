"""On how many threads does linear algebra run? One, where several processes share the cores or every digit counts."""

from __future__ import annotations

import os

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread() -> tuple[str, ...]:
    """Ask the libraries that are loaded from now on for one thread, unless told otherwise; what had not been told."""
    missing = tuple(name for name in VARIABLES if name not in os.environ)
    os.environ.update(dict.fromkeys(missing, "1"))
    return missing
