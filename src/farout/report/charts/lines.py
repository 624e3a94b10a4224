"""Charts of curves with bands, reliability diagrams and radar plots."""

from __future__ import annotations

from typing import Any

import numpy as np

from farout.report.charts.palette import Palette
from farout.report.charts.panels import Chart, Panel, Traces, axis, line, plain, rounded, short, unit_axis
from farout.report.content import Calibrations, Curve, Curves, Radar

LARGEST = 1e100
HOVER = "%{fullData.name}<br>%{x:,.4g}: %{y:.3g}<extra></extra>"


def curves(figure: Curves, palette: Palette) -> Chart:
    """Return a panel of curves over their bands for each detector."""
    colors = palette.colors(name for panel in figure.panels.values() for name in panel)
    x, y = figure.labels
    layout = {"xaxis": axis(x, type="log", dtick=1), "yaxis": axis(y), "hovermode": "closest"}
    panels = [
        Panel(name, [trace for key, curve in figure.panels[name].items() for trace in _banded(key, curve, colors[key])],
              _with_shapes(layout), 240)
        for name in palette.ordered(figure.panels)
    ]  # fmt: skip
    return Chart(panels, list(colors.items()), width=300)


def _with_shapes(layout: dict[str, Any]) -> dict[str, Any]:
    """Return the layout with a line at zero, across the whole panel."""
    zero = {**line([0, 1], [0, 0]), "xref": "paper"}
    return {**layout, "shapes": [zero]}


def _banded(name: str, curve: Curve, color: str) -> Traces:
    low, high, middle = (rounded(part.clip(-LARGEST, LARGEST)) for part in (curve.low, curve.high, curve.y))
    edge: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": rounded(curve.x), "line": {"width": 0}}
    edge |= {"hoverinfo": "skip", "name": f"{plain(name)}: bound"}
    return [
        {**edge, "y": low},
        {**edge, "y": high, "fill": "tonexty", "fillcolor": f"{color}26"},
        {"type": "scatter", "mode": "lines", "name": plain(name), "x": rounded(curve.x), "y": middle,
         "line": {"color": color, "width": 2}, "hovertemplate": HOVER},
    ]  # fmt: skip


def calibrations(figure: Calibrations, palette: Palette) -> Chart:
    """Return a panel of curves with their intervals for each network, and the diagonal of a calibrated one."""
    colors = palette.colors(name for panel in figure.panels.values() for name in panel)
    layout = {"xaxis": unit_axis("confidence"), "yaxis": unit_axis("accuracy"), "shapes": [line([0, 1], [0, 1])]}
    panels = [
        Panel(title, [_points(name, curve, colors[name]) for name, curve in panel.items()], layout, 300)
        for title, panel in figure.panels.items()
    ]
    return Chart(panels, [*colors.items(), ("calibrated (diagonal)", "var(--soft)")], width=300)


def _points(name: str, curve: Curve, color: str) -> dict[str, Any]:
    known = ~np.isnan(curve.y)
    x, y, low, high = (part[known] for part in (curve.x, curve.y, curve.low, curve.high))
    return {
        "type": "scatter", "mode": "lines+markers", "name": plain(name), "x": rounded(x), "y": rounded(y),
        "error_y": {"array": rounded(high - y), "arrayminus": rounded(y - low), "width": 2, "thickness": 1},
        "marker": {"color": color, "size": 6}, "line": {"color": color, "width": 1.5}, "hovertemplate": HOVER,
    }  # fmt: skip


def radar(figure: Radar, palette: Palette) -> Chart:
    """Return a panel for each measure, with a closed line per network; all axes run from 0 in the center to 1."""
    colors = palette.colors(str(name) for frame in figure.panels.values() for name in frame.index)
    polar = {
        "radialaxis": {"range": [0, 1], "tickvals": [0.5, 1], "angle": 90},
        "angularaxis": {"direction": "clockwise"},
    }
    panels = []
    for title, frame in figure.panels.items():
        names = [short(name) for name in frame.columns]
        traces = [
            {"type": "scatterpolar", "name": plain(row), "r": rounded([*values, values[0]]),
             "theta": [*names, names[0]], "line": {"color": colors[str(row)]}, "mode": "lines+markers",
             "hovertemplate": "%{fullData.name}<br>%{theta}: %{r:.3f}<extra></extra>"}
            for row, values in zip(frame.index, frame.to_numpy(np.float64), strict=True)
        ]  # fmt: skip
        panels.append(Panel(title, traces, {"polar": polar, "margin": {"l": 70, "r": 70, "t": 30, "b": 30}}, 320))
    return Chart(panels, list(colors.items()), width=340)
