from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from estimator.evaluation import plots as evaluation_plots
from estimator.evaluation.plots import MOST, Judged, residuals, scatter, write_plots

SVG = "{http://www.w3.org/2000/svg}"


def rows(n: int = 40, categories: int = 3) -> Judged:
    random = np.random.default_rng(0)
    names = np.array([f"lab <{i % categories}> & sons" for i in range(n)], np.str_)
    return Judged(
        "language",
        random.lognormal(3.0, 2.0, n),
        random.normal(0.0, 0.2, n),
        np.ones(n),
        {"source": names, "year": names},
    )


def drawn(text: str, style: str) -> list[ElementTree.Element]:
    return [part for part in ElementTree.fromstring(text).iter() if part.get("class") == style]


def test_every_row_is_a_dot_inside_the_drawing() -> None:
    for text in (scatter(rows()), residuals(rows(), "source")):
        dots = drawn(text, "dot")
        width, height = (float(side) for side in ElementTree.fromstring(text).attrib["viewBox"].split()[2:])
        assert len(dots) == 40
        assert all(0 <= float(d.attrib["cx"]) <= width and 0 <= float(d.attrib["cy"]) <= height for d in dots)


def test_agreement_lies_on_the_line_and_too_fast_above_it() -> None:
    fast = Judged("x", np.array([10.0, 1000.0]), np.log([1.0, 3.0]), np.ones(2), {})
    (line,) = drawn(scatter(fast), "even")
    x1, y1, x2, y2 = (float(line.attrib[name]) for name in ("x1", "y1", "x2", "y2"))
    above = []
    for dot in drawn(scatter(fast), "dot"):
        on = y1 + (y2 - y1) / (x2 - x1) * (float(dot.attrib["cx"]) - x1)
        above.append(on - float(dot.attrib["cy"]))
    assert above[0] == pytest.approx(0.0, abs=0.5)
    assert above[1] > 10.0


def test_the_largest_categories_are_drawn_each_with_its_median() -> None:
    assert len(drawn(residuals(rows(categories=3), "source"), "median")) == 3
    many = residuals(rows(n=4 * MOST, categories=2 * MOST), "source")
    assert len(drawn(many, "median")) == MOST
    assert f"the {MOST} largest of {2 * MOST}" in many


def test_a_folder_gets_a_scatter_and_a_residual_plot_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_plots, "judged_rows", lambda family: rows())
    written = write_plots(tmp_path / "new" / "plots", families=("language",))
    assert [path.name for path in written] == [
        "language-scatter.svg",
        "language-residuals-by-source.svg",
        "language-residuals-by-year.svg",
    ]
    again = [path.read_bytes() for path in written]
    write_plots(tmp_path / "new" / "plots", families=("language",))
    assert [path.read_bytes() for path in written] == again
