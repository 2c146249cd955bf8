"""Is it the same program with the same facts? A fingerprint that two processes, or two machines, can compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks_db
import estimator
import pricing

READ = (".py", ".csv", ".json", ".npz", ".pack")
"""Endings of the files that a plan comes from: code, facts, the fit and the packed tables."""


@cache
def program() -> str:
    """Hash over every file that a plan comes from, and NumPy's version: equal where equal questions get equal bits."""
    digest = hashlib.sha256(np.__version__.encode())
    for package in (benchmarks_db, pricing, estimator):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*")):
            if path.suffix in READ:
                digest.update(f"\0{package.__name__}/{path.relative_to(root).as_posix()}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(value: Mapping[str, Any] | list[Any]) -> str:
    """Hash of a JSON document; the order of its keys counts, as it decides the order of a grid."""
    return hashlib.sha256(json.dumps(value, default=str, ensure_ascii=False).encode()).hexdigest()
