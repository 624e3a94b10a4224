"""Draws docs/shapes.png and docs/chars.png: every class in every hue. Run it after the renderer has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from farout.data.scenes.configurations import Configurations
from farout.data.scenes.sampling import sample
from farout.data.scenes.worlds import INLIER_HUES, OUTLIER_HUES, WORLDS, World
from farout.data.shapes_chars import Drawn

SIDE, GAP, LEFT, TOP = 56, 14, 108, 40
HUES = (*INLIER_HUES, *OUTLIER_HUES)
FONT = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 12)


def sheet(world: World) -> Image.Image:
    """A row per class, a column per hue; inliers apart from outliers."""
    classes = (*world.inliers, *world.outliers)
    rows = [row for name in classes for row in _rows(world, name)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    images = Drawn(Configurations(columns), "sheet", side=SIDE).batch(np.arange(len(rows))).mul(255).round().byte()
    return _framed(images.permute(0, 2, 3, 1).numpy().reshape(len(classes), len(HUES), SIDE, SIDE, 3), world, classes)


def _rows(world: World, name: str) -> list[dict[str, Any]]:
    """One configuration of the class per hue, in the middle of the image."""
    shift = frozenset({"class"}) if name in world.outliers else frozenset[str]()
    columns = sample(world, "contact sheet", 1000, 1, shift).columns
    chosen = np.flatnonzero(columns["class"] == name)[: len(HUES)]
    plain = ({key: values[row] for key, values in columns.items()} for row in chosen)
    return [{**row, "hue": hue, "x": 0, "y": 0} for row, hue in zip(plain, HUES, strict=True)]


def _framed(cells: np.ndarray, world: World, classes: tuple[str, ...]) -> Image.Image:
    rows, columns = cells.shape[:2]
    page = Image.new("RGB", (LEFT + columns * SIDE + GAP, TOP + rows * SIDE + GAP), "white")
    pen = ImageDraw.Draw(page)
    x = [LEFT + i * SIDE + GAP * (i >= len(INLIER_HUES)) for i in range(columns)]
    y = [TOP + i * SIDE + GAP * (i >= len(world.inliers)) for i in range(rows)]
    pen.text((x[0], 4), "inlier hues", "black", FONT)
    pen.text((x[len(INLIER_HUES)], 4), "outlier hues", "black", FONT)
    for i, hue in enumerate(HUES):
        pen.text((x[i] + SIDE / 2, TOP - 10), f"{hue}°", "black", FONT, anchor="mm")
    for j, name in enumerate(classes):
        pen.text((LEFT - 8, y[j] + SIDE / 2), name, "black" if name in world.inliers else "#b3261e", FONT, anchor="rm")
        for i in range(columns):
            page.paste(Image.fromarray(cells[j, i]), (x[i], y[j]))
    return page


if __name__ == "__main__":
    for name, world in WORLDS.items():
        sheet(world).save(Path(__file__).with_name(f"{name}.png"), optimize=True)
