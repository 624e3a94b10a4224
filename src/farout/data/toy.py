"""TOY: one bright shape on a soft background. A small rendered set for demonstrations and tests; no download."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from farout.data.procedural import Generated, Pixels, check_at_least
from farout.identity import Json
from farout.registry import unknown
from farout.rng import numpy_generator

Floats = NDArray[np.floating]

INLIERS = ("disc", "square", "triangle", "cross")
NOVEL = ("ring", "star", "crescent")
SPLITS = {"train": 4000, "val": 500, "test": 1000}
OUTLIER_SPLITS = {"test/ood_cls": 1000, "test/ood_pair": 1000, "test/ood_empty": 1000}

_COLORS, _WAVES, _SHAPE = 7, 8, 4
_PARAMS = _COLORS + _WAVES + 2 * _SHAPE


class Toy(Generated):
    """Rendered images of one shape of random color, size, position and rotation on a soft, grainy background.

    Classes: disc, square, triangle, cross; image i shows class i mod 4. Splits: "train" (4,000), "val" (500), "test"
    (1,000), and three outlier splits without labels (1,000 each), hardest first: "test/ood_cls" (one ring, star or
    crescent, all else alike), "test/ood_pair" (two smaller inlier shapes of different classes) and "test/ood_empty"
    (the background alone). `side` is the width in pixels.
    """

    version = 1

    def __init__(self, split: str = "test", *, side: int = 32) -> None:
        sizes = SPLITS | OUTLIER_SPLITS
        if not isinstance(split, str) or split not in sizes:
            raise unknown("split of 'toy':", split, sizes)
        side = check_at_least(side, 8, "toy: side")
        self.name = "toy" if split in SPLITS else f"toy/{split.split('/')[1]}"
        self.split, self.shape, self.total = split, (3, side, side), sizes[split]
        self.labels = np.arange(self.total) % len(INLIERS) if split in SPLITS else None
        self.classes = INLIERS if split in SPLITS else ()

    def draw(self, indices: NDArray[np.int64]) -> Pixels:
        side = self.shape[1]
        rngs = (numpy_generator(0, "toy", self.split, int(index)) for index in indices)
        numbers = np.stack([rng.random(_PARAMS + side * side, np.float32) for rng in rngs])
        colors, waves, shapes, grain = np.split(numbers, [_COLORS, _COLORS + _WAVES, _PARAMS], axis=1)
        grain = grain.reshape(-1, side, side) - 0.5
        mask = self._mask(indices, shapes.reshape(-1, 2, _SHAPE), side)
        return _paint(mask, _soft(waves, side), grain, colors)

    def _mask(self, indices: NDArray[np.int64], shapes: Floats, side: int) -> Floats:
        """Return the fraction of every pixel that the figure covers, [B, side, side]."""
        match self.split:
            case "test/ood_empty":
                return np.zeros((len(indices), side, side), np.float32)
            case "test/ood_pair":
                return _pair(shapes, indices, side)
            case "test/ood_cls":
                return _single(shapes[:, 0], indices % len(NOVEL), NOVEL, side)
        return _single(shapes[:, 0], indices % len(INLIERS), INLIERS, side)

    def identity(self) -> Json:
        return {"name": "toy", "version": self.version, "split": self.split, "side": self.shape[1]}


def _grid(side: int) -> tuple[Floats, Floats]:
    """Return x and y of the pixel centers in [-1, 1], as [1, 1, side] and [1, side, 1]."""
    line = np.linspace(1 / side - 1, 1 - 1 / side, side, dtype=np.float32)
    return line[None, None, :], line[None, :, None]


def _single(numbers: Floats, kinds: NDArray[np.int64], names: tuple[str, ...], side: int) -> Floats:
    x, y, size, angle = numbers.T
    radius = 0.42 + 0.28 * size
    reach = 0.95 - radius
    return _cover((reach * (2 * x - 1), reach * (2 * y - 1)), radius, angle, kinds, names, side)


def _pair(numbers: Floats, indices: NDArray[np.int64], side: int) -> Floats:
    """Return the coverage of two shapes of different classes on opposite sides of the center."""
    turn = 2 * np.pi * numbers[:, 0, 0]
    x, y = 0.5 * np.cos(turn), 0.5 * np.sin(turn)
    others = (indices + 1 + indices // 4 % 3) % len(INLIERS)
    shapes = ((x, y, numbers[:, 0], indices % len(INLIERS)), (-x, -y, numbers[:, 1], others))
    covers = [_cover((x, y), 0.3 + 0.15 * n[:, 2], n[:, 3], kinds, INLIERS, side) for x, y, n, kinds in shapes]
    return np.maximum(*covers)


def _cover(
    place: tuple[Floats, Floats],
    radius: Floats,
    angle: Floats,
    kinds: NDArray[np.int64],
    names: tuple[str, ...],
    side: int,
) -> Floats:
    """Return the anti-aliased coverage of one shape per image, from its signed distance; `angle` is in turns."""
    column = (slice(None), None, None)
    grid_x, grid_y = _grid(side)
    x, y = grid_x - place[0][column], grid_y - place[1][column]
    turn = 2 * np.pi * angle
    cos, sin = (np.cos(turn) / radius)[column], (np.sin(turn) / radius)[column]
    x, y = cos * x + sin * y, cos * y - sin * x
    distance = np.empty(x.shape, np.float32)
    for kind, name in enumerate(names):
        selected = kinds == kind
        distance[selected] = SHAPES[name](x[selected], y[selected])
    cover: Floats = np.clip(0.5 - distance * (radius * (side / 2))[column], 0, 1)
    return cover


def _soft(numbers: Floats, side: int) -> Floats:
    """Return a slow ripple in about [-1, 1]: two crossing waves."""
    grid_x, grid_y = _grid(side)
    ripple = np.zeros((len(numbers), side, side), np.float32)
    for wave in (numbers[:, :4], numbers[:, 4:8]):
        fx, fy, phase, strength = (column[:, None, None] for column in wave.T)
        ripple += (0.3 + 0.2 * strength) * np.sin(4 * (2 * fx - 1) * grid_x + 4 * (2 * fy - 1) * grid_y + 6.28 * phase)
    return ripple


def _paint(mask: Floats, ripple: Floats, grain: Floats, numbers: Floats) -> Pixels:
    """Paint the figure in a bright color over a muted background of another hue."""
    hue, saturation, light, apart, muted, dark, shade = (column[:, None, None] for column in numbers.T)
    front = _rgb(hue, 0.65 + 0.3 * saturation, 0.8 + 0.2 * light + 0.06 * ripple)
    back = _rgb(hue + 0.3 + 0.4 * apart, 0.2 + 0.3 * muted, 0.3 + 0.25 * dark + (0.1 + 0.08 * shade) * ripple)
    image = back + mask[:, None] * (front - back) + 0.1 * grain[:, None]
    return (np.clip(image, 0, 1) * 255).round().astype(np.uint8)


def _rgb(hue: Floats, saturation: Floats, value: Floats) -> Floats:
    """Return red, green and blue of a hue in turns, [B, 3, H, W]."""
    ramps = [np.clip(np.abs(6 * np.mod(hue + turn, 1) - 3) - 1, 0, 1) for turn in (0, 2 / 3, 1 / 3)]
    return np.stack([value * (1 - saturation + saturation * ramp) for ramp in ramps], 1)


def _planes(x: Floats, y: Floats, sides: int) -> Floats:
    """Return the signed distance to each side's line of a regular polygon through the center, [sides, ...]."""
    turns = 2 * np.pi * np.arange(sides, dtype=np.float32) / sides
    return np.stack([np.cos(turn) * x + np.sin(turn) * y for turn in turns])


def _box(x: Floats, y: Floats, width: float, height: float) -> Floats:
    return np.maximum(np.abs(x) - width, np.abs(y) - height)


SHAPES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "disc": lambda x, y: np.hypot(x, y) - 0.8,
    "square": lambda x, y: _box(x, y, 0.7, 0.7),
    "triangle": lambda x, y: _planes(x, y, 3).max(0) - 0.5,
    "cross": lambda x, y: np.minimum(_box(x, y, 0.95, 0.3), _box(x, y, 0.3, 0.95)),
    "ring": lambda x, y: np.abs(np.hypot(x, y) - 0.7) - 0.2,
    "star": lambda x, y: np.sort(_planes(x, y, 5), 0)[-2] - 0.34,
    "crescent": lambda x, y: np.maximum(np.hypot(x, y) - 0.95, 0.75 - np.hypot(x - 0.5, y)),
}
"""Signed distance of a point to each shape, negative inside; every shape fits into the circle of radius 1.1."""
