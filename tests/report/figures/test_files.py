"""Every kind of figure is written for print, as SVG that parsers accept."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from farout.report.figures.files import DRAW, write_figures
from helpers.report_pages import figures, report


@pytest.mark.parametrize("name", ["alpha", '<b>"&'])
def test_a_file_per_figure(tmp_path: Path, name: str) -> None:
    paths = write_figures(report(name), tmp_path / "figures")
    assert {type(figure) for figure in figures(name)} == set(DRAW)
    assert [path.name for path in paths] == [f"first_{number}.svg" for number in range(len(DRAW))]
    for path, figure in zip(paths, figures(name), strict=True):
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.get("aria-label") == figure.title
        assert name in "".join(root.itertext())
