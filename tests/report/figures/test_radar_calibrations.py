"""Radar plots, reliability diagrams, and bars of values that are not in [0, 1]."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from farout.report.content import Bars, Calibrations, Curve, HeatMap, Radar
from farout.report.figures import bars, calibrations, heat_map, radar
from farout.report.figures.style import style, svg


def test_a_radar_closes_its_lines_and_leaves_gaps() -> None:
    frame = pd.DataFrame([[0.2, 0.4, 0.6], [1.0, np.nan, 0.5]], ["a", "b"], ["x", "y", "z"])
    with style():
        canvas = radar.draw(Radar("r", "t", "c", {"AUROC": frame, "ECE": frame}))
        canvas.draw_without_rendering()
    assert len(canvas.axes) == 2
    first, second = (np.asarray(line.get_ydata(), float) for line in canvas.axes[0].lines)
    assert first.tolist() == [0.2, 0.4, 0.6, 0.2]
    assert np.array_equal(second, [1, np.nan, 0.5, 1], equal_nan=True)
    assert [label.get_text() for label in canvas.axes[0].get_xticklabels()] == ["x", "y", "z"]
    assert canvas.axes[0].get_ylim() == (0, 1)


def test_reliability_has_a_diagonal_and_leaves_out_empty_bins() -> None:
    curve = Curve(
        *(np.array(values) for values in ([0.1, np.nan, 0.9], [0.2, np.nan, 0.5], [0.1, 0, 0.4], [0.3, 0, 0.6]))
    )
    with style():
        canvas = calibrations.draw(Calibrations("r", "t", "c", {"lenet": {"test": curve}}))
        canvas.draw_without_rendering()
    diagonal, line = canvas.axes[0].lines
    assert (list(diagonal.get_xdata()), list(diagonal.get_ydata())) == ([0, 1], [0, 1])
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0.1, 0.9], [0.2, 0.5])
    (intervals,) = canvas.axes[0].collections
    ends = [segment[:, 1].tolist() for segment in intervals.get_segments()]  # type: ignore[attr-defined]
    assert ends == [[0.1, 0.3], [0.4, 0.6]]


@pytest.mark.parametrize(("limit", "chance"), [(120.0, None), (1.0, 0.5)])
def test_bars_end_at_their_limit_and_show_chance_where_there_is_one(limit: float, chance: float | None) -> None:
    rows = [("near", "near", limit / 2, limit / 4, limit), ("far", "far", limit, limit, limit)]
    frame = pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])
    figure = Bars("b", "t", "c", {"p": frame}, "FID", limit, chance)
    with style():
        (ax, *_) = bars.draw(figure).axes
    assert ax.get_xlim() == (0, limit)
    assert [patch.get_width() for patch in ax.patches] == [limit / 2, limit]  # type: ignore[attr-defined]
    assert (">chance<" in svg(bars.draw, figure).replace("> ", ">")) == (chance is not None)


def test_a_heat_map_names_its_values() -> None:
    frame = pd.DataFrame([[1.0]], ["a"], ["b"])
    assert "fraction of images" in svg(heat_map.draw, HeatMap("h", "t", "c", {"p": frame}, "fraction of images"))
    assert "AUROC, 0.5 is chance" in svg(heat_map.draw, HeatMap("h", "t", "c", {"p": frame}))
