"""Exports: tables with all digits, figures as valid files, names that stay in their folder."""

import numpy as np
import pandas as pd
import pytest

from farout.report.content import COUNT, INTERVAL, LABEL, Column, Densities, Document, Scores, Summary, Table
from farout.report.export import export

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


def test_an_unknown_format_is_an_error_that_lists_the_known_ones(tmp_path, document):
    with pytest.raises(ValueError, match="cannot export 'gif'; the formats are parquet, png, svg, pdf"):
        export(document, tmp_path, ["png", "gif"])
    assert not list(tmp_path.iterdir())
