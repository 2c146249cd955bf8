"""No text that somebody typed runs as a formula, and no number is spoilt by that."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.sheets.safety import LEADERS, NUMBER, csv_lines, neutral


@pytest.mark.parametrize("lead", LEADERS)
def test_a_formula_becomes_text(lead: str) -> None:
    assert neutral(f"{lead}cmd|' /C calc'!A0") == f"'{lead}cmd|' /C calc'!A0"


@pytest.mark.parametrize("before", [" ", "\ufeff", "\u00a0", "\u3000\u200b", "\x00", "\x0b", " " * 5000])
def test_nothing_invisible_hides_a_formula(before: str) -> None:
    assert neutral(f"{before}=1+1").startswith("'")


@pytest.mark.parametrize("number", ["-5", "+3.25", "-1e9", "-12.5%", "-1,000"])
def test_a_number_stays_a_number(number: str) -> None:
    assert neutral(number) == number


@given(st.text())
def test_whatever_was_typed_nothing_leads_to_a_formula(text: str) -> None:
    safe = neutral(text)
    assert not safe.lstrip(" ").startswith(LEADERS) or NUMBER.fullmatch(safe)
    assert neutral(safe) == safe


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1), min_size=1))
def test_lines_can_be_read_back(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO("".join(csv_lines(rows)), newline="")))
    assert read == [[neutral(cell) for cell in row] if row != [""] else [""] for row in rows]
