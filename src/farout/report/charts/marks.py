"""Charts of bars with intervals, and of scattered pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from farout.report.charts.palette import Palette
from farout.report.charts.panels import Chart, Panel, axis, labels, line, plain, rounded, unit_axis
from farout.report.content import Bars, Scatter
from farout.report.content.numbers import with_interval

LINE, AROUND = 19, 60
"""Pixels per bar, and for the axis below."""


def bars(figure: Bars, palette: Palette) -> Chart:
    """Return a panel of horizontal bars for each detector, with lines at the first bar's value and at chance."""
    colors = palette.colors(str(name) for frame in figure.panels.values() for name in frame["group"])
    panels = [
        _panel(name, _arranged(figure.panels[name], palette), colors, figure) for name in palette.ordered(figure.panels)
    ]
    return Chart(panels, list(colors.items()), width=330)


def _arranged(frame: pd.DataFrame, palette: Palette) -> pd.DataFrame:
    """Return the bars of every group with the detectors best first; groups keep their order."""
    groups = list(dict.fromkeys(frame["group"]))
    places = {name: place for place, name in enumerate(palette.ordered(map(str, dict.fromkeys(frame["bar"]))))}
    ranked = [palette.rank(str(bar)) is not None for bar in frame["bar"]]
    if not any(ranked):
        return frame
    keys = [(groups.index(group), places[str(bar)]) for bar, group in zip(frame["bar"], frame["group"], strict=True)]
    return frame.iloc[sorted(range(len(frame)), key=keys.__getitem__)]


def _panel(title: str, frame: pd.DataFrame, colors: dict[str, str], figure: Bars) -> Panel:
    values, low, high = frame[["value", "low", "high"]].to_numpy(np.float64).T
    names, groups = list(map(str, frame["bar"])), list(map(str, frame["group"]))
    texts = [
        f"{plain(name)}{'' if name == group else f' ({plain(group)})'}: {with_interval(*three)}"
        for name, group, *three in zip(names, groups, values, low, high, strict=True)
    ]
    trace: dict[str, Any] = {
        "type": "bar", "orientation": "h", "x": rounded(values), "y": list(range(len(frame))), "hovertext": texts,
        "hoverinfo": "text", "marker": {"color": [colors[group] for group in groups]},
    }  # fmt: skip
    if not np.isnan(high).all():
        error = {"array": rounded(high - values), "arrayminus": rounded(values - low), "width": 3, "thickness": 1}
        trace["error_x"] = error
    ends = [-0.6, len(frame) - 0.4]
    value_axis = axis(figure.label, **({"type": "log"} if figure.log else {"range": [0, figure.limit]}))
    shapes = [] if figure.chance is None else [{**line([figure.chance] * 2, ends), "layer": "above"}]
    if len(values) and not np.isnan(values[0]) and not figure.log:
        shapes.append({**line([float(values[0])] * 2, ends, "solid"), "layer": "above"})
    layout = {
        "xaxis": value_axis,
        "yaxis": {**labels(names), "autorange": "reversed", "showgrid": False},
        "shapes": shapes, "bargap": 0.25,
    }  # fmt: skip
    return Panel(title, [trace], layout, AROUND + LINE * len(frame))


def scatter(figure: Scatter, palette: Palette) -> Chart:
    """Return a panel for each detector; on the diagonal both values are equal."""
    colors = palette.colors(name for groups in figure.panels.values() for name in groups)
    x, y = figure.labels
    layout = {"xaxis": unit_axis(x), "yaxis": unit_axis(y), "shapes": [line([0, 1], [0, 1], "dash")]}
    panels = []
    for title in palette.ordered(figure.panels):
        groups = {name: pairs[np.isfinite(pairs).all(1)] for name, pairs in figure.panels[title].items()}
        size = float(np.clip(90 / math.sqrt(max(1, sum(map(len, groups.values())))), 3, 6))
        traces = [
            {"type": "scatter", "mode": "markers", "name": plain(name), "x": rounded(pairs[:, 0]),
             "y": rounded(pairs[:, 1]), "marker": {"color": colors[name], "size": size, "opacity": 0.6},
             "hovertemplate": "%{fullData.name}<br>%{x:.3f}, %{y:.3f}<extra></extra>"}
            for name, pairs in groups.items()
        ]  # fmt: skip
        panels.append(Panel(title, traces, layout, 290))
    return Chart(panels, list(colors.items()), width=270)
