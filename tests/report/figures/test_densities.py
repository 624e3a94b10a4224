"""Score distributions of any size and number."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from numpy.typing import NDArray

from farout.report.content import Densities, Scores
from farout.report.figures import densities
from farout.report.figures.style import COLORS, style, svg

Curves = dict[str, NDArray[np.float64]]


def figure(panels: dict[str, Curves]) -> Densities:
    """A figure of these scores, those of the inliers by that name."""
    return Densities(
        "d", "t", "c",
        {
            panel: Scores(curves.get("inliers", np.empty(0)), {k: v for k, v in curves.items() if k != "inliers"})
            for panel, curves in panels.items()
        },
    )  # fmt: skip


def drawn(panels: dict[str, Curves]) -> Figure:
    with style():
        return densities.draw(figure(panels))


def steps(canvas: Figure, panel: int = 0) -> list[StepPatch]:
    return [patch for patch in canvas.axes[panel].patches if isinstance(patch, StepPatch)]


def color(curve: StepPatch) -> str:
    return to_hex(curve.get_facecolor() if curve.get_fill() else curve.get_edgecolor())


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(9),
        np.full(9, 1e20),
        np.full(9, -1e20),
        np.linspace(0.4, 0.6, 9) * 1e-320,
        np.linspace(1, 2, 9) * 1e-12,
        np.array([-1.7e308, 0, 1.7e308]),
        1e9 + np.linspace(0, 1e-3, 9),
        np.array([3.0]),
    ],
)
def test_scores_of_any_size_can_be_drawn(scores: NDArray[np.float64]) -> None:
    source = svg(densities.draw, figure({"d": {"inliers": scores, "odd": scores}}))
    assert source.startswith("<svg")
    assert "nan" not in source.lower()


def test_heights_are_roots_of_shares() -> None:
    scores = np.repeat([0.0, 1.0], [25, 75])
    (curve,) = steps(drawn({"d": {"inliers": scores}}))
    heights, edges, _ = curve.get_data()
    assert (heights[0], heights[-1], heights.sum()) == (0.5, np.sqrt(0.75), 0.5 + np.sqrt(0.75))
    np.testing.assert_allclose(edges, np.linspace(0, 1, densities.BINS + 1))


def test_small_differences_are_drawn() -> None:
    """Scores such as 1 − p of a sure network differ by little and still show two humps."""
    first, second = steps(drawn({"d": {"inliers": np.full(50, 1e-12), "odd": np.full(50, 3e-12)}}))
    assert [int(curve.get_data().values.argmax()) for curve in (first, second)] == [0, densities.BINS - 1]


def test_a_set_has_one_color_in_all_panels() -> None:
    """Also where a panel lacks some of the sets; only inliers are filled."""
    x = np.arange(5.0)
    canvas = drawn({"a": {"inliers": x, "late": x}, "b": {"inliers": x, "early": x, "late": x}})
    gray, late, early = COLORS[:3]
    assert [color(curve) for curve in steps(canvas, 0)] == [gray, late]
    assert [color(curve) for curve in steps(canvas, 1)] == [gray, early, late]
    assert [curve.get_fill() for curve in steps(canvas, 1)] == [True, False, False]
    (legend,) = canvas.legends
    assert [text.get_text().strip() for text in legend.get_texts()] == ["inliers", "late", "early"]


@pytest.mark.parametrize("number", [1, 3, 13])
def test_a_panel_for_each_detector(number: int) -> None:
    x = np.arange(50.0)
    canvas = drawn({f"d{n}": {"inliers": x, "a": x, "b": x, "c": x} for n in range(number)})
    shown = [ax for ax in canvas.axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == [f"d{n}" for n in range(number)]
    canvas.draw_without_rendering()
    boxes = [ax.get_window_extent() for ax in shown]
    assert min(box.height for box in boxes) > canvas.dpi  # an inch
    assert min(box.width for box in boxes) > 2.5 * canvas.dpi


def test_many_sets_do_not_crush_the_panels() -> None:
    x = np.arange(50.0)
    canvas = drawn({"d": {"inliers": x, **{f"{n:02} " + "a long name " * 3: x for n in range(20)}}})
    canvas.draw_without_rendering()
    assert canvas.axes[0].get_window_extent().height > canvas.dpi
    (legend,) = canvas.legends
    assert legend.get_window_extent().x1 <= canvas.bbox.x1
    assert legend.get_window_extent().y0 >= canvas.axes[0].get_window_extent().y1
