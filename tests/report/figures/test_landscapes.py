"""Landscapes: the surface, its lowest point, and where searches have ended."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from farout.report.content import Landscapes, Surface
from farout.report.figures import landscapes
from farout.report.figures.style import style, svg

MIDDLES = (np.arange(8) + 0.5) / 8
POINTS = np.stack(np.meshgrid(MIDDLES, MIDDLES), 2).reshape(-1, 2)  # x runs fastest
VALUES = POINTS[:, 0] + 10 * POINTS[:, 1]
ENDS = np.array([[0.1, 0.2], [0.9, 1.0]])


def figure(**panels: Surface) -> Landscapes:
    return Landscapes("l", "title", "c", panels, ("rotation", "scale"))


def drawn(**panels: Surface) -> list[Axes]:
    with style():
        canvas = landscapes.draw(figure(**panels))
        canvas.draw_without_rendering()
    return [ax for ax in canvas.axes if ax.get_visible()]


def test_every_cell_has_the_value_of_the_nearest_point() -> None:
    (ax,) = drawn(mh=Surface(POINTS, VALUES, ENDS))
    (picture,) = ax.images
    cells = np.asarray(picture.get_array())
    assert cells.shape == (64, 64)
    np.testing.assert_allclose(cells, np.kron(VALUES.reshape(8, 8), np.ones((8, 8))))  # rows from y = 0 upwards
    assert picture.origin == "lower"
    assert picture.get_clim() == (VALUES.min(), np.quantile(VALUES, 0.95))
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("rotation", "scale", "mh")


def test_the_lowest_point_and_the_ends_are_marked() -> None:
    (ax,) = drawn(mh=Surface(POINTS, VALUES, ENDS))
    cross, circles = ax.lines
    np.testing.assert_allclose(cross.get_xydata(), [[1 / 16, 1 / 16]])
    np.testing.assert_allclose(circles.get_xydata(), ENDS)
    text = svg(landscapes.draw, figure(mh=Surface(POINTS, VALUES, ENDS)))
    assert "lowest of 64 points: 0.688" in text
    assert "2 chains" in text


def test_values_that_are_not_finite_are_passed_over() -> None:
    values = np.where(POINTS[:, 0] < 0.5, np.nan, VALUES)
    whole, none = drawn(some=Surface(POINTS, values, ENDS), none=Surface(POINTS, np.full(64, np.inf), ENDS))
    assert np.isfinite(np.asarray(whole.images[0].get_array())).all()
    assert [text.get_text() for text in none.texts] == ["no results yet"]
