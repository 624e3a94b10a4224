"""Charts of score distributions and histograms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farout.report.charts.palette import INLIERS, Palette
from farout.report.charts.panels import Chart, Panel, Traces, axis, plain, rounded
from farout.report.content import Densities, Histograms, Scores

BINS, COARSE = 60, 20
LARGEST = 1e100
"""Scores beyond are drawn at this one: axes cannot span all of float64."""


def densities(figure: Densities, palette: Palette) -> Chart:
    """Return a panel per detector; inliers are filled and gray."""
    colors = palette.colors(name for panel in figure.panels.values() for name in panel.outliers)
    panels = [
        Panel(name, _outlines(figure.panels[name], colors), {"xaxis": axis("score"), "yaxis": {"visible": False}}, 180)
        for name in palette.ordered(figure.panels)
    ]
    return Chart(panels, [("inliers", INLIERS), *colors.items()], width=230)


def _outlines(panel: Scores, colors: dict[str, str]) -> Traces:
    """Return histograms with shared bins from the 0.5 % to the 99.5 % quantile; scores beyond are in the outer bins."""
    groups = [("inliers", panel.inliers), *panel.outliers.items()]
    everything = np.concatenate([panel.inliers, *panel.outliers.values()]).clip(-LARGEST, LARGEST)
    low, high = np.quantile(everything, [0.005, 0.995])
    edges = np.linspace(low, high if high > low else low + max(1, 1e-5 * abs(low)), BINS + 1)
    traces = []
    for place, (name, scores) in enumerate(groups):
        if len(scores):
            fractions = np.histogram(scores.clip(edges[0], edges[-1]), edges)[0] / len(scores)
            color = INLIERS if place == 0 else colors[name]
            traces.append(
                {
                    "type": "scatter", "mode": "lines", "name": plain(name), "x": rounded((edges[1:] + edges[:-1]) / 2),
                    "y": rounded(np.sqrt(fractions)), "customdata": rounded(fractions),
                    "line": {"shape": "hvh", "width": 1.3, "color": color},
                    "hovertemplate": "%{fullData.name}<br>score %{x:.3g}: %{customdata:.1%} of images<extra></extra>",
                    **({"fill": "tozeroy", "fillcolor": f"{color}66"} if place == 0 else {}),
                }
            )  # fmt: skip
    return traces


def histograms(figure: Histograms, palette: Palette) -> Chart:
    """Return a panel of counts for each scenario, with a line at each group's median."""
    colors = palette.colors(name for groups in figure.panels.values() for name in groups)
    edges = np.linspace(*figure.limits, COARSE + 1)
    layout = {"xaxis": axis(range=list(figure.limits)), "yaxis": axis("count"), "barmode": "overlay", "bargap": 0}
    panels = []
    for name, groups in figure.panels.items():
        known = {group: values[~np.isnan(values)] for group, values in groups.items()}
        known = {group: values for group, values in known.items() if len(values)}
        medians = [
            {"type": "line", "x0": float(np.median(values)), "x1": float(np.median(values)), "y0": 0.9, "y1": 1,
             "yref": "paper", "line": {"color": colors[group], "width": 3}}
            for group, values in known.items()
        ]  # fmt: skip
        panels.append(
            Panel(name, [_bars(g, v, edges, colors[g]) for g, v in known.items()], {**layout, "shapes": medians})
        )
    return Chart(panels, list(colors.items()))


def _bars(name: str, values: NDArray[np.float64], edges: NDArray[np.float64], color: str) -> dict[str, object]:
    counts = np.histogram(values.clip(edges[0], edges[-1]), edges)[0]
    return {
        "type": "bar", "name": plain(name), "x": rounded((edges[1:] + edges[:-1]) / 2), "y": rounded(counts),
        "marker": {"color": color, "opacity": 0.45, "line": {"color": color, "width": 1}},
        "hovertemplate": f"%{{fullData.name}}<br>%{{x:.2g}}: %{{y}} (median {np.median(values):.3g})<extra></extra>",
    }  # fmt: skip
