"""Histograms of few values: counts, medians, one legend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from numpy.typing import NDArray

from farout.report.content import Histograms
from farout.report.figures import histograms
from farout.report.figures.style import COLORS, style

Groups = dict[str, NDArray[np.float64]]
BLUE, ORANGE = COLORS[1:3]


def drawn(panels: dict[str, Groups], limits: tuple[float, float] = (0, 1)) -> Figure:
    with style():
        return histograms.draw(Histograms("o", "t", "c", panels, limits))


def outlines(ax: Axes) -> list[StepPatch]:
    return [patch for patch in ax.patches if isinstance(patch, StepPatch) and not patch.get_fill()]


def medians(ax: Axes) -> dict[str, float]:
    """By color."""
    return {to_hex(str(line.get_color())): float(np.asarray(line.get_xdata())[0]) for line in ax.lines}


def test_counts_in_shared_bins() -> None:
    groups = {"clean": np.array([0.01, 0.02, 0.51]), "corrupted": np.array([0.97, 1.0])}
    canvas = drawn({"fog": groups}, (0, 1))
    clean, corrupted = (outline.get_data() for outline in outlines(canvas.axes[0]))
    np.testing.assert_allclose(clean.edges, np.linspace(0, 1, 21))
    np.testing.assert_array_equal(clean.edges, corrupted.edges)
    assert {place: clean.values[place] for place in np.flatnonzero(clean.values)} == {0: 2, 10: 1}
    assert {place: corrupted.values[place] for place in np.flatnonzero(corrupted.values)} == {19: 2}


def test_an_outline_lies_over_its_light_fill() -> None:
    canvas = drawn({"fog": {"clean": np.array([0.5]), "corrupted": np.array([0.5])}})
    patches = [patch for patch in canvas.axes[0].patches if isinstance(patch, StepPatch)]
    assert [patch.get_fill() for patch in patches] == [True, False] * 2
    assert [to_hex(patch.get_facecolor()) for patch in patches[::2]] == [BLUE, ORANGE]
    assert [to_hex(patch.get_edgecolor()) for patch in patches[1::2]] == [BLUE, ORANGE]
    assert all((patch.get_alpha() or 1) < 0.3 for patch in patches[::2])


def test_a_tick_at_each_median() -> None:
    canvas = drawn({"fog": {"clean": np.array([0.1, 0.2, 0.9]), "corrupted": np.array([0.4, 0.5])}})
    assert medians(canvas.axes[0]) == {BLUE: 0.2, ORANGE: pytest.approx(0.45)}


def test_ticks_lie_above_the_bars() -> None:
    ax = drawn({"fog": {"clean": np.full(13, 0.3)}}).axes[0]
    (low, high) = np.asarray(ax.lines[0].get_ydata(), float)  # parts of the panel's height
    assert 13 / ax.get_ylim()[1] < low < high == 1


def test_a_name_keeps_its_color_and_stands_in_the_legend_once() -> None:
    x = np.array([0.5])
    canvas = drawn({"fog": {"clean": x, "corrupted": x}, "blur": {"corrupted": x}})
    assert set(medians(canvas.axes[1])) == {ORANGE}
    (legend,) = canvas.legends
    assert [text.get_text().strip() for text in legend.get_texts()] == ["clean", "corrupted", "median"]


def test_values_that_are_not_there() -> None:
    groups = {"clean": np.array([0.2, np.nan, 0.4]), "corrupted": np.array([]), "late": np.array([np.nan])}
    ax = drawn({"fog": groups}).axes[0]
    assert [outline.get_data().values.sum() for outline in outlines(ax)] == [2]
    assert medians(ax) == {BLUE: pytest.approx(0.3)}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=130))
def test_no_value_is_lost(values: list[float]) -> None:
    """Those beyond the limits are in the outer bins."""
    groups: Groups = {"clean": np.array(values)}
    with style():
        canvas = Figure()
        ax = canvas.subplots()
        histograms._bars(ax, groups, np.linspace(-1, 1, 21), {"clean": BLUE})
    (outline,) = outlines(ax)
    counts = outline.get_data().values
    assert counts.sum() == len(values)
    assert counts[0] >= sum(value < -1 for value in values)
    assert counts[-1] >= sum(value > 1 for value in values)
    assert ax.get_xlim() == (-1, 1)


def test_panels_keep_their_order_and_counts_are_whole() -> None:
    canvas = drawn({name: {"clean": np.array([0.5, 0.5])} for name in ("c", "a", "b", "d")})
    shown = [ax for ax in canvas.axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == ["c", "a", "b", "d"]
    assert [ax.get_ylabel() for ax in shown] == ["count", "", "", "count"]
    for ax in shown:
        assert all(tick == round(tick) for tick in ax.get_yticks())
