"""Figures as text that an HTML page holds: SVG for curves, PNG for images."""

from __future__ import annotations

import base64
import io
import math
import warnings
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from PIL import Image

from farout.protocols.summary import Densities

COLORS = ("#8a8f98", "#0b6e99", "#d9480f", "#5f3dc4", "#2b8a3e", "#c2255c", "#e8a317", "#087f5b")
"""Inliers in grey, then one colour per outlier set."""
COLUMNS = 3
BINS = 60
LARGEST = 1e100
"""Scores beyond are drawn at this one: axes cannot span all of float64."""
STYLE: Any = {"svg.hashsalt": "farout", "svg.fonttype": "none", "text.parse_math": False, "font.size": 9}


def densities(figure: Densities) -> str:
    """One small histogram panel per detector, as SVG."""
    rows = math.ceil(len(figure.panels) / COLUMNS)
    names = dict.fromkeys(name for curves in figure.panels.values() for name in curves)
    colors = dict(zip(names, cycle(COLORS), strict=False))
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser's fonts have it
        canvas = Figure(figsize=(10, 2.1 * rows + 0.5), layout="constrained")
        axes = canvas.subplots(rows, COLUMNS, squeeze=False).flatten()
        for ax, (detector, curves) in zip(axes, figure.panels.items(), strict=False):
            _histogram(ax, detector, curves, colors)
        for ax in axes[len(figure.panels) :]:
            ax.set_visible(False)
        handles = [Patch(facecolor=color, label=f" {name}") for name, color in colors.items()]  # "_x" would be hidden
        canvas.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]


def _histogram(ax: Axes, title: str, curves: dict[str, NDArray[np.float64]], colors: dict[str, str]) -> None:
    """Histograms of shared bins between the outer half percents; what lies beyond is put into the last bins."""
    everything = np.concatenate(list(curves.values())).clip(-LARGEST, LARGEST)
    low, high = np.quantile(everything, [0.005, 0.995])
    least = 1e-5 * max(abs(low), abs(high), 1 / LARGEST)  # narrower cannot be drawn
    edges = np.linspace(low, high if high - low > least else low + max(1, least), BINS + 1)
    for name, scores in curves.items():
        shares = np.histogram(scores.clip(edges[0], edges[-1]), edges)[0] / len(scores)
        inliers = name == "inliers"
        ax.stairs(np.sqrt(shares), edges, color=colors[name], fill=inliers, alpha=0.45 if inliers else 1)
    ax.set_title(title, fontsize=10)
    ax.set_yticks([])
    ax.locator_params(axis="x", nbins=5)
    ax.spines[["top", "right", "left"]].set_visible(False)


def png(image: NDArray[np.uint8]) -> str:
    """An image as a data address."""
    buffer = io.BytesIO()
    Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image).save(buffer, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
