"""Geometry of the drawings."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from api.web.drawings import Axis, Point, bar, scatter, steps

AMOUNT = st.floats(1e-3, 1e7)


@given(st.lists(st.tuples(AMOUNT, AMOUNT), min_size=2, max_size=20), AMOUNT, AMOUNT)
def test_every_plan_stands_inside_the_drawing(plans: list[tuple[float, float]], deadline: float, budget: float) -> None:
    points = [Point(str(i), "aws", "spot", "a", hours, cost, i, True) for i, (hours, cost) in enumerate(plans)]
    drawing = scatter(
        points, width=400, height=300, picked="0", deadline=deadline, budget=budget, whiskers=(1e-3, 1e7, 1e-3, 1e7)
    )
    assert drawing is not None
    assert all(0 <= mark.x <= 400 and 0 <= mark.y <= 300 for mark in drawing.marks)
    assert len(drawing.marks) == len(plans)
    assert all(0 <= tick.at <= 400 for tick in [*drawing.across, *drawing.up])


def test_a_free_machine_stands_at_the_bottom() -> None:
    points = [Point("a", "own", "own", "a", 1.0, 0.0), Point("b", "aws", "spot", "b", 2.0, 5.0)]
    drawing = scatter(points, width=400, height=300, picked="a", deadline=None, budget=None, whiskers=None)
    assert drawing is not None
    assert {mark.key: mark.y for mark in drawing.marks}["a"] == max(mark.y for mark in drawing.marks)


def test_one_plan_is_no_drawing() -> None:
    assert scatter([], width=400, height=300, picked="", deadline=None, budget=None, whiskers=None) is None


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e9), max_size=8), st.none() | st.floats(0.1, 1e9))
def test_a_bar_is_filled_by_its_parts(parts: dict[str, float], limit: float | None) -> None:
    drawn = bar(parts, limit=limit)
    reach = sum(part.width for part in drawn.parts)
    assert reach <= 1000.5
    if drawn.parts and limit is None:
        assert math.isclose(reach, 1000, abs_tol=0.5)
    assert not drawn.parts or math.isclose(sum(part.share for part in drawn.parts), 1)


def test_a_bar_says_when_it_reaches_beyond_its_limit() -> None:
    assert bar({"weights": 30.0}, limit=22.0).beyond
    assert not bar({"weights": 20.0}, limit=22.0).beyond


@given(st.floats(1e-3, 1e6), st.floats(1.5, 1e6))
def test_an_axis_keeps_order(low: float, factor: float) -> None:
    axis = Axis(low, low * factor, 0, 100)
    places = [axis.at(tick) for tick in axis.ticks()]
    assert places == sorted(places)
    assert axis.at(low / 10) == 0


def test_a_gap_in_the_prices_is_a_gap_in_the_line() -> None:
    drawn = steps([(0.0, 1.0), (10.0, None), (20.0, 2.0)], 30.0)
    assert drawn.path.count("M") == 2
    assert (drawn.low, drawn.high) == ("1.00", "2.00")
