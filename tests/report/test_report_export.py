"""Exports: tables with all digits, figures as valid files, names that stay in their folder."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from farout.report.charts import Palette
from farout.report.content import (
    COUNT,
    INTERVAL,
    LABEL,
    Column,
    Densities,
    Document,
    HeatMap,
    Scatter,
    Scores,
    Summary,
    Table,
)
from farout.report.export import export, ordered
from helpers.report_pages import figures

LINES = [
    {Column("detector", LABEL): "<script>", Column("n", COUNT): 3, Column("auroc", INTERVAL): (1 / 3, 0.1, 0.9)},
    {Column("detector", LABEL): "b", Column("n", COUNT): "", Column("auroc", INTERVAL): (0.5, 0.25, 0.75)},
]


@pytest.fixture
def document():
    figure = Densities("../<a>/b", "title", "caption", {"a": Scores(np.arange(9.0), {"near": np.arange(5.0)})})
    return Document("run", "quick", {"clean": Summary("title", [Table("clean", "t", "c", LINES)], [figure])}, 1)


def test_parquet_holds_every_digit(tmp_path, document):
    (path,) = export(document, tmp_path, ["parquet"])
    frame = pd.read_parquet(path)
    assert frame["auroc"].tolist() == [1 / 3, 0.5]
    assert frame["detector"].tolist() == ["<script>", "b"]
    assert frame["n"].tolist() == ["3", ""]


def test_figures_are_files_of_their_kind_in_the_folder(tmp_path, document):
    paths = export(document, tmp_path, ["png", "svg", "pdf"])
    assert [path.read_bytes()[:4] for path in paths] == [b"\x89PNG", b"<svg", b"%PDF"]
    assert all(path.resolve().parent == tmp_path / "figures" for path in paths)


@pytest.mark.parametrize("shown", figures("alpha"), ids=lambda shown: shown.name)
def test_every_kind_of_figure_is_a_picture_with_ink_in_every_format(tmp_path, shown, monkeypatch):
    monkeypatch.setattr("farout.report.export.DPI", 50)
    document = Document("run", "quick", {"clean": Summary("title", [], [shown])}, 1)
    png, svg, pdf = export(document, tmp_path, ["png", "svg", "pdf"])
    with Image.open(png) as image:
        colors = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colors, axis=0)) > 20  # more than axes and letters in gray
    assert svg.read_text().endswith("</svg>\n")
    assert pdf.read_bytes().rstrip().endswith(b"%%EOF")


def test_the_dots_of_a_scatter_plot_are_seen(tmp_path):
    """Lines without length are dots with round ends, except where a renderer leaves them out."""

    def dark(pairs):
        scatter = Scatter("s", "t", "c", {"a": {"near": np.array(pairs)}}, ("x", "y"))
        (png,) = export(Document("run", "quick", {"clean": Summary("t", [], [scatter])}, 1), tmp_path, ["png"])
        with Image.open(png) as image:
            return int((np.asarray(image.convert("L")) < 200).sum())

    spread = [[place / 10, 0.5 - place / 30] for place in range(10)]
    assert dark(spread) - dark([[0.45, 0.35]] * 10) > 9 * 100  # ten dots, not one, of more than 100 pixels each


def test_panels_and_rows_of_detectors_are_in_the_order_of_the_page():
    frame = pd.DataFrame([[0.1], [0.2], [0.3]], ["c", "a", "b"], ["x"])
    found = ordered(HeatMap("h", "t", "c", {"p": frame}), Palette(["a", "b", "c"]))
    assert list(found.panels["p"].index) == ["a", "b", "c"]
    assert found.panels["p"]["x"].tolist() == [0.2, 0.3, 0.1]


def test_an_unknown_format_is_an_error_that_lists_the_known_ones(tmp_path, document):
    with pytest.raises(ValueError, match="cannot export 'gif'; the formats are parquet, png, svg, pdf"):
        export(document, tmp_path, ["png", "gif"])
    assert not list(tmp_path.iterdir())
