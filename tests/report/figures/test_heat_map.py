"""Heat maps: colors and words of cells, labels, and the places of panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from farout.report.content import HeatMap
from farout.report.figures import heat_map
from farout.report.figures.style import WIDTH, style

DETECTORS = [f"detector {n}" for n in range(13)]
NETWORKS = [f"a network {n}" for n in range(10)]
LONG = "a label of forty characters &lt; $x_$ ünï"


def drawn(panels: dict[str, pd.DataFrame]) -> tuple[Figure, list[Axes], Axes]:
    """The canvas, its panels and its color bar."""
    with style():
        canvas = heat_map.draw(HeatMap("h", "t", "c", panels))
        canvas.draw_without_rendering()
    *panel_axes, bar = canvas.axes
    return canvas, panel_axes, bar


def frame(rows: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    values = np.linspace(0, 1, len(rows) * len(columns)).reshape(len(rows), len(columns))
    return pd.DataFrame(values, list(rows), list(columns))


def words(ax: Axes) -> dict[tuple[float, float], str]:
    """By column and row."""
    return {(x - 0.5, y - 0.5): text.get_text() for text in ax.texts for x, y in [text.get_position()]}


def fills(ax: Axes) -> list[str]:
    """The cells' colors, row by row from the top."""
    (mesh,) = [found for found in ax.collections if isinstance(found, QuadMesh)]
    return [to_hex(color) for color in np.asarray(mesh.get_facecolor()).reshape(-1, 4)]


def labels(ax: Axes) -> tuple[list[str], list[str]]:
    """Of rows and columns."""
    return [t.get_text() for t in ax.get_yticklabels()], [t.get_text() for t in ax.get_xticklabels()]


def inches(canvas: Figure, ax: Axes) -> tuple[float, float, float, float]:
    """Left, bottom, right, top."""
    box = ax.get_window_extent()
    return box.x0 / canvas.dpi, box.y0 / canvas.dpi, box.x1 / canvas.dpi, box.y1 / canvas.dpi


def luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_cell_has_its_value() -> None:
    values = pd.DataFrame([[0.0, 0.014, 0.5], [0.996, 1.0, np.nan]], ["MSP", "KNN"], ["a", "b", "c"])
    _, (ax,), _ = drawn({"scenario": values})
    assert words(ax) == {
        (0, 0): "0.00", (1, 0): "0.01", (2, 0): "0.50",
        (0, 1): "1.00", (1, 1): "1.00", (2, 1): "–",
    }  # fmt: skip
    assert labels(ax) == (["MSP", "KNN"], ["a", "b", "c"])
    assert ax.get_ylim() == (2, 0)
    assert ax.get_title(loc="left") == "scenario"


def test_colors_part_at_chance() -> None:
    """ColorBrewer's RdBu, which color-blind people can read."""
    _, (ax,), _ = drawn({"": pd.DataFrame([[0, 0.5, 1, np.nan, 0.4, 0.6]], ["x"], list("abcdef"))})
    worst, chance, best, missing, below, above = map(to_rgb, fills(ax))
    assert (to_hex(worst), to_hex(best), to_hex(missing)) == ("#67001f", "#053061", "#e3e6ea")
    assert min(chance) > 0.95
    assert below[0] > below[2]
    assert above[2] > above[0]


def test_cells_that_are_alike_have_one_color_in_all_panels() -> None:
    _, (first, second), _ = drawn({"a": frame("x", "pq"), "b": pd.DataFrame([[0.0, 0.0]], ["x"], ["p", "q"])})
    assert fills(first)[0] == fills(second)[0] == fills(second)[1]


def test_values_can_be_read_on_their_colors() -> None:
    """A contrast of 4.5, as WCAG asks for."""
    _, (ax,), _ = drawn({"": pd.DataFrame(np.linspace(0, 1, 101)[None])})
    inks = [str(text.get_color()) for text in ax.texts]
    assert (inks[0], inks[50], inks[100]) == ("white", "black", "white")
    for fill, ink in zip(fills(ax), inks, strict=True):
        dark, light = sorted([luminance(fill), luminance(ink)])
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_missing_value_is_gray_with_a_dark_dash() -> None:
    _, (ax,), _ = drawn({"": pd.DataFrame([[np.nan]], ["x"], ["a"])})
    assert [(text.get_text(), text.get_color()) for text in ax.texts] == [("–", "black")]
    assert fills(ax) == ["#e3e6ea"]


