"""Bars with whiskers, and pairs beside the diagonal: what is drawn is what was given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from numpy.typing import NDArray

from farout.report.content import Bars, Scatter
from farout.report.figures import bars, scatter
from farout.report.figures.style import DISTINCT, style, svg

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>", '" onload="alert(1)', "]]></svg>", "it's", "&lt;b&gt;", "$x_$", "_hidden", "中文",
    'hover: <g id="hover: x">', '<path d="M 1.23456 2.34567 L 1.23456 2.34567 "/>',
]  # fmt: skip
ROWS = [("none", "none", 0.9, 0.88, 0.93), ("fog", "C", 0.4, 0.35, 0.5), ("flip", "A", 0.7125, 0.7, 0.75)]
Pairs = NDArray[np.float64]


def frame(rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["bar", "group", "value", "low", "high"])


def wide(count: int, prefix: str = "shift") -> pd.DataFrame:
    return frame([(f"{prefix} {n}", "C", n / count, n / count, n / count) for n in range(count)])


def barred(panels: dict[str, pd.DataFrame]) -> tuple[Figure, list[Axes]]:
    with style():
        canvas = bars.draw(Bars("b", "t", "c", panels, "AUROC"))
        canvas.draw_without_rendering()
    return canvas, [ax for ax in canvas.axes if ax.get_visible()]


def dotted(panels: dict[str, dict[str, Pairs]]) -> tuple[Figure, list[Axes]]:
    with style():
        canvas = scatter.draw(Scatter("s", "t", "c", panels, ("before", "after")))
        canvas.draw_without_rendering()
    return canvas, [ax for ax in canvas.axes if ax.get_visible()]


def boxes(ax: Axes) -> list[tuple[float, float, str]]:
    """Middle, end and color of every bar; all begin at 0."""
    found = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert all(box.get_x() == 0 for box in found)
    return [(box.get_y() + box.get_height() / 2, box.get_width(), to_hex(box.get_facecolor())) for box in found]


def data(line: Line2D) -> Pairs:
    return np.stack([np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)], 1)


def whiskers(ax: Axes) -> list[tuple[float, float, float]]:
    """Where and from where to where the level lines of the last line go."""
    parts = data(ax.lines[-1]).reshape(-1, 3, 2)[:, :2]
    return [(a[1], a[0], b[0]) for a, b in parts if a[1] == b[1] and a[0] == a[0]]


def titles(source: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(source).iter(f"{NS}title")]


def words(source: str) -> list[str]:
    return [(element.text or "").strip() for element in ElementTree.fromstring(source).iter(f"{NS}text")]


def entries(canvas: Figure) -> list[str]:
    (legend,) = canvas.legends
    return [text.get_text().strip() for text in legend.get_texts()]


def test_bars_are_the_values_and_whiskers_the_intervals() -> None:
    _, (ax,) = barred({"knn": frame(ROWS)})
    places, ends, _ = zip(*boxes(ax), strict=True)
    assert ends == (0.9, 0.4, 0.7125)
    np.testing.assert_allclose(places, ax.get_yticks())
    np.testing.assert_allclose(whiskers(ax), [(place, *row[3:]) for place, row in zip(places, ROWS, strict=True)])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["none", "fog", "flip"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first bar on top
    assert (ax.get_xlim(), ax.get_xlabel(), ax.get_title()) == ((0, 1), "AUROC", "knn")


def test_lines_at_chance_and_at_the_first_bar_pass_all_bars() -> None:
    _, (ax,) = barred({"knn": frame(ROWS)})
    chance, first = (data(line) for line in ax.lines[:2])
    assert set(chance[:, 0]) == {0.5}
    assert set(first[:, 0]) == {0.9}
    for line in (chance, first):
        assert line[:, 1].min() < boxes(ax)[0][0] < boxes(ax)[-1][0] < line[:, 1].max()
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()


def test_groups_have_a_color_each_in_all_panels_and_stand_apart() -> None:
    canvas, (first, second) = barred({"knn": frame([*ROWS[:2], ("snow", "C", 1, 1, 1), ROWS[2]]), "msp": frame(ROWS)})
    assert [color for *_, color in boxes(first)] == [DISTINCT[0], DISTINCT[1], DISTINCT[1], DISTINCT[2]]
    assert [color for *_, color in boxes(second)] == list(DISTINCT[:3])
    steps = np.diff([place for place, *_ in boxes(first)])
    assert steps[1] < steps[0] == pytest.approx(steps[2])
    assert entries(canvas) == ["none", "C", "A", "first bar", "chance"]


def test_whoever_points_at_a_bar_reads_its_value() -> None:
    source = svg(bars.draw, Bars("b", "t", "c", {"knn": frame([*ROWS, ("far", "A", 0.25, None, 0.5)])}, "AUROC"))
    assert titles(source) == [
        "none: 0.900 [0.880, 0.930]", "fog (C): 0.400 [0.350, 0.500]", "flip (A): 0.713 [0.700, 0.750]",
        "far (A): 0.250",
    ]  # fmt: skip


def test_bars_that_are_not_there() -> None:
    """No reference without the first value, a dash for a value, no whisker without both ends."""
    rows = [("none", "none", np.nan, np.nan, np.nan), ("fog", "C", 0.4, np.nan, 0.5), ("snow", "C", 0.3, 0.2, 0.4)]
    _, (ax, empty) = barred({"knn": frame(rows), "late": frame([])})
    assert [end for _, end, _ in boxes(ax)] == [0.4, 0.3]
    assert [low for _, low, _ in whiskers(ax)] == [0.2]
    assert np.isnan(data(ax.lines[1])[:, 0]).all()
    assert [(text.get_text(), text.get_position()[1]) for text in ax.texts] == [("–", 0)]
    assert (boxes(empty), len(empty.lines), [text.get_text() for text in empty.texts]) == ([], 0, ["no results yet"])


def test_names_of_bars_stand_once_in_a_row_of_panels_that_share_them() -> None:
    _, axes = barred({**{str(n): wide(4) for n in range(7)}, "other": wide(4, "other")})
    shown = [[text.get_text() for text in ax.get_yticklabels()] for ax in axes]
    lefts = [round(ax.get_position().x0, 3) for ax in axes]
    assert [any(names) for names in shown] == [left == min(lefts) for left in lefts[:7]] + [True]


@pytest.mark.parametrize(("count", "in_rows"), [(1, [1]), (5, [5]), (7, [4, 3])])
def test_panels_fill_rows_and_names_do_not_touch(count: int, in_rows: list[int]) -> None:
    canvas, axes = barred({f"detector {n}": wide(24) for n in range(count)})
    tops = [round(ax.get_position().y1, 3) for ax in axes]
    assert [tops.count(top) for top in dict.fromkeys(tops)] == in_rows
    boxes_of = [text.get_window_extent() for text in axes[0].get_yticklabels()]
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes_of))
    assert min(box.x0 for box in boxes_of) >= 0
    assert canvas.bbox.x1 >= max(ax.get_window_extent().x1 for ax in axes)


@pytest.mark.parametrize("name", [*HOSTILE, "n" * 500, "two\nlines", "W" * 40, "中" * 40, ""])
def test_names_are_texts_wherever_they_stand(name: str) -> None:
    """Long ones are cut in labels; whoever points at them reads them whole."""
    rows = frame([(name, "C", 0.5, 0.4, 0.6)])
    other = frame([("b", name, 0.5, 0.4, 0.6)])
    drawn = svg(bars.draw, Bars("b", name, "c", {name: rows, f"{name} ": other}, "AUROC"))
    assert titles(drawn) == [f"{name} (C): 0.500 [0.400, 0.600]", f"b ({name}): 0.500 [0.400, 0.600]"]
    dots = svg(scatter.draw, Scatter("s", name, "c", {name: {name: np.array([[0.5, 0.25]])}}, ("x", "y")))
    assert titles(dots) == [name, f"{name}: medians 0.500, 0.250"]
    for source, count in ((drawn, 4), (dots, 2)):
        assert ElementTree.fromstring(source).get("aria-label") == name.replace("\n", " ")  # as XML reads it
        elements = list(ElementTree.fromstring(source).iter())
        assert not [e for e in elements if e.tag == f"{NS}script" or e.get("onload")]
        if name and len(name) <= 24 and "\n" not in name:
            assert words(source).count(name) == count


def spots(source: str) -> list[Pairs]:
    """The dots of each shape in points."""
    paths = [element.get("d", "") for element in ElementTree.fromstring(source).iter(f"{NS}path")]
    return [np.array(re.findall(r"M([\d.]+) ([\d.]+)h0", path), float) for path in paths if "h0" in path]


def diagonal(source: str) -> tuple[Pairs, Pairs]:
    """The drawn places of (0, 0) and (1, 1)."""
    line, _ = [e for e in ElementTree.fromstring(source).iter(f"{NS}path") if "dasharray" in e.get("style", "")]
    numbers = np.array(re.findall(r"[\d.]+", line.get("d", "")), float)
    return numbers[:2], numbers[2:]


def test_every_pair_is_a_dot_at_its_place() -> None:
    """To the tenth of a point that dots are rounded to, read from the page itself; none is joined with another."""
    rng = np.random.default_rng(0)
    given = {"fog": rng.random((250, 2)), "snow": rng.random((120, 2)).round(1), "edge": np.array([[0.0, 1], [1, 0]])}
    source = svg(scatter.draw, Scatter("s", "t", "c", {"knn": given}, ("x", "y")))
    origin, one = diagonal(source)
    shapes = [(part - origin) / (one - origin) for part in spots(source)]
    fog, snow, edge = [shapes[0], shapes[3], shapes[5]], [shapes[1], shapes[4]], [shapes[2]]
    for parts, name in ((fog, "fog"), (snow, "snow"), (edge, "edge")):
        error = np.abs(np.concatenate(parts) - given[name]) * np.abs(one - origin)
        assert error.max() < 0.05 + 0.02  # half a tenth, and what the diagonal is rounded to
    assert titles(source)[:6] == ["fog", "snow", "edge", "fog", "snow", "fog"]


def test_medians_stand_beside_the_panel_at_their_height() -> None:
    groups = {"fog": np.array([[0.1, 0.5], [0.2, 0.6], [0.9, 0.7]]), "snow": np.array([[0.3, 0.2], [0.5, 0.4]])}
    _, (ax,) = dotted({"knn": groups})
    middle, fog, snow = (data(line) for line in ax.lines)
    assert middle.tolist() == [[0, 0], [1, 1]]
    assert (fog[0, 1], snow[0, 1]) == (0.6, pytest.approx(0.3))
    assert 1 < fog[0, 0] < snow[0, 0] < ax.get_xlim()[1]
    assert [to_hex(str(line.get_color())) for line in ax.lines[1:]] == list(DISTINCT[1:3])
    source = svg(scatter.draw, Scatter("s", "t", "c", {"knn": groups}, ("x", "y")))
    assert titles(source)[2:] == ["fog: medians 0.200, 0.600", "snow: medians 0.400, 0.300"]


@pytest.mark.parametrize("count", [1, 6, 7, 24, 42])
def test_no_two_groups_look_alike(count: int) -> None:
    names = [f"shift {n}" for n in range(count)]
    canvas, (ax, other) = dotted({"a": dict.fromkeys(names, np.full((1, 2), 0.5)), "b": {names[-1]: np.ones((1, 2))}})
    looks = [(str(line.get_color()), str(line.get_marker())) for line in ax.lines[1:]]
    assert len(set(looks)) == count
    assert len({color for color, _ in looks}) == min(count, 6) or count == 7
    assert (str(other.lines[1].get_color()), str(other.lines[1].get_marker())) == looks[-1]
    assert entries(canvas) == [*names, "equal", "at the right: medians"]


def test_pairs_that_are_not_there() -> None:
    half = np.array([[0.5, np.nan], [0.25, 0.75], [np.inf, 0.5]])
    panels = {"a": {"fog": half, "snow": np.empty((0, 2))}, "b": {"fog": np.full((2, 2), np.nan)}, "c": {}}
    _, (ax, *rest) = dotted(panels)
    (dots,) = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    np.testing.assert_allclose(dots.get_path().vertices, [[0.25, 0.75]] * 2, atol=1e-8)
    assert len(ax.lines) == 2
    assert [[text.get_text() for text in other.texts] for other in rest] == [["no results yet"]] * 2
    assert "nan" not in svg(scatter.draw, Scatter("s", "t", "c", panels, ("x", "y"))).lower()


def test_axes_are_named_at_the_outer_panels() -> None:
    _, axes = dotted({name: {"fog": np.full((1, 2), 0.5)} for name in "abcd"})
    assert [ax.get_ylabel() for ax in axes] == ["after", "", "", "after"]
    assert [ax.get_xlabel() for ax in axes] == ["", "before", "before", "before"]
    for ax in axes:
        assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "0.5", "1"]
        unit = np.diff(ax.transData.transform([[0, 0], [1, 1]]), axis=0)[0]
        assert unit[0] == pytest.approx(unit[1])


def test_many_dots_take_little_room() -> None:
    """As many characters as two numbers of a digit after the point need; all else less than as much again."""
    rng = np.random.default_rng(0)
    groups = {f"shift {n}": rng.random((300, 2)) for n in range(24)}
    source = svg(scatter.draw, Scatter("s", "t", "c", {"knn": groups}, ("x", "y")))
    assert sum(map(len, spots(source))) == 7200
    dots = sum(map(len, re.findall(r"M[\d.]+ [\d.]+h0", source)))
    assert dots <= len("M123.4 567.8h0") * 7200
    assert len(source) < 2 * dots


def seen(color: str, matrix: list[list[float]]) -> Pairs:
    """CIELAB of a color as people see it whom this matrix describes."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(matrix) @ linear, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(
    "matrix",
    [
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ],
    ids=["all", "protanopia", "deuteranopia", "tritanopia"],
)
def test_color_blind_people_can_tell_the_groups_apart(matrix: list[list[float]]) -> None:
    """Machado et al. 2009, full severity; a difference of 2.3 is just noticeable, small areas need some times that."""
    colors = [seen(color, matrix) for color in DISTINCT]
    assert min(np.linalg.norm(a - b) for a, b in combinations(colors, 2)) > 5 * 2.3
