"""Interactive charts as data: panels of plotly traces and layouts, and the legend that they share."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

LONGEST = 34
"""Largest number of characters of a label on an axis."""
INK, FAINT = "ink", "faint"
"""Colors that the page replaces by those of its theme."""
Traces = list[dict[str, Any]]


@dataclass(frozen=True)
class Panel:
    """One plot: its title, its traces, and its layout."""

    title: str
    traces: Traces
    layout: dict[str, Any]
    height: int = 210
    """Height in pixels."""

    @property
    def json(self) -> dict[str, Any]:
        """Content for the page's script."""
        return {"title": self.title, "data": self.traces, "layout": {**self.layout, "height": self.height}}


@dataclass(frozen=True)
class Chart:
    """Panels with a shared legend; `width` is the smallest width of a panel in pixels."""

    panels: list[Panel]
    legend: list[tuple[str, str]] = field(default_factory=list)
    """Names and their colors."""
    scale: str = ""
    """Label of the color scale of heat maps of values in [0, 1]; empty without one."""
    scale_kind: str = ""
    """"fractions" for a scale from white to blue; empty for the one from red to blue."""
    lowest: float = 0.0
    """Value at the left end of that scale."""
    width: int = 260


def plain(text: object) -> str:
    """Return text for plotly, which reads tags and entities: shown as it is."""
    return html.escape(str(text), quote=False)


def short(text: object) -> str:
    """Return a label for an axis, cut off if it is too long."""
    whole = " ".join(str(text).split())
    return plain(whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "…")


def rounded(values: ArrayLike) -> list[Any]:
    """Return numbers with four significant digits, so that the page stays small; None for a missing one."""
    flat = np.asarray(values, np.float64)
    if flat.ndim > 1:
        return [rounded(row) for row in flat]
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in flat]


def unit_axis(title: str = "") -> dict[str, Any]:
    """Return an axis from 0 to 1."""
    return {"range": [-0.03, 1.03], "tickvals": [0, 0.25, 0.5, 0.75, 1], "title": {"text": plain(title)}}


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """Return an axis with a title."""
    return {"title": {"text": plain(title)}, **more}


def line(x: list[float], y: list[float], dash: str = "dot") -> dict[str, Any]:
    """Return a thin line that belongs to no group, as a shape of the layout."""
    ends = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1]}
    return {"type": "line", **ends, "line": {"color": FAINT, "width": 1, "dash": dash}, "layer": "below"}


def labels(names: Iterable[object], title: str = "") -> dict[str, Any]:
    """Return the settings of an axis with a label at 0, 1, and so on."""
    texts = [short(name) for name in names]
    ticks = {"tickvals": list(range(len(texts))), "ticktext": texts, "ticks": "", "ticklabeloverflow": "allow"}
    return {**axis(title), **ticks, "automargin": True, "zeroline": False}
