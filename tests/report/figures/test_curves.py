"""Curves in their bands: values, colors, axes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from farout.report.content import Curve, Curves
from farout.report.figures import curves
from farout.report.figures.style import COLORS, style, svg

BLUE, ORANGE = COLORS[1:3]
DOWN = Curve(np.array([1.0, 10, 1000]), np.array([3.0, 2, -1]), np.array([2.0, 1, -2]), np.array([5.0, 4, 0]))
FLAT = Curve(np.array([1.0, 3]), np.array([0.5, 0.5]), np.array([0.0, 0]), np.array([1.0, 1]))


def figure(panels: dict[str, dict[str, Curve]]) -> Curves:
    return Curves("c", "t", "c", panels, ("queries", "score"))


def drawn(panels: dict[str, dict[str, Curve]]) -> tuple[Figure, list[Axes]]:
    with style():
        canvas = curves.draw(figure(panels))
        canvas.draw_without_rendering()
    return canvas, [ax for ax in canvas.axes if ax.get_visible()]


def lines(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """x and y by color, without the line at zero."""
    return {
        to_hex(str(line.get_color())): (list(np.asarray(line.get_xdata())), list(np.asarray(line.get_ydata())))
        for line in ax.lines
        if line.get_linestyle() == "-"
    }


def bands(ax: Axes) -> dict[str, set[tuple[float, float]]]:
    """Corners by color."""
    found = [band for band in ax.collections if isinstance(band, PolyCollection)]
    corners = [np.asarray(band.get_paths()[0].vertices, float).tolist() for band in found]
    return {
        to_hex(np.asarray(band.get_facecolor())[0]): {(x, y) for x, y in places}
        for band, places in zip(found, corners, strict=True)
    }


def test_a_line_in_its_band() -> None:
    _, (ax,) = drawn({"msp": {"mh": DOWN}})
    assert lines(ax) == {BLUE: ([1, 10, 1000], [3, 2, -1])}
    (corners,) = bands(ax).values()
    assert corners == {(1, 2), (10, 1), (1000, -2), (1, 5), (10, 4), (1000, 0)}
    assert ax.get_xscale() == "log"
    assert ax.get_title() == "msp"


def test_a_dotted_line_at_the_mean_inlier() -> None:
    _, (ax,) = drawn({"msp": {"mh": DOWN}})
    (zero,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert list(np.asarray(zero.get_ydata())) == [0, 0]


def test_lines_lie_over_all_bands() -> None:
    _, (ax,) = drawn({"msp": {"mh": DOWN, "random": FLAT}})
    assert max(band.get_zorder() for band in ax.collections) < min(line.get_zorder() for line in ax.lines)
    assert all((band.get_alpha() or 1) < 0.3 for band in ax.collections)


def test_equal_lines_are_both_seen() -> None:
    _, (ax,) = drawn({"msp": {"mh": DOWN, "random": DOWN, "other": DOWN}})
    widths = [line.get_linewidth() for line in ax.lines if line.get_linestyle() == "-"]
    assert all(under > over + 0.3 for under, over in pairwise(widths))


def test_a_name_keeps_its_color_and_stands_in_the_legend_once() -> None:
    canvas, (first, second) = drawn({"msp": {"mh": DOWN, "random": FLAT}, "knn": {"random": FLAT}})
    assert set(lines(first)) == set(bands(first)) == {BLUE, ORANGE}
    assert set(lines(second)) == set(bands(second)) == {ORANGE}
    (legend,) = canvas.legends
    assert [text.get_text().strip() for text in legend.get_texts()] == ["mh", "random"]


def test_a_mean_far_beyond_its_band_does_not_flatten_the_panel() -> None:
    dragged = Curve(DOWN.x, np.array([1e6, 2, -1]), DOWN.low, DOWN.high)
    _, (ax,) = drawn({"msp": {"mh": dragged}})
    assert ax.get_ylim() == pytest.approx((-2 - 0.35, 5 + 0.35))


def test_the_end_of_a_line_and_zero_are_in_the_panel() -> None:
    high = Curve(DOWN.x, np.array([9.0, 9, 9]), DOWN.low + 3, DOWN.high + 3)
    _, (ax,) = drawn({"msp": {"mh": high}})
    assert ax.get_ylim() == pytest.approx((0 - 0.45, 9 + 0.45))


@pytest.mark.parametrize(("last", "ticks"), [(5, ["1", "2", "5"]), (1000, ["1", "10", "100", "1,000"])])
def test_queries_are_written_out(last: int, ticks: list[str]) -> None:
    x = np.array([1.0, last])
    _, (ax,) = drawn({"msp": {"mh": Curve(x, x, x, x)}})
    low, high = ax.get_xlim()
    both = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    assert [label.get_text() for tick, label in both if low <= tick <= high] == ticks
    assert not any(label.get_text() for label in ax.get_xticklabels(minor=True))


def test_labels_stand_at_the_outer_panels() -> None:
    _, axes = drawn({name: {"mh": DOWN} for name in "abcde"})
    assert [ax.get_ylabel() for ax in axes] == ["score", "", "", "score", ""]
    assert [ax.get_xlabel() for ax in axes] == ["", "", "queries", "queries", "queries"]


@pytest.mark.parametrize("value", [0.0, 1e-300, 1.7e308, np.inf, np.nan])
def test_any_value_can_be_drawn(value: float) -> None:
    wild = Curve(np.array([1.0, 2, 3]), *(np.array([1.0, value, -value]) for _ in range(3)))
    text = svg(curves.draw, figure({"msp": {"mh": wild}}))
    assert text.startswith("<svg")
    assert text == svg(curves.draw, figure({"msp": {"mh": wild}}))
