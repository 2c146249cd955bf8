"""Headers as people write them are understood, and what is unclear is asked, not guessed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks_db.errors import WorkloadError
from estimator.sheets.columns import KEYS, RESULTS, SYNONYMS, UNITS, columns_of, fold, mapping_of, meaning
from estimator.sheets.template import COLUMNS, HELP, RESULT_HELP
from estimator.sheets.values import CELL_VALUES


def keys(*header: str, **mapping: str) -> dict[str, str]:
    """Header by key."""
    columns = columns_of(header, len(header), mapping)
    return {known.key: header[place] for place, known in columns.inputs.items()}


@pytest.mark.parametrize("header", ["seq_len", "Seq Len", " SEQ-LEN ", "Sequence length", "context", "Seq. len."])
def test_case_spaces_and_marks_do_not_matter(header: str) -> None:
    found = meaning(header)
    assert found is not None
    assert found.key == "seq_len"


def test_no_synonym_means_two_things() -> None:
    words = [fold(word) for key, words in SYNONYMS.items() for word in (key, *words)]
    assert len(words) == len(set(words)) == len(KEYS)
    assert not {fold(name) for name in RESULTS} & set(words)


def test_the_template_explains_every_column_of_the_contract() -> None:
    assert set(HELP) == set(COLUMNS) <= set(SYNONYMS)
    assert set(RESULT_HELP) == set(RESULTS)


@pytest.mark.parametrize(
    ("header", "cell", "text"),
    [
        ("Tokens (M)", "50", "50M"),
        ("Tokens (M)", "50M", "50M"),
        ("tokens [billions]", "1.5", "1.5B"),
        ("Deadline (days)", "3", "3 days"),
        ("Budget (USD)", "500", "500"),
    ],
)
def test_a_unit_in_the_header_holds_for_bare_numbers(header: str, cell: str, text: str) -> None:
    found = meaning(header)
    assert found is not None
    assert found.text(cell) == text


def test_an_unknown_unit_leaves_the_column_unread() -> None:
    assert meaning("Tokens (boxes)") is None


def test_results_already_there_are_found_and_missing_ones_go_behind_the_last_column() -> None:
    columns = columns_of(["Cost USD p50", "model", "tokens", "error"], 6, {})
    assert columns.results["cost_usd_p50"] == 0
    assert columns.results["error"] == 3
    assert columns.results[columns.appended[0]] == 6
    assert sorted(columns.results.values()) == [0, 3, *range(6, 6 + len(RESULTS) - 2)]


def test_the_column_that_bears_the_name_wins_over_a_synonym() -> None:
    assert keys("model", "gpu", "Card")["gpu"] == "gpu"


def test_two_synonyms_are_unclear_until_one_is_chosen() -> None:
    with pytest.raises(WorkloadError, match="'Card' and 'Accelerator' could each be gpu"):
        keys("model", "Card", "Accelerator")
    assert keys("model", "Card", "Accelerator", Accelerator="gpu")["gpu"] == "Accelerator"
    assert keys("model", "Card", "Accelerator", Card="")["gpu"] == "Accelerator"


def test_a_mapping_reads_a_column_that_nobody_could_guess() -> None:
    assert keys("Was", "Womit", Was="model", Womit="gpu") == {"model": "Was", "gpu": "Womit"}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [(["Card"], "Header=key"), (["=gpu"], "Header=key"), (["Cart=gpu"], "no column 'Cart'"), (["Card=gpuu"], "gpu")],
)
def test_a_mapping_that_cannot_be_is_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        columns_of(["model", "Card"], 2, mapping_of(pairs))


def test_the_page_on_spreadsheets_lists_every_column_synonym_and_value() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spreadsheets.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    words = {word for key, more in SYNONYMS.items() for word in (key, *more)}
    units = {unit for known in UNITS.values() for unit in known}
    assert not (words | units | set(RESULTS) | set(CELL_VALUES)) - said
