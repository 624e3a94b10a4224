"""Charts: order, colors and values of what the page draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from farout.report.charts import CHARTS, Palette
from farout.report.charts.panels import rounded, short
from farout.report.content import Bars, Densities, HeatMap, Scores
from farout.report.shades import SCALE, contrast, shade
from farout.report.views.parts import lead
from helpers.report_pages import figures

PALETTE = ["c", "a", "b"]


def test_detectors_have_one_order_in_all_figures() -> None:
    palette, scores = Palette(PALETTE), Scores(np.arange(4.0), {"far": np.arange(4.0)})
    panels = CHARTS[Densities](Densities("d", "t", "c", dict.fromkeys("abc", scores)), palette).panels
    assert [panel.title for panel in panels] == PALETTE
    square = pd.DataFrame(np.eye(3), list("abc"), list("abc"))
    (panel,) = CHARTS[HeatMap](HeatMap("h", "t", "c", {"p": square}), palette).panels
    assert (panel.layout["xaxis"]["ticktext"], panel.layout["yaxis"]["ticktext"]) == (PALETTE, PALETTE)
    assert panel.traces[0]["z"] == np.eye(3).tolist()
    assert palette.ordered(["other", "b · mh", "c on net"]) == ["c on net", "b · mh", "other"]


def test_a_name_has_one_color_in_all_figures_and_names_of_a_figure_differ() -> None:
    palette = Palette()
    first = palette.colors(["near", "far"])
    assert palette.colors(["far", "new"])["far"] == first["far"]
    many = [f"set {number}" for number in range(11)]
    assert len(set(palette.colors(many).values())) == 11
    assert palette.colors(["near"]) == {"near": first["near"]}


def test_bars_have_their_values_and_intervals() -> None:
    frame = pd.DataFrame({"bar": ["x", "y"], "group": "g", "value": [0.5, np.nan], "low": [0.4, np.nan], "high": 0.75})
    (panel,) = CHARTS[Bars](Bars("b", "t", "c", {"p": frame}, "AUROC"), Palette()).panels
    (trace,) = panel.traces
    assert (trace["x"], trace["error_x"]["array"], trace["error_x"]["arrayminus"]) == (
        [0.5, None],
        [0.25, None],
        [0.1, None],
    )
    assert trace["hovertext"] == ["x (g): 0.500 [0.400, 0.750]", "y (g): –"]


def test_every_kind_has_a_chart() -> None:
    assert {type(figure) for figure in figures("a")} == set(CHARTS)
    for figure in figures("a"):
        assert CHARTS[type(figure)](figure, Palette()).panels[0].traces


@pytest.mark.parametrize("value", np.linspace(0, 1, 101))
def test_text_on_the_color_scale_is_readable(value: float) -> None:
    ground, ink = (tuple(int(color[place : place + 2], 16) for place in (1, 3, 5)) for color in shade(value))
    assert contrast(ground, ink) >= 4.5  # type: ignore[arg-type]


def test_the_color_scale() -> None:
    assert [shade(value)[0] for value in (0, 0.5, 1)] == ["#{:02x}{:02x}{:02x}".format(*SCALE[i]) for i in (0, 2, 4)]


def test_numbers_and_labels() -> None:
    assert rounded([1 / 3, np.nan, np.inf, 12345.6]) == [0.3333, None, None, 12350.0]
    assert short("<" + "x" * 40) == "&lt;" + "x" * 32 + "…"


def test_the_lead_of_a_caption_tells_the_direction() -> None:
    assert lead("AUROC of things, 95 % interval. More. Higher is better: 1 is ideal.") == (
        "AUROC of things, 95 % interval. Higher is better: 1 is ideal."
    )
    assert lead("Lower is better. More.") == "Lower is better."
    assert lead("Nothing.") == "Nothing."
