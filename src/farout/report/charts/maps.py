"""Charts of colored cells: heat maps, two-dimensional histograms and score landscapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from farout.report.charts.palette import Palette
from farout.report.charts.panels import INK, LONGEST, Chart, Panel, axis, labels, plain, rounded
from farout.report.content import DensityMap, HeatMap, Landscapes, Surface
from farout.report.content.numbers import number
from farout.report.shades import shade

LINE, AROUND = 22, 90
"""Pixels per row of a heat map, and for the labels below."""
UPRIGHT = 8
"""Number of columns, and length of their names, from which on the names stand upright."""
CELLS = 24
HIGHEST = 0.95
"""Quantile of the values above which the color of a landscape is the lightest: a few peaks would hide the valleys."""


def heat_map(figure: HeatMap, palette: Palette) -> Chart:
    """Return a panel per scenario, the rows and columns that are detectors best first."""
    diverging = "chance" in figure.label or figure.lowest < 0
    panels = [
        _cells(title, arranged(frame, palette), diverging, figure.lowest, figure.about.get(title))
        for title, frame in figure.panels.items()
    ]
    widest = max((frame.shape[1] for frame in figure.panels.values()), default=0)
    kind = "" if diverging else "fractions"
    return Chart(
        panels, scale=figure.label, scale_kind=kind, lowest=figure.lowest, width=min(640, max(300, 130 + 46 * widest))
    )


def arranged(frame: pd.DataFrame, palette: Palette) -> pd.DataFrame:
    """Return the frame with the rows and columns that are detectors best first."""
    rows, columns = ([str(name) for name in axis] for axis in (frame.index, frame.columns))
    return frame.iloc[palette.places(rows), palette.places(columns)]


def _scale(diverging: bool) -> list[tuple[float, str]]:
    """Return the scale of the overview, from red to blue; for fractions its upper half, from white to blue."""
    places = np.linspace(0, 1, 5)
    return [(float(place), shade(place if diverging else 0.5 + place / 2)[0]) for place in places]


def _cells(
    title: str, frame: pd.DataFrame, diverging: bool, lowest: float = 0.0, about: pd.DataFrame | None = None
) -> Panel:
    values = frame.to_numpy(np.float64)
    hover = [
        [
            f"{plain(row)}<br>{plain(column)}: {number(value)}"
            + (f"<br>{plain(about.at[row, column])}" if about is not None else "")
            for column, value in zip(frame.columns, line, strict=True)
        ]
        for row, line in zip(frame.index, values, strict=True)
    ]
    trace = {
        "type": "heatmap", "z": rounded(values), "zmin": lowest, "zmax": 1, "colorscale": _scale(diverging),
        "xgap": 1, "ygap": 1, "showscale": False, "hovertext": hover, "hoverinfo": "text", "hoverongaps": False,
        "text": [["" if np.isnan(value) else f"{value:.2f}" for value in line] for line in values],
        "texttemplate": "%{text}", "textfont": {"size": 10},
    }  # fmt: skip
    layout: dict[str, Any] = {
        "xaxis": {**labels(frame.columns, _named(frame.columns)), "showgrid": False},
        "yaxis": {**labels(frame.index, _named(frame.index)), "showgrid": False, "autorange": "reversed"},
    }
    longest = max((len(str(name)) for name in frame.columns), default=0)
    if frame.shape[1] > UPRIGHT and longest > UPRIGHT:  # slanted labels of many columns would be dropped
        layout["xaxis"]["tickangle"] = 90
        return Panel(title, [trace], layout, AROUND + LINE * len(frame) + 4 * min(longest, LONGEST))
    layout["margin"] = {"r": 12 + 3 * min(longest, LONGEST)}  # room for the last label, which may be slanted
    return Panel(title, [trace], layout, AROUND + LINE * len(frame))


def _named(index: pd.Index[str]) -> str:
    """Return the name of an axis, if it says more than "detector"."""
    return str(index.name or "") if index.name not in ("detector", "outliers", "attack", "network", "test") else ""


def density_map(figure: DensityMap, palette: Palette) -> Chart:
    """Return a panel for each group, all with the same axes; a cross marks the medians."""
    x, y = (axis(label, range=list(limits)) for label, limits in zip(figure.labels, figure.limits, strict=True))
    panels = [
        Panel(title, _counted(pairs, figure.limits), {"xaxis": x, "yaxis": y}, 260)
        for title, pairs in figure.panels.items()
    ]
    return Chart(panels)


def _counted(pairs: NDArray[np.float64], limits: tuple[tuple[float, float], ...]) -> list[dict[str, Any]]:
    known = pairs[np.isfinite(pairs).all(1)]
    if not len(known):
        return []
    edges = [np.linspace(low, high, CELLS + 1) for low, high in limits]
    first, second = (values.clip(*limit) for values, limit in zip(known.T, limits, strict=True))
    counts = np.histogram2d(first, second, bins=edges)[0].T
    middles = [rounded((edge[1:] + edge[:-1]) / 2) for edge in edges]
    shown = rounded(np.where(counts > 0, np.sqrt(counts), np.nan))
    x, y = np.median(known, 0)
    return [
        {"type": "heatmap", "x": middles[0], "y": middles[1], "z": shown, "customdata": counts.astype(int).tolist(),
         "colorscale": "YlOrRd", "reversescale": True, "showscale": False, "hoverongaps": False,
         "hovertemplate": "%{x:.3g}, %{y:.3g}: %{customdata} images<extra></extra>"},
        _mark(x, y, "cross-thin", f"medians of {len(known):,} images: {x:.3f}, {y:.3f}"),
    ]  # fmt: skip


def landscapes(figure: Landscapes, palette: Palette) -> Chart:
    """Return a panel for each surface, all over the unit square; low values are dark."""
    x, y = (axis(label, range=[0, 1]) for label in figure.labels)
    panels = [
        Panel(name, _surface(figure.panels[name]), {"xaxis": x, "yaxis": y}, 290)
        for name in palette.ordered(figure.panels)
    ]
    return Chart(panels)


def _surface(surface: Surface) -> list[dict[str, Any]]:
    from scipy.interpolate import griddata

    known = np.isfinite(surface.values)
    if not known.any():
        return []
    points, values = surface.points[known], surface.values[known]
    middles = (np.arange(2 * CELLS) + 0.5) / (2 * CELLS)
    z = griddata(points, values, tuple(np.meshgrid(middles, middles)), method="nearest")
    low, (x, y) = values.min(), points[values.argmin()]
    ends = {"x": rounded(surface.ends[:, 0]), "y": rounded(surface.ends[:, 1])}
    return [
        {"type": "heatmap", "x": rounded(middles), "y": rounded(middles), "z": rounded(z), "zmin": float(low),
         "zmax": float(np.quantile(values, HIGHEST)), "colorscale": "Cividis", "showscale": False,
         "hovertemplate": "%{x:.2f}, %{y:.2f}: %{z:.3g}<extra></extra>"},
        _mark(x, y, "x-thin", f"lowest of {len(values):,} points: {low:.3g}", "white"),
        {"type": "scatter", "mode": "markers", **ends, "hovertemplate": "end of a search<extra></extra>",
         "marker": {"color": "#d9480f", "size": 8, "line": {"color": "white", "width": 1}}, "cliponaxis": False},
    ]  # fmt: skip


def _mark(x: float, y: float, symbol: str, text: str, color: str = INK) -> dict[str, Any]:
    marker = {"symbol": symbol, "size": 12, "color": color, "line": {"color": color, "width": 2}}
    return {"type": "scatter", "mode": "markers", "x": [float(x)], "y": [float(y)], "marker": marker,
            "hovertemplate": f"{text}<extra></extra>"}  # fmt: skip
