"""Shared style of figures: colors, text widths, panels, legends, and compact SVG."""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.textpath import text_to_path

COLORS = ("#8a8f98", "#0b6e99", "#d9480f", "#5f3dc4", "#2b8a3e", "#c2255c", "#e8a317", "#087f5b")
"""Inliers in gray, then one color per set."""
DISTINCT = ("#5c6470", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
"""Colors for many groups: a gray, then those of Okabe and Ito 2008, which color-blind people can distinguish."""
INK = "#1c2026"
"""Color of lines that belong to no group."""
WIDTH = 10.4
"""Width of a figure in inches; the page is a little wider."""
COLUMNS = 3
TITLE, LEGEND = 46, 110
"""Characters that fit in a line of a panel's title and of a legend."""
STYLE: Any = {"svg.hashsalt": "farout", "svg.fonttype": "none", "text.parse_math": False, "font.size": 9}
CROPPED: Any = {"bbox_inches": "tight", "pad_inches": 0.05}
"""Settings for saving: without the space of panels that a row does not fill."""
HOVER = "hover: "
"""Prefix of the ids of elements with a hover text."""
LINE = re.compile(r"M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s+")
DOT = 0.001
"""Length in points of the longest line that is a dot."""


@contextmanager
def style() -> Iterator[None]:
    """Apply the settings for drawing and saving within this block."""
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ ")  # the browser's fonts have it
        yield


def svg(draw: Callable[[Any], Figure], figure: Any) -> str:
    """Return the figure as SVG, empty if it has no panels; the same figure gives the same text."""
    if not figure.panels:
        return ""
    text = io.StringIO()
    with style():
        draw(figure).savefig(text, format="svg", metadata={"Date": None}, **CROPPED)
    label = f'<svg role="img" aria-label="{html.escape(figure.title)}"'
    return label + _compact(_add_titles(text.getvalue().partition("<svg")[2]))


def hover(artist: Artist, text: str) -> None:
    """Show this text when the pointer is over what the artist draws."""
    artist.set_gid(HOVER + text)


def _add_titles(source: str) -> str:
    """Return the SVG with the texts of `hover` as title elements; they are escaped already."""
    return re.sub(rf"<g id=([\"'])(?s:{HOVER}(.*?))\1>", r"<g><title>\2</title>", source)


def _compact(source: str) -> str:
    """Return the SVG with coordinates rounded: shapes to 0.01 points, dots to 0.1; other texts contain no bare <."""
    return re.sub(r"<(?:path|use) [^>]*>", lambda tag: _round(tag[0]), source)


def _round(tag: str) -> str:
    tag = LINE.sub(_dot, tag)
    tag = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag)
    return re.sub(r"\s+", " ", tag)


def _dot(line: re.Match[str]) -> str:
    """Return a line as it is, or a dot as a line without length."""
    x, y, *end = map(float, line.groups())
    return f"M{x:.1f} {y:.1f}h0" if math.dist((x, y), end) < DOT else line[0]


def text_width(text: str, size: float) -> float:
    """Return the width of the widest line in inches."""
    return max((_line_width(line, size) for line in text.splitlines()), default=0)


def _line_width(line: str, size: float) -> float:
    """Return the width in inches; wide characters, which the measured font lacks, count as squares."""
    narrow = "".join(character for character in line if unicodedata.east_asian_width(character) not in "WF")
    width = text_to_path.get_text_width_height_descent(narrow, FontProperties(size=size), ismath=False)[0]
    return float(width + size * (len(line) - len(narrow))) / 72


def colors_of(panels: Iterable[dict[str, Any]], colors: tuple[str, ...]) -> dict[str, str]:
    """Return a color for each name, the same in all panels."""
    names = dict.fromkeys(name for panel in panels for name in panel)
    return dict(zip(names, cycle(colors), strict=False))


def shorten(text: str, characters: int, lines: int = 1) -> str:
    """Return the text wrapped to so many lines, cut off if it does not fit."""
    return textwrap.fill(text, characters, max_lines=lines, placeholder="…")


def grid(titles: Iterable[str], height: float, columns: int = COLUMNS) -> tuple[Figure, list[Axes]]:
    """Return a canvas with empty panels of this height in inches, and their axes."""
    lines = [shorten(title, TITLE * COLUMNS // max(columns, COLUMNS), 2) for title in titles]
    rows = math.ceil(len(lines) / columns)
    canvas = Figure(figsize=(WIDTH, height * rows), layout=ConstrainedLayoutEngine(h_pad=0.08))
    axes = canvas.subplots(rows, columns, squeeze=False).flatten()
    for ax, title in zip(axes, lines, strict=False):
        ax.set_title(title, fontsize=10)
        ax.locator_params(axis="x", nbins=5)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[len(lines) :]:
        ax.set_visible(False)
    return canvas, list(axes[: len(lines)])


def nothing(ax: Axes) -> None:
    """Write into the panel that it has no results yet."""
    ax.text(0.5, 0.5, "no results yet", color=COLORS[0], ha="center", va="center", transform=ax.transAxes)


def legend(canvas: Figure, handles: list[Artist]) -> None:
    """Add one legend above all panels, in as many columns as fit."""
    for handle in handles:
        handle.set_label(f" {shorten(str(handle.get_label()), LEGEND)}")  # "_x" would be hidden
    widest = max(text_width(str(handle.get_label()), STYLE["font.size"]) for handle in handles)
    columns = max(1, int(WIDTH / (widest + 0.6)))
    canvas.set_figheight(canvas.get_figheight() + 0.2 * (1 + math.ceil(len(handles) / columns)))
    canvas.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False)
