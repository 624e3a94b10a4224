"""Letters and digits of a font as signed distance fields, in units of the font size (em)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farout.data.scenes.scene import GLYPHS

Floats = NDArray[np.float64]

CELLS = 96
"""Number of cells of the distance grid per em."""
COLUMNS, ROWS = 97, 121
"""Number of points of the grid, which is centered on a letter's ink."""
HULL = 64
"""Number of points of a letter's convex hull: the farthest in as many directions."""
PIECES = 16
"""Number of line segments per curve of the outline."""


class Letters(NamedTuple):
    """Distance fields of all letters of a font, and their hash."""

    atlas: NDArray[np.float32]
    digest: str


def atlas(font: Path | None = None) -> NDArray[np.float32]:
    """Return one row per letter: x, then y of its hull's points, then its distances; [20, 2·HULL + ROWS·COLUMNS].

    `font` is a TrueType file; None is DejaVu Sans Mono, which is part of matplotlib.
    """
    return _letters(*_state(font)).atlas


def digest(font: Path | None = None) -> str:
    """Return a hash of the distance fields of this font."""
    return _letters(*_state(font)).digest


def outline(face: Any, character: str) -> Floats:
    """Return the line segments of a letter's outline, in em about the center of its ink, [N, 2 (ends), 2 (x, y)]."""
    from matplotlib.ft2font import LoadFlags

    if not face.get_char_index(ord(character)):
        raise ValueError(f"the font {face.fname} has no {character!r}; expected a font with all of {''.join(GLYPHS)}")
    face.load_char(ord(character), flags=LoadFlags.NO_SCALE)
    vertices, codes = face.get_path()
    pieces = _straight(vertices * (64 / face.units_per_EM), codes)
    low, high = pieces.min((0, 1)), pieces.max((0, 1))
    if ((high - low) * CELLS > (COLUMNS - 3, ROWS - 3)).any():
        raise ValueError(f"{character!r} of the font {face.fname} is larger than its line; use another font")
    centered: Floats = pieces - (low + high) / 2
    return centered


def _state(font: Path | None) -> tuple[Path, int, int, int]:
    """Return a font's path, size and modification times, which change when the file is replaced."""
    path = _default() if font is None else Path(font)
    if not path.is_file():
        raise FileNotFoundError(f"no font file at {path}; expected a TrueType file")
    found = path.stat()
    return path, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=8)
def _letters(path: Path, *state: int) -> Letters:
    face = _face(path)
    rows = np.stack([_letter(face, character) for character in GLYPHS]).astype(np.float32)
    return Letters(rows, hashlib.sha256(rows.tobytes()).hexdigest())


def _default() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"


def _face(path: Path) -> Any:
    from matplotlib.ft2font import FT2Font

    try:
        return FT2Font(str(path))
    except RuntimeError as error:
        raise ValueError(f"{path} cannot be read as a TrueType font: {error}") from error


def _straight(vertices: Floats, codes: NDArray[np.uint8]) -> Floats:
    """Return Bézier curves as line segments. Codes: 1 begins a contour, 2 a line, 3 and 4 curves, 79 closes it."""
    pieces: list[tuple[Floats, Floats]] = []
    place, first, last = 0, vertices[0], vertices[0]
    while place < len(codes):
        code = int(codes[place])
        length = {3: 2, 4: 3}.get(code, 1)
        points = [first] if code == 79 else [*vertices[place : place + length]]
        if code == 1:
            first = points[0]
        else:
            path = _curve(np.stack([last, *points]))
            pieces.extend(pairwise(path))
        last, place = points[-1], place + length
    return np.array([(start, end) for start, end in pieces if (start != end).any()])


def _curve(controls: Floats) -> Floats:
    """Return points along a Bézier curve (De Casteljau's algorithm); of a line only its ends."""
    t = np.linspace(0, 1, PIECES + 1 if len(controls) > 2 else 2)[:, None]
    points = [np.broadcast_to(c, (len(t), 2)) for c in controls]
    while len(points) > 1:
        points = [(1 - t) * a + t * b for a, b in pairwise(points)]
    return points[0]


def _letter(face: Any, character: str) -> Floats:
    pieces = outline(face, character)
    x = (np.arange(COLUMNS) - (COLUMNS - 1) / 2) / CELLS
    y = (np.arange(ROWS) - (ROWS - 1) / 2) / CELLS
    distances = signed_distances(pieces, np.tile(x, ROWS), np.repeat(y, COLUMNS))
    angles = 2 * np.pi * np.arange(HULL) / HULL
    ends = pieces[:, 0]
    hull = ends[(np.outer(np.cos(angles), ends[:, 0]) + np.outer(np.sin(angles), ends[:, 1])).argmax(1)]
    return np.concatenate([hull[:, 0], hull[:, 1], distances])


def signed_distances(pieces: Floats, x: Floats, y: Floats) -> Floats:
    """Return signed distances of points to an outline, negative inside (nonzero winding number)."""
    nearest, winding = np.full(len(x), np.inf), np.zeros(len(x), np.int64)
    for (ax, ay), (bx, by) in pieces:
        dx, dy, px, py = bx - ax, by - ay, x - ax, y - ay
        along = np.clip((px * dx + py * dy) / (dx * dx + dy * dy), 0, 1)
        nearest = np.minimum(nearest, (px - along * dx) ** 2 + (py - along * dy) ** 2)
        left = dx * py - dy * px > 0
        winding += ((ay <= y) & (y < by) & left).astype(np.int64) - ((by <= y) & (y < ay) & ~left)
    distances: Floats = np.where(winding != 0, -1.0, 1.0) * np.sqrt(nearest)
    return distances