def test_the_bar_says_what_the_colors_mean() -> None:
    _, (ax,), bar = drawn({"": pd.DataFrame([[0, 1]], ["x"], ["a", "b"])})
    assert bar.get_xlabel() == "AUROC, 0.5 is chance"
    assert labels(bar) == ([], ["0", "0.5", "1"])
    assert bar.get_xlim() == (0, 1)
    for end, cell in zip((fills(bar)[0], fills(bar)[-1]), fills(ax), strict=True):
        np.testing.assert_allclose(to_rgb(end), to_rgb(cell), atol=0.06)


def test_labels_of_rows_stand_once_beside_panels_that_share_them() -> None:
    same, other = frame(["r", "s"], ["a"]), frame(["s", "r"], ["a"])
    _, axes, _ = drawn({"1": same, "2": same, "3": other, "4": other})
    assert [labels(ax)[0] for ax in axes] == [["r", "s"], ["", ""], ["s", "r"], ["", ""]]


@pytest.mark.parametrize(("label", "rotation"), [("a", 0), ("r18", 0), ("resnet18", 45), (LONG, 45)])
def test_long_labels_of_columns_are_turned(label: str, rotation: float) -> None:
    _, axes, _ = drawn({"1": frame("x", [label, "b"]), "2": frame("x", ["b"])})
    assert [text.get_rotation() for ax in axes for text in ax.get_xticklabels()] == [rotation] * 3


@pytest.mark.parametrize(
    ("shape", "number", "in_rows"),
    [((13, 10), 3, [3]), ((2, 1), 1, [1]), ((13, 5), 4, [4]), ((2, 2), 7, [4, 3]), ((2, 20), 3, [1, 1, 1]),
     ((2, 2), 5, [3, 2]), ((2, 10), 4, [2, 2])],
)  # fmt: skip
def test_panels_fill_rows_of_the_page(shape: tuple[int, int], number: int, in_rows: list[int]) -> None:
    columns = [f"a network {n}" for n in range(shape[1])]
    canvas, axes, bar = drawn({str(n): frame(DETECTORS[: shape[0]], columns) for n in range(number)})
    tops = [round(inches(canvas, ax)[3], 3) for ax in axes]
    assert [tops.count(top) for top in dict.fromkeys(tops)] == in_rows
    assert tops == sorted(tops, reverse=True)
    assert canvas.get_figwidth() <= WIDTH
    assert inches(canvas, bar)[3] < min(inches(canvas, ax)[1] for ax in axes)


def test_cells_have_one_size() -> None:
    for shape in ((2, 1), (13, 10), (1, 60)):
        rows, columns = map(str, range(shape[0])), map(str, range(shape[1]))
        canvas, (ax,), _ = drawn({"": frame(list(rows), list(columns))})
        left, bottom, right, top = inches(canvas, ax)
        assert (right - left) / shape[1] == pytest.approx(heat_map.CELL)
        assert (top - bottom) / shape[0] == pytest.approx(heat_map.LINE)


@pytest.mark.parametrize("label", ["a", "W" * 40, LONG])
def test_nothing_is_cut_off_and_nothing_overlaps(label: str) -> None:
    """Neither at the canvas' edges nor, for cells, by the labels of another panel."""
    tall, small = frame([label, *DETECTORS], [label, "b"]), frame(["x"], [label])
    canvas, axes, bar = drawn({label: tall, "2": tall, "3": small, f"{label} ": small})
    texts = [[*ax.get_xticklabels(), *ax.get_yticklabels(), ax.title, ax._left_title] for ax in axes]  # type: ignore[attr-defined]
    for ax, own in zip(axes, texts, strict=True):
        for text in own:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= bar.get_window_extent().y1
            assert box.x1 <= canvas.bbox.x1
            assert box.y1 <= canvas.bbox.y1
        turned = min(text.get_window_extent().x0 for text in own[: ax.get_xticks().size])
        for other in axes:
            cells = other.get_window_extent()
            beside = cells.x1 <= ax.get_window_extent().x0 and cells.y1 == ax.get_window_extent().y1
            assert not beside or cells.height <= ax.get_window_extent().height or turned >= cells.x1


def test_values_of_any_type() -> None:
    """Whole numbers, and objects where pandas was not sure."""
    odd = pd.DataFrame([[1, None], [0, 0.5]], ["x", "y"], [10, 20], dtype=object)
    _, (ax,), _ = drawn({"": odd})
    assert list(words(ax).values()) == ["1.00", "–", "0.00", "0.50"]
    assert labels(ax)[1] == ["10", "20"]


def test_frames_without_rows_or_columns() -> None:
    _, axes, _ = drawn({"a": pd.DataFrame(columns=["c"]), "b": pd.DataFrame(index=["r"]), "c": frame("r", "c")})
    assert [list(words(ax).values()) for ax in axes] == [[], [], ["0.00"]]
