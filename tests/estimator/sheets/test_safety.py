"""No text that somebody typed runs as a formula, and no number is spoilt by that."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.sheets.safety import BULLET, HIDING, LEADERS, NUMBER, SEPARATORS, csv_cell, csv_lines, neutral


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
    assert read == [[csv_cell(cell) for cell in row] if row != [""] else [""] for row in rows]


@pytest.mark.parametrize(
    "text", ["a;=cmd|' /C calc'!A0", "a\t=1", "x| +cmd|x", 'a;"=1"', "a\n@SUM(A1)", "a;\u3000＝1", ";;=1"]
)
def test_a_formula_behind_another_separator_becomes_text(text: str) -> None:
    assert "'" in csv_cell(text).replace(text, "")


@pytest.mark.parametrize("text", ["a; b", "1;-2", "up to 3;+4.5", "todo:\n- one\n- two", "a,=b", "x - y", "a=b;c=d"])
def test_ordinary_text_of_several_parts_stays_as_it_is(text: str) -> None:
    assert csv_cell(text) == text


HIDDEN = f"^[{HIDING}\\s]+".replace('"', "")  # a quote that is left shows that the cell is text
PIECES = st.text(st.sampled_from([*LEADERS, *SEPARATORS, '"', " ", "a", "1", "'", "\u3000"]), max_size=8)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=4), min_size=1, max_size=3), st.sampled_from(",;\t|"))
def test_no_cell_is_a_formula_whichever_separator_the_file_is_opened_with(rows: list[list[str]], mark: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=mark).writerows([[csv_cell(cell, mark) for cell in row] for row in rows])
    for opened in ",;\t|":
        for cells in csv.reader(io.StringIO(written.getvalue(), newline=""), delimiter=opened):
            for cell in cells:
                shown = re.sub(HIDDEN, "", cell)
                begins = re.match(r"[+-]?(\d|\.\d)", shown)
                assert begins or BULLET.match(shown) or not shown.startswith(LEADERS)
