from __future__ import annotations

import doctest
from types import ModuleType

import pytest

import estimator.cli.numbers
import estimator.custom
import estimator.explain
import estimator.quantities
import estimator.request_sections
from estimator.cli.numbers import count, figure, span, usd


@pytest.mark.parametrize(
    "module",
    [estimator.cli.numbers, estimator.custom, estimator.explain, estimator.quantities, estimator.request_sections],
)
def test_the_examples_in_the_docstrings_hold(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("read", [figure, usd, count])
@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_is_unknown_reads_as_a_dash(read: object, value: float | None) -> None:
    assert callable(read)
    assert read(value) == "-"


def test_an_interval_reads_as_its_middle_and_its_ends() -> None:
    assert span({"p10": 1.0, "p50": 2.5, "p90": 1234.0}, "hours") == "2.5 (1-1,234)"
    assert span(None, "usd") == "-"
