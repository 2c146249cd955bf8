from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks_db.errors import WorkloadError
from estimator.request.errors import InvalidWorkload
from estimator.request.quantities import parse_bool, parse_count, parse_gib, parse_hours, parse_share, parse_usd
from estimator.request.workload import Workload

PARSERS: list[Callable[..., float]] = [parse_count, parse_hours, parse_usd, parse_gib]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("50M", 50e6),
        ("50m", 50e6),
        ("1.5T tokens", 1.5e12),
        ("1e9", 1e9),
        ("1_000_000", 1e6),
        ("1,281,167", 1_281_167),
        ("300B", 300e9),
        ("2 billion tokens", 2e9),
        ("20k samples", 20e3),
        (".5M", 5e5),
        (7, 7),
        (2.5, 2.5),
        (" 12 ", 12),
        ("10 images", 10),
    ],
)
def test_a_count_reads_as_people_write_it(text: object, number: float) -> None:
    assert parse_count(text) == pytest.approx(number)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("24h", 24),
        ("3 days", 72),
        ("90 min", 1.5),
        ("90m", 1.5),
        ("2w", 336),
        ("1d 12h", 36),
        ("1h30m", 1.5),
        ("3600s", 1),
        ("36:30", 36.5),
        (12, 12),
        ("0.5 days", 12),
        ("1 month", 730),
    ],
)
def test_a_duration_is_in_hours_when_it_has_no_unit(text: object, hours: float) -> None:
    assert parse_hours(text) == pytest.approx(hours)


@pytest.mark.parametrize(
    ("text", "dollars"),
    [
        ("$500", 500),
        ("500 USD", 500),
        ("$1,500.50", 1500.5),
        ("2k", 2000),
        ("$3M", 3e6),
        (0.4, 0.4),
        ("US$ 7", 7),
        ("0.40/h", 0.4),
    ],
)
def test_dollars_read_as_people_write_them(text: object, dollars: float) -> None:
    assert parse_usd(text) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("text", "gib"), [("80GiB", 80), ("80GB", 80e9 / 2**30), ("512MiB", 0.5), ("1TiB", 1024), (24, 24), ("24G", 24)]
)
def test_memory_tells_gb_from_gib(text: object, gib: float) -> None:
    assert parse_gib(text) == pytest.approx(gib)


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "value",
    ["", "  ", "many", "M50", "1.2.3", "5 parsecs", "--5", "1e999", float("nan"), float("inf"), "nan", "inf", None,
     True, [], {}, 10**400, "9" * 400, "1,5", "5 5", "١٢x", "$", "e5", "."],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_by_name(parse: Callable[..., float], value: object) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse(value, field="here")
    assert caught.value.field == "here"
    assert len(str(caught.value)) < 300


def test_a_date_is_no_duration() -> None:
    with pytest.raises(WorkloadError, match="date"):
        parse_hours(date(2026, 3, 1), field="deadline")


@pytest.mark.parametrize("text", ["€500", "500 EUR", "£3", "10 euros"])
def test_another_currency_is_refused_because_no_rate_is_known(text: str) -> None:
    with pytest.raises(WorkloadError, match="US dollars"):
        parse_usd(text, field="budget")


@pytest.mark.parametrize(("text", "answer"), [("yes", True), ("ON", True), (1, True), ("false", False), ("n", False)])
def test_yes_and_no_read_in_any_spelling(text: object, answer: bool) -> None:
    assert parse_bool(text) is answer


def test_perhaps_is_neither_yes_nor_no() -> None:
    with pytest.raises(WorkloadError, match="neither"):
        parse_bool("perhaps", field="packing")


@given(st.floats(min_value=0, max_value=1e30, allow_nan=False))
def test_a_number_means_itself_however_it_is_written(number: float) -> None:
    assert parse_count(repr(number)) == number
    assert parse_hours(number) == number
    assert parse_usd(f"${number!r}") == number


@given(st.one_of(st.text(alphabet="0123456789.,_eE+-kKMBT $hd:", max_size=12), st.floats(), st.integers()))
def test_every_input_is_a_finite_number_or_a_refusal(value: object) -> None:
    for parse in PARSERS:
        try:
            number = parse(value, field="x")
        except WorkloadError:
            continue
        assert math.isfinite(number)


@pytest.mark.parametrize(("written", "share"), [("95%", 0.95), (" 5 % ", 0.05), (0.5, 0.5), ("0.25", 0.25)])
def test_a_share_may_be_written_in_per_cent(written: object, share: float) -> None:
    assert parse_share(written) == pytest.approx(share)


@pytest.mark.parametrize(("written", "meant"), [(95, "0.95"), ("0.9999", "0.999"), (5000, "0.999")])
def test_a_share_above_one_is_taken_for_per_cent_when_it_is_refused(written: object, meant: str) -> None:
    with pytest.raises(InvalidWorkload, match=rf"must be at most 0.999 \(did you mean {meant}\?\)"):
        Workload.model_validate({"model": "llama3-8b", "constraints": {"confidence": written}})


def test_shares_of_a_request_take_per_cent() -> None:
    asked = {"model": "llama3-8b", "constraints": {"confidence": "95%"}, "run": {"evaluation_share": "5%"}}
    workload = Workload.model_validate(asked | {"bill": {"tax_percent": "19%"}})
    assert workload.constraints.confidence == pytest.approx(0.95)
    assert workload.run.evaluation_share == pytest.approx(0.05)
    assert workload.bill.tax_percent == 19.0
