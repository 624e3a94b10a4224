"""Draws docs/corruptions_32.png and docs/corruptions_224.png: all corruptions at all severities, and the augmentations.

Run it after a shift has changed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from farout.shifts.choosing import PUBLISHED
from PIL import Image, ImageDraw, ImageFont

import farout
from farout.data.writing.layout import common_label
from farout.shifts.corruption import SEVERITIES

CELL, GAP, LEFT, TOP = 96, 4, 128, 28
SCENE = 4
"""The image of SHAPES that is shown."""
FONT = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 12)


def sheet(side: int) -> Image.Image:
    """A row per corruption, a column per severity after the image as it is; the augmentations in the last row."""
    clean = farout.load("shapes", "val", side=side).batch([SCENE])
    rows = [[farout.shift(name, severity=severity) for severity in SEVERITIES] for name in PUBLISHED["C"]]
    last = [clean, *(farout.shift(name)(clean) for name in PUBLISHED["A"])]
    columns = len(SEVERITIES) + 1
    page = Image.new("RGB", (LEFT + columns * (CELL + GAP), 2 * TOP + (len(rows) + 1) * (CELL + GAP)), "white")
    pen = ImageDraw.Draw(page)
    _head(pen, 0, ["as it is", *(f"severity {severity}" for severity in SEVERITIES)])
    for place, shifts in enumerate(rows):
        title = common_label([shift.label for shift in shifts])
        _row(page, pen, TOP + place * (CELL + GAP), title, [clean, *(shift(clean) for shift in shifts)])
    y = TOP + len(rows) * (CELL + GAP)
    _head(pen, y, ["as it is", *PUBLISHED["A"]])
    _row(page, pen, y + TOP, "augmentations", last)
    return page


def _head(pen: ImageDraw.ImageDraw, y: int, words: list[str]) -> None:
    for place, word in enumerate(words):
        pen.text((LEFT + place * (CELL + GAP) + CELL / 2, y + TOP / 2), word, "black", FONT, anchor="mm")


def _row(page: Image.Image, pen: ImageDraw.ImageDraw, y: int, title: str, images: list[object]) -> None:
    pen.text((LEFT - 8, y + CELL / 2), title, "black", FONT, anchor="rm")
    for place, image in enumerate(images):
        pixels = np.asarray(image)[0].transpose(1, 2, 0)
        shown = Image.fromarray((pixels * 255).round().astype(np.uint8))
        way = Image.Resampling.NEAREST if shown.width < CELL else Image.Resampling.LANCZOS
        page.paste(shown.resize((CELL, CELL), way), (LEFT + place * (CELL + GAP), y))


if __name__ == "__main__":
    for side in (32, 224):
        sheet(side).save(Path(__file__).with_name(f"corruptions_{side}.png"), optimize=True)
