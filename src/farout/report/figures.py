"""Figures as text that an HTML page holds: SVG for curves, PNG for images."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from farout.protocols.summary import Densities

COLORS = ("#8a8f98", "#0b6e99", "#d9480f", "#5f3dc4", "#2b8a3e", "#c2255c", "#e8a317", "#087f5b")
"""Inliers in grey, then one colour per outlier set."""
COLUMNS = 3
BINS = 60


def densities(figure: Densities) -> str:
    """One small histogram panel per detector, as SVG."""
    rows = math.ceil(len(figure.panels) / COLUMNS)
    with rc_context({"svg.hashsalt": "farout", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}):
        canvas = Figure(figsize=(10, 2.1 * rows + 0.5), layout="constrained")
        axes = canvas.subplots(rows, COLUMNS, squeeze=False).flatten()
        for ax, (detector, curves) in zip(axes, figure.panels.items(), strict=False):
            _histogram(ax, detector, curves)
        for ax in axes[len(figure.panels) :]:
            ax.set_visible(False)
        handles, names = axes[0].get_legend_handles_labels()
        canvas.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]


def _histogram(ax: Axes, title: str, curves: dict[str, NDArray[np.float64]]) -> None:
    """Histograms of shared bins between the outer half percents; what lies beyond is put into the last bins."""
    everything = np.concatenate(list(curves.values()))
    low, high = np.quantile(everything, [0.005, 0.995])
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    for color, (name, scores) in zip(COLORS * 9, curves.items(), strict=False):
        shares = np.histogram(scores.clip(edges[0], edges[-1]), edges)[0] / len(scores)
        ax.stairs(
            shares, edges, color=color, label=name, fill=name == "inliers", alpha=0.45 if name == "inliers" else 1
        )
    ax.set_title(title, fontsize=10)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def png(image: NDArray[np.uint8]) -> str:
    """An image as a data address."""
    buffer = io.BytesIO()
    Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image).save(buffer, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
