"""Verdicts on cards near the limit: what is said against what is true."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.evaluation.memory_verdicts import cards, verdict_lines
from estimator.terms import Verdict


def test_a_sure_and_right_account_is_always_right() -> None:
    true = np.array([10.0, 20.0, 30.0])
    lines = verdict_lines("any", true, np.full(3, 1e-6), true, np.array(["a", "b", "b"]), [8.0, 16.0, 24.0, 40.0])
    fits = {line.verdict: line.fits for line in lines}
    assert fits[Verdict.YES] == 1.0
    assert fits[Verdict.NO] == 0.0
    assert sum(line.said for line in lines) == pytest.approx(1.0)


def test_an_account_that_says_too_little_is_caught() -> None:
    true = np.array([10.0, 20.0])
    (yes, *_) = verdict_lines("any", 0.5 * true, np.full(2, 0.1), true, np.array(["a", "b"]), [8.0, 16.0])
    assert yes.said == 1.0
    assert yes.fits == pytest.approx(1 / 3)  # of the two cards near the first row one holds it, of the second's none


def test_cards_are_those_of_the_catalogue() -> None:
    assert 10 < len(cards()) < 60
    assert np.all(np.diff(cards()) > 0)
