"""What all drawn figures have in common: stable SVG whose texts are texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from farout.report.content import Densities, HeatMap, Histograms, Scores
from farout.report.figures import densities, heat_map, histograms
from farout.report.figures.style import svg, text_width

NAMES = [
    "$x_$", r"$\frac$", "_hidden", "中文", "50%", "a\\b", "{x}", "&lt;b&gt;", "<script>alert(1)</script>", "]]></svg>",
    '" onload="alert(1)', "it's",
    "forty characters, of which some are ünï$",
]  # fmt: skip


def named(name: str) -> list[tuple[Callable[[Any], Figure], Any]]:
    """A figure of each kind that has this name in all its texts."""
    values = np.linspace(0, 1, 5)
    return [
        (densities.draw, Densities("d", name, "c", {name: Scores(values, {name: values})})),
        (histograms.draw, Histograms("o", name, "c", {name: {name: values}}, (0, 1))),
        (heat_map.draw, HeatMap("h", name, "c", {name: pd.DataFrame([[0.5]], [name], [name])})),
    ]


def texts(source: str) -> list[str]:
    """The texts in an SVG."""
    found = ElementTree.fromstring(source).iter("{http://www.w3.org/2000/svg}text")
    return [(element.text or "").strip() for element in found]


@pytest.mark.parametrize("name", NAMES)
def test_names_stay_as_they_are_also_where_they_are_read_aloud(name: str) -> None:
    for (draw, figure), count in zip(named(name), (2, 2, 3), strict=True):
        source = svg(draw, figure)
        root = ElementTree.fromstring(source)
        assert texts(source).count(name) == count
        assert (root.get("role"), root.get("aria-label")) == ("img", name)
        assert root.get("onload") is None


@pytest.mark.parametrize("place", range(3))
def test_the_same_figure_gives_the_same_text(place: int) -> None:
    first, again, other = (svg(*named(name)[place]) for name in "aab")
    assert first == again != other


@pytest.mark.parametrize("name", ["n" * 500, "two\nlines", "word " * 100, ""])
def test_no_name_is_too_odd(name: str) -> None:
    for figure in named(name):
        assert "nan" not in svg(*figure).replace("n" * 10, "")


def test_nothing_is_drawn_without_panels() -> None:
    assert svg(densities.draw, Densities("d", "t", "c", {})) == ""


def test_width_of_text() -> None:
    """DejaVu Sans: "0" has 1303 of 2048 units, and a wide character is as wide as high."""
    assert text_width("0000", 8) == pytest.approx(4 * 1303 / 2048 * 8 / 72, rel=0.05)
    assert text_width("0\n0000", 8) == text_width("0000", 8)
    assert text_width("", 8) == 0
    assert text_width("中" * 10, 9) == pytest.approx(10 * 9 / 72)
